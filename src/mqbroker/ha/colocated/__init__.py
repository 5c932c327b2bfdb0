"""Backups in the process of another broker: who asks for one, who hosts one, and what the hosted broker is made of."""
