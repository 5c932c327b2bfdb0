"""Queues of other members: their consumers, the ways to them, and rerouting."""
