"""Home brokers: Open Message Queue's clusters, in which a message stays with the broker that took it until somebody has consumed it.

A broker without ``Configuration.home_cluster`` imports nothing of this package.
"""
