"""The demo: a cluster whose brokers may be killed."""
