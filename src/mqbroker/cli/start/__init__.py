"""Commands that make, start and stop a broker."""
