"""The fast way for messages that arrive in a row: a chunk of bytes is handled as one batch where all of them are plain."""
