"""Spark's data sources for messages, and jobs with them.

mqclient comes in, the broker does not: an executor speaks to brokers over the network, or reads their files.
"""
