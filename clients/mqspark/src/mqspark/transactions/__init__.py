"""Branches of a sink, their decision, and healing after failures."""
