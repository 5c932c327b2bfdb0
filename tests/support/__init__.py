"""What tests of all kinds share: the outside world of a broker, in memory."""
