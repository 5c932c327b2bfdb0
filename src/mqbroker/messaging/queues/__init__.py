"""Addresses, and queues of all kinds with their references, groups, consumers, readers and pages.

A queue knows nothing of routing, sessions, bridges or management.
"""
