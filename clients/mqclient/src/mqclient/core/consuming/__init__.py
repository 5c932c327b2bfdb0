"""Consumers: buffers, credits, acknowledgements, browsing."""
