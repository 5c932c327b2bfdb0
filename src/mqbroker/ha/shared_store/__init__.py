"""Shared store: brokers of one folder, of which the one that holds its lock is active (Artemis manual, chapter on high availability)."""
