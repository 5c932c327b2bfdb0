"""What a session does for its client: the packets of sends, consumers, acknowledgements, XA and queue administration."""
