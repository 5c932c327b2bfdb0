"""A link that is kept up to one other broker: contact, bridge, and the forwarder of messages.  This room does not import members and
topology."""
