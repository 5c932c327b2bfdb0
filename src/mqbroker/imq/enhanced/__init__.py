"""Enhanced clusters [B10]: any number of active brokers on one database; when one fails, another takes over its messages and clients."""
