"""The lock manager on ZooKeeper, with the nodes of Artemis (there by Curator's InterProcessSemaphoreV2 and DistributedAtomicLong)."""
