"""Replication: the changes of one store's files, told in their order, and a second file system on which they are repeated (decision 37).

Nothing here knows what the files mean, or how the bytes travel.
"""
