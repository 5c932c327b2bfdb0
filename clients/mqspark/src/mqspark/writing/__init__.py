"""The sink: plans, targets, sending."""
