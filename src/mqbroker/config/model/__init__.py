"""The configuration as values, and beside them the tables of all elements of broker.xml that fill them.

Reading, error messages and ``docs/configuration.md`` are made from the tables (``*_elements``, :mod:`.blocks`, :mod:`.missing_blocks`).  A
running broker imports the values alone.  This room reads no files.
"""
