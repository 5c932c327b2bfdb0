"""Brokers as the driver and tasks see them: connections, management, nodes, records.

Neither Spark nor the columns of a message come in.
"""
