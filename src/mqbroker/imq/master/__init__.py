"""The master broker, which keeps the change record: how a broker comes to what that says, and how another broker becomes the master."""
