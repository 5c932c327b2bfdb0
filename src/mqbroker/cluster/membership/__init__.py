"""The members of a cluster: discovery, topology, the connection of each member, votes."""
