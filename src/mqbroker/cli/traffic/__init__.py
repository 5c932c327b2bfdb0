"""Commands that send and receive: producer, consumer, browser, load."""
