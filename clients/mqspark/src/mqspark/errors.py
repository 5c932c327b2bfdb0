"""Errors, one class for each kind.  The text is one sentence: the request, the reason, and the remedy.

All errors can be pickled, since they travel from Spark's executors to the driver.
"""

from __future__ import annotations


class MqsparkError(Exception):
    """Base of all errors of this package; raised itself for answers of a broker that no other class covers."""


class BadOptionError(MqsparkError, ValueError):
    """An option is unknown, is missing, has a bad value, or does not go with another one.  No text of it shows a secret."""


class BrokerUnreachableError(MqsparkError):
    """No broker answers at any address that is known, or a node of the cluster is away longer than may be waited for."""


class LoginError(MqsparkError):
    """The broker does not accept the user or the password."""


class PermissionDeniedError(MqsparkError):
    """The user may not do this on this address or queue; the text names the permission."""


class MissingQueueError(MqsparkError):
    """The queue or address does not exist."""


class ReaderRefusedError(MqsparkError):
    """The broker opens no reader on this queue (it has consumers, or is of a kind that has none); the text has the broker's reason."""


class ReaderMissingError(MqsparkError):
    """The reader of a query is not there: an operator has removed it, or its queue."""


class FencedError(MqsparkError):
    """Another query has opened the same reader since: this one must not go on."""


class DataLossError(MqsparkError):
    """Messages of a range that was promised are not there any more.  ``failOnDataLoss=false`` goes on without them."""


class MessageGoneError(DataLossError):
    """A large message is not there any more, so that the rest of its body cannot be read."""


class DuplicateCacheError(MqsparkError):
    """The duplicate id cache of an address is too small to keep a batch from being doubled."""


class SchemaError(MqsparkError):
    """A column is unknown, has a wrong type, or holds a value that no message can hold."""


class MessageFormatError(MqsparkError):
    """A message cannot be decoded: its type is unknown, or its bytes are damaged."""


class JournalError(MqsparkError):
    """A data folder cannot be read: the folder is no data folder, belongs to another broker, or is damaged (file and offset are in the
    text)."""
