"""Packets, messages and properties as bytes, and the description of the wire.  No I/O, and no state but that of a frame half read."""
