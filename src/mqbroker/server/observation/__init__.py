"""Figures, metrics, health and notifications.  Observation reads the broker and changes nothing.

Sessions, consumers and the server are known here by a few attributes only: this room does not import their modules.
"""
