"""Sends, acknowledgements, transactions and branches, and messages that go to another queue."""
