"""The fast way for messages that arrive in a row: a chunk of bytes is handled as one batch where all of them are plain.

A run takes the session as its ``SessionState`` and the sends as a ``Sender``; nothing here knows consumers, or other parts of a session.
"""
