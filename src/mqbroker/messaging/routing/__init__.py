"""The choice of the queues for a sent message: bindings, diverts, remote queues, message groups, duplicate ids.

Routing only chooses: this room stores and delivers nothing, and does not import :class:`mqbroker.messaging.core.MessagingCore`.
"""
