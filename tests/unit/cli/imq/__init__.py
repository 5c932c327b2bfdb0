"""Commands with the words of Open Message Queue."""
