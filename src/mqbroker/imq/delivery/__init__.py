"""Delivery in a home cluster: consumers here get what other members keep, and those hear how it was settled.

Links come in from below.  Definitions and the change record do not: a queue that is here is enough.
"""
