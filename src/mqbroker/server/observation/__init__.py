"""Figures, metrics, health and notifications.  Observation reads the broker and changes nothing.

Sessions, consumers and the server are known here by the few things that are told of them: this room imports neither.
"""
