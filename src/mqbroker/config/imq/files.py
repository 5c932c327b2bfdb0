"""Where an instance of Open Message Queue has its files."""

PROPERTIES_FILE = "props/config.properties"
"""The instance's own properties.  It makes an instance folder one of Open Message Queue."""
