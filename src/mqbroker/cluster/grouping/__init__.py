"""Message groups in a cluster: the local and the remote grouping handler.

Decisions travel as notifications that others carry; links, members and the server do not come in.
"""
