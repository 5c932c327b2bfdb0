"""Brokers as the driver and tasks see them: connections, management, nodes, records."""
