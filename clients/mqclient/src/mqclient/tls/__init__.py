"""TLS of the client: contexts, policy, key stores."""
