"""Who gets a message that was sent to an address: bindings, diverts, remote queues, message groups, duplicate ids.

Routing chooses.  Nothing is stored or delivered here, and :class:`mqbroker.messaging.core.MessagingCore` does not come in.
"""
