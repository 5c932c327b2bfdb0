"""The locator, its session factories, and how a factory makes sessions and restores them on a new connection.

The highest room of the core: every other room may be used here, and no other room may use it.
"""
