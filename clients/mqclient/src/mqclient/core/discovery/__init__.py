"""Finding brokers: broadcasts, JGroups channels, their members.  Sessions and factories do not come in."""
