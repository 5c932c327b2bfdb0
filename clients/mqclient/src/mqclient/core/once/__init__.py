"""Exactly once without code: sends that carry duplicate ids of the client's own, are held, and are repeated after a failure.

Source: the Artemis manual, chapters "Duplicate Message Detection" and "Client Failover".
"""
