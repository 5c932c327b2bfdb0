"""Commands that make, start and stop a broker.

A running broker is reached by files of its instance alone: sessions and management do not come in.
"""
