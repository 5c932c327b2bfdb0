"""The table of everything that broker.xml may contain.

Reading, error messages and ``docs/configuration.md`` are all made from it.  :mod:`.model` says how an entry looks and :mod:`.values` how
its text becomes a value; the other modules hold the entries: :mod:`.server`, :mod:`.storage`, :mod:`.address`, :mod:`.cluster`,
:mod:`.blocks`.  Files do not come in.
"""
