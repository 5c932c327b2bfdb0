"""The sink: plans, targets, sending.  Of the room of readers only checkpoints come in."""
