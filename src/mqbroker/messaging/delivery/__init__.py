"""The way of a message: arriving, distribution to queues, sends, acknowledgements, transactions, and messages that go to another queue.

Addresses and queues are not made here: a part that needs new ones asks a protocol that administration implements.
"""
