"""Addresses whose messages wait in pages, and the state that a start restores."""
