"""Hostile peers against a real broker process, beside a client that behaves."""
