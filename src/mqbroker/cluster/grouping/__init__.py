"""Message groups in a cluster: the local and the remote grouping handler."""
