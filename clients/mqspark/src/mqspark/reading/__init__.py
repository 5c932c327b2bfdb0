"""Batch and stream readers: offsets, positions, pushed filters, checkpoints.  Sending, and the transactions of the sink, do not come in."""
