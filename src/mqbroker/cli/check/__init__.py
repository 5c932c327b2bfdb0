"""Commands that check a node, a queue or a configuration."""
