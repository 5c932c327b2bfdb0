"""Enhanced clusters [B10]: any number of active brokers on one database; when one fails, another takes over its messages and clients.

The tables come in from :mod:`mqbroker.storage.shared`.  Delivery between members does not.
"""
