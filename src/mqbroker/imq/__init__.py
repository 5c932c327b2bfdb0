"""Home brokers: the conventional clusters of Open Message Queue, in which a message stays with the broker that took it.

``record``: the change record, pure; ``links``: requests between brokers; ``definitions``: what brokers agree on; ``master``: who keeps the
record, and how a broker comes to what it says.
"""
