"""The sending side of a session: producers, flow control, asynchronous sends, encoded sends, uploads of large messages.

The session and its transaction come in only as the protocols that stand here.  This room receives no messages.
"""
