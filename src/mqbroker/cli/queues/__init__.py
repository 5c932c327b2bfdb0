"""Commands that look at or change addresses, queues, readers and users."""
