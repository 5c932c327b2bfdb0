"""TLS of the client: contexts, policy, key stores.  Loops and connections do not come in: a shell asks for a context or for PEM."""
