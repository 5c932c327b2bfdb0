"""A blocking client in the shape of JMS 2.0.

::

    from mqclient.jms import ConnectionFactory

    with ConnectionFactory("tcp://localhost:61616").create_context() as context:
        context.create_producer().send("queue://greetings", "Hello")
        print(context.create_consumer("queue://greetings").receive_body(timeout=1000))

The differences from Java are in ``docs/client-guide.md``: names are in snake case, getters and setters are attributes, everything that
can be closed is a context manager, timeouts are ms with None for "for ever" and 0 for "do not wait".
"""

from mqclient.core.api import FailoverEvent
from mqclient.jms.connection import Connection, ConnectionMetaData
from mqclient.jms.consumer import MessageConsumer, QueueBrowser
from mqclient.jms.context import JMSConsumer, JMSContext, JMSProducer
from mqclient.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from mqclient.jms.exceptions import (
    IllegalArgumentException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSSecurityException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    TransactionInProgressException,
    TransactionRolledBackException,
)
from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import DeliveryMode, Message
from mqclient.jms.messages.simple_messages import JavaSerialized, ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.jms.messages.values import Byte, Char, Float, Long, Short
from mqclient.jms.modes import AcknowledgeMode
from mqclient.jms.producer import CompletionListener, MessageProducer
from mqclient.jms.session import Session
from mqclient.jms.settings import FactorySettings
from mqclient.jms.xa import XAConnection, XAConnectionFactory, XAJMSContext, XAResource, XASession

__all__ = [
    "AcknowledgeMode",
    "Byte",
    "BytesMessage",
    "Char",
    "CompletionListener",
    "Connection",
    "ConnectionFactory",
    "ConnectionMetaData",
    "DeliveryMode",
    "Destination",
    "FactorySettings",
    "FailoverEvent",
    "Float",
    "IllegalArgumentException",
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSConsumer",
    "JMSContext",
    "JMSException",
    "JMSProducer",
    "JMSSecurityException",
    "JavaSerialized",
    "Long",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageEOFException",
    "MessageFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "MessageProducer",
    "ObjectMessage",
    "Queue",
    "QueueBrowser",
    "Session",
    "Short",
    "StreamMessage",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "TransactionInProgressException",
    "TransactionRolledBackException",
    "XAConnection",
    "XAConnectionFactory",
    "XAJMSContext",
    "XAResource",
    "XASession",
]
