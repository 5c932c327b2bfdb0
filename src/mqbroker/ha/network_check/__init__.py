"""Network check: a broker that reaches none of the configured places stops until one answers (Artemis manual, "Network Isolation").

The ways to ask a place are passed in; other brokers, and who is active, do not come in.
"""
