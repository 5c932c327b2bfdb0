"""Addresses, and queues of all kinds with their references, groups and consumers.  A queue knows nothing of sessions, bridges or
management.
"""
