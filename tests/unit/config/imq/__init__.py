"""The properties of instances of Open Message Queue."""
