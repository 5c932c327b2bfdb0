"""Producers: flow control, asynchronous sends, encoded sends, uploads of large messages."""
