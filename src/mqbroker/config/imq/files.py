"""The files of an instance of Open Message Queue, and the beginning of its properties."""

PREFIX = "imq."
"""Begins the name of every property."""

GIVEN_PROPERTIES = "MQBROKER_IMQ_PROPERTIES"
"""The environment variable with properties that stand on no command line, as a JSON object: passwords among them."""

PROPERTIES_FILE = "props/config.properties"
"""The instance's own properties.  It makes an instance folder one of Open Message Queue."""
