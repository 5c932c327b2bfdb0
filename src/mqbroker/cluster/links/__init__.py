"""A link that is kept up to one other broker, and what goes over it: contact, bridge, forwarder.  Members and topology do not come in."""
