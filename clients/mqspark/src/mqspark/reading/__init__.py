"""Batch and stream readers: offsets, positions, pushed filters, checkpoints."""
