"""Branches of a sink, their decision, and healing after failures.  Brokers come in; messages, rows and Spark do not."""
