"""JMS messages of all types, and the conversion of their values.

Messages of the core client come in; connections, sessions, producers and consumers do not.
"""
