"""JMS messages of all types, and the conversion of their values."""
