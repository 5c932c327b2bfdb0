"""Where an instance of Open Message Queue has its files, and how its properties begin."""

PREFIX = "imq."
"""Begins the name of every property."""

PROPERTIES_FILE = "props/config.properties"
"""The instance's own properties.  It makes an instance folder one of Open Message Queue."""
