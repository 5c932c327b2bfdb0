"""What jobs ask brokers: connections, management, nodes, records."""
