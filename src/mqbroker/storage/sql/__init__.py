"""The store in a database: messages are rows, batches are transactions, and each transaction proves that the session is still its own.

Modules here know SQL that every database of :mod:`mqbroker.process.databases` understands, and no driver.  A session belongs to one
broker at a time (:mod:`mqbroker.storage.sql.session`).  Rooms below: tickets, bodies in local files, the disk writer as the thread that
talks to the database.
"""
