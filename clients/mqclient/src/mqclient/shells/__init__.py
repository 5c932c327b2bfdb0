"""The parts of the shells: networks, loops and threads for Twisted, asyncio, plain sockets and blocking calls.

The shells themselves (``mqclient.twisted`` and the others) come in only as the protocols that stand here.
"""
