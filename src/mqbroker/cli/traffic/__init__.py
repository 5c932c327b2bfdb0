"""Commands that send and receive: producer, consumer, browser, load.  Each is a client like any other; nothing of the broker comes in."""
