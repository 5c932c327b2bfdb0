"""Queues of other members: what they tell of their consumers, ways there, rerouting."""
