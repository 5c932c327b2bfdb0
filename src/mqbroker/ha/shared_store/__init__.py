"""Shared store: brokers of one folder or database; the holder of its lock is active (Artemis manual, chapter on high availability).

Other brokers are met at the lock and the state alone; links and clusters do not come in.
"""
