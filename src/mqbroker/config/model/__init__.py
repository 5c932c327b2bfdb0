"""The configuration as values.  Nothing here reads a file."""
