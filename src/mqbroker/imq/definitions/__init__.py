"""The agreements among the brokers of a home cluster: definitions, names, temporary destinations, and the ends of automatic ones.

The keeper of the record (a master, or a database) comes in as a protocol; messages and their delivery do not.
"""
