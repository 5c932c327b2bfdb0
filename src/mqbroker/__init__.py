"""The broker.  Each package is a layer, and each folder inside a package a room (decision 19).

A newcomer begins with :mod:`mqbroker.node`, which puts a broker together, and with ``docs/architecture.md``.
"""

__version__ = "0.1.0"
