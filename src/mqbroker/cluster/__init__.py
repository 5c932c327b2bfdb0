"""Other brokers: cluster connections, their members, links and remote queues, message groups, core bridges.

A cluster comes in above the server, whose port for it is :mod:`mqbroker.server.cluster_port`; high availability and home brokers stand
higher and do not come in.  Clients to other brokers are made with a runtime that is passed in: sockets do not come in either.
"""
