"""The requests of OpenMQ's commands to a broker: for destinations, subscriptions, the broker with its properties, the cluster.

The highest room.  Words and columns of the commands stand in :mod:`mqbroker.cli.imq`.
"""
