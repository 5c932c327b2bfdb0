"""Commands that look at or change addresses, queues, readers and users.

Each is a request to the management of a running broker; data folders do not come in.
"""
