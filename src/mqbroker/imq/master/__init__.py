"""The master broker, which keeps the change record: how a broker comes to what that says, and how another broker becomes the master.

Databases do not come in, nor messages: clusters without a master are in ``peers``.
"""
