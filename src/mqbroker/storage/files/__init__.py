"""The store on files: batches, bindings, large bodies, restoring, recovering.

The disk comes in as a port (room ``disk``).  Replication and databases do not.
"""
