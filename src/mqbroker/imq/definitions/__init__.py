"""What the brokers of a home cluster agree on: definitions, names, temporary destinations, and the ends of automatic ones."""
