"""Stores: messages, bindings and pages in files, in a database, or in memory alone.

Each fulfils the contract of :mod:`mqbroker.messaging.ports`.  File systems, databases and threads are passed in.  Sessions and packets do
not come in: a message is bytes with an id here.
"""
