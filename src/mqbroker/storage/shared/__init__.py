"""What several brokers on one database share beside their messages: the table of the members, and all tables as a whole."""
