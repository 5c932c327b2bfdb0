"""One connection to a broker: its channels, its life from the first attempt to its end, where to connect next, and settings from URLs.

A connection knows a session only as :class:`mqclient.core.connection.connection.FrameHandler`.  This room does not import sessions and
factories.
"""
