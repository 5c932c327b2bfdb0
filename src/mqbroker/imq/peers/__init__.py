"""A cluster without a distinguished broker: the change record, and who is there, are tables of a database that all members reach.

Databases come in through :mod:`mqbroker.storage.sql`; a master does not.
"""
