"""The state of a connection, a session and a topology: bytes and times in, events and bytes out.  No I/O, no clock, no coroutines."""
