"""The receiving side of a session: consumers, buffers, credits, acknowledgements, browsing, message handlers.

The session and its transaction come in only as the protocols that stand here.  This room sends no messages.
"""
