"""The members of a cluster: discovery, topology, the connection of each member, votes.

This room does not import the cluster connection; each part has a protocol with the methods that it needs from it.
"""
