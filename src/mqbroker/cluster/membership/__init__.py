"""The members of a cluster: discovery, topology, the connection of each member, votes.

The cluster connection that all of them belong to does not come in: each part has a protocol of what it needs of it.
"""
