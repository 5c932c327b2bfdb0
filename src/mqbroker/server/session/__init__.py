"""The packets of a session: sends, consumers, acknowledgements, XA, readers and queue administration.

A part takes the session as a :class:`~mqbroker.server.session_state.SessionState`, and other parts that it needs when it is made; only
``session`` knows all parts, and only ``sessions`` makes sessions.  No part knows the server beyond its ``ServerState``, or management.
"""
