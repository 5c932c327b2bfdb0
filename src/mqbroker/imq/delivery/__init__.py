"""Delivery in a home cluster: consumers here get what other members keep, and those hear how it was settled."""
