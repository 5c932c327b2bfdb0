"""Figures, metrics, health and notifications.  Observation reads the broker and changes nothing."""
