"""The event loops under the client: Twisted, asyncio, plain sockets, threads."""
