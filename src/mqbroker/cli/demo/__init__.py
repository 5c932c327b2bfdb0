"""Demonstrations: brokers under load, which may be killed.  The brokers are processes of their own; no code of theirs comes in."""
