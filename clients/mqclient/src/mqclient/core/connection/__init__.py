"""The connection of a session factory: creating, watching, reconnecting, closing."""
