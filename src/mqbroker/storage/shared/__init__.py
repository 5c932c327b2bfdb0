"""Tables that several brokers on one database share beside their messages: the table of the members, and all tables as a whole.

SQL comes in from the room ``sql``; the messages of a broker, and what members do with each other, do not.
"""
