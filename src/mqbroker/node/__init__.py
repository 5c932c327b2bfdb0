"""One broker of passed-in parts: how it is put together, how it starts and how it ends.

The assembly of a broker and its life stand here.  They know no reactor, socket, file or thread: clock, disk, network and entropy come in as
:class:`mqbroker.node.parts.Parts`, from the application or from a simulation.
"""
