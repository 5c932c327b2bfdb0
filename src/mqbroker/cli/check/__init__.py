"""Commands that check a node, a queue, a configuration, or how long a takeover takes.

A check changes nothing: it asks a broker by management, or reads the files of an instance.
"""
