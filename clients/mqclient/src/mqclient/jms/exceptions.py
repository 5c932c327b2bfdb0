"""The JMSException family, and how errors of the CORE protocol become one of them.

The mapping is that of the Java client (Artemis manual, "Error codes"): the CORE code stays readable as ``error_code`` (text, as JMS
has it) and the original exception as ``__cause__``.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from mqclient import errors


class JMSException(Exception):
    """Base of every error of this API.  ``error_code`` is a text: the CORE code, ``FAILOVER``, ``DISCONNECT``, or None."""

    def __init__(self, reason: str = "", error_code: str | None = None) -> None:
        super().__init__(reason)
        self.error_code = error_code


class IllegalStateException(JMSException):
    """The call is not allowed now: the object is closed, or the mode of the session forbids it."""


class IllegalArgumentException(JMSException, ValueError):
    """A connection URL or another argument cannot be used; nothing has been sent."""


class InvalidClientIDException(JMSException):
    """Another live connection uses this client id."""


class InvalidDestinationException(JMSException):
    """The destination does not exist and must not be created, or is of the other kind."""


class InvalidSelectorException(JMSException):
    """The broker cannot parse the selector."""


class JMSSecurityException(JMSException):
    """Wrong credentials, or a permission is missing."""


class MessageEOFException(JMSException):
    """A read went past the end of a bytes or stream message."""


class MessageFormatException(JMSException, ValueError):
    """A value cannot be read or written as the type that was asked for."""


class MessageNotReadableException(JMSException):
    """The body is being written; ``reset()`` it first."""


class MessageNotWriteableException(JMSException):
    """The message was received; ``clear_body()`` or ``clear_properties()`` first."""


class TransactionInProgressException(JMSException):
    """The transaction belongs to a transaction manager, which commits it or rolls it back."""


class TransactionRolledBackException(JMSException):
    """The commit did not happen; the work of the transaction is undone."""


_BY_ERROR: Final[tuple[tuple[type[errors.MQError], type[JMSException]], ...]] = (
    (errors.UnsupportedPacketError, IllegalStateException),
    (errors.ObjectClosedError, IllegalStateException),
    (errors.IllegalStateError, IllegalStateException),
    (errors.QueueDoesNotExistError, InvalidDestinationException),
    (errors.QueueExistsError, InvalidDestinationException),
    (errors.InvalidFilterExpressionError, InvalidSelectorException),
    (errors.SecurityError, JMSSecurityException),
    (errors.TransactionRolledBackError, TransactionRolledBackException),
)


def jms_exception(error: errors.MQError) -> JMSException:
    """The JMS exception for ``error``; set ``__cause__`` by raising it ``from error``."""
    for kind, result in _BY_ERROR:
        if isinstance(error, kind):
            return result(str(error), str(error.code))
    return JMSException(str(error), str(error.code))


class JMSErrors:
    """``with JMSErrors():`` raises the JMS exception in place of an :class:`mqclient.errors.MQError`."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, errors.MQError):
            raise jms_exception(error) from error


JMS_ERRORS: Final = JMSErrors()
"""The one instance that is needed: it has no state."""
