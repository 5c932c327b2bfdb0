"""The lock manager on ZooKeeper, with the nodes of Artemis (there by Curator's InterProcessSemaphoreV2 and DistributedAtomicLong).

A client of ZooKeeper is passed in as a session; kazoo does not come in.
"""
