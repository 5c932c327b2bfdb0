"""Finding brokers: broadcasts, JGroups channels, their members."""
