"""How elements of broker.xml are described: :mod:`.model` has the entries of the tables, :mod:`.values` the kinds of their values.

The tables themselves stand in :mod:`mqbroker.config.model`, beside the fields that they fill.  Files do not come in.
"""
