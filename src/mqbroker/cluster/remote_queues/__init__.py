"""Queues of other members: their consumers, the ways to them, and rerouting.

Notifications of members come in through a session; members, topology and the making of links do not.
"""
