"""One exception class per CORE error code.

Source: the CORE protocol's EXCEPTION packet (``protocol-spec/``, "Error codes").  The broker raises the same classes, so that a failure has
the same code in the broker and in the client.
"""

from __future__ import annotations

from typing import ClassVar

ERROR_CLASSES: dict[int, type[MQError]] = {}


class MQError(Exception):
    """Base of every error that has a code on the wire.

    ``code`` is the number in the EXCEPTION packet; ``retriable`` says whether the same call may be
    made again unchanged.
    """

    code: ClassVar[int] = 999
    retriable: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "code" in cls.__dict__:
            if cls.code in ERROR_CLASSES:
                raise TypeError(f"error code {cls.code} is used twice")
            ERROR_CLASSES[cls.code] = cls


def error_for_code(code: int, message: str | None) -> MQError:
    """The exception that an EXCEPTION packet stands for; an unknown code becomes :class:`GenericError`."""
    return ERROR_CLASSES.get(code, GenericError)(message or "")


class InternalError(MQError):
    code = 0


class UnsupportedPacketError(MQError):
    code = 1


class NotConnectedError(MQError):
    code = 2
    retriable = True


class ConnectionTimedOutError(MQError):
    code = 3
    retriable = True


class DisconnectedError(MQError):
    code = 4
    retriable = True


class UnblockedError(MQError):
    """A blocking call was interrupted by a connection failure; its outcome is unknown."""

    code = 5


class IOFailureError(MQError):
    code = 6


class QueueDoesNotExistError(MQError):
    code = 100


class QueueExistsError(MQError):
    code = 101


class ObjectClosedError(MQError):
    code = 102


class InvalidFilterExpressionError(MQError):
    code = 103


class IllegalStateError(MQError):
    code = 104


class SecurityError(MQError):
    code = 105


class AddressDoesNotExistError(MQError):
    code = 106


class AddressExistsError(MQError):
    code = 107


class IncompatibleVersionsError(MQError):
    code = 108


class LargeMessageBodyError(MQError):
    code = 110


class TransactionRolledBackError(MQError):
    code = 111
    retriable = True


class SessionCreationRejectedError(MQError):
    code = 112


class DuplicateIdRejectedError(MQError):
    code = 113


class DuplicateMetadataError(MQError):
    code = 114


class TransactionOutcomeUnknownError(MQError):
    code = 115


class AlreadyReplicatingError(MQError):
    code = 116


class InterceptorRejectedPacketError(MQError):
    code = 117


class InvalidTransientQueueUseError(MQError):
    code = 118


class RemoteDisconnectError(MQError):
    code = 119
    retriable = True


class TransactionTimeoutError(MQError):
    code = 120


class AddressFullError(MQError):
    code = 210
    retriable = True


class LargeMessageInterruptedError(MQError):
    code = 211


class LargeMessageTakenBackError(LargeMessageInterruptedError):
    """A failure of the connection has cut off the body that was being read; the broker delivers the message again."""


class ClusterSecurityError(MQError):
    code = 212


class NotImplementedByBrokerError(MQError):
    code = 213


class MaxConsumerLimitExceededError(MQError):
    code = 214


class UnexpectedRoutingTypeError(MQError):
    code = 215


class InvalidQueueConfigurationError(MQError):
    code = 216


class DeleteAddressError(MQError):
    code = 217


class NullReferenceError(MQError):
    code = 218


class ShutdownError(MQError):
    code = 219


class ReplicationTimeoutError(MQError):
    code = 220


class DivertDoesNotExistError(MQError):
    code = 221


class RoutingError(MQError):
    code = 222


class OperationTimeoutError(MQError):
    code = 223


class MessageTooLargeError(MQError):
    """The message has more bytes or properties than a broker takes; it was not sent."""


class ExactlyOnceError(MQError):
    """``exactlyOnce`` cannot be kept for this send or commit: base of the reasons."""


class IdCacheError(ExactlyOnceError):
    """The broker keeps too few duplicate ids of the address, forgets them when it restarts, or does not say.

    Nothing was sent; or, where another broker with the same node id goes on and keeps too few, the error names the id that is in doubt.
    """


class BodyNotRepeatableError(ExactlyOnceError):
    """The body of a large message cannot be read a second time.  Nothing of it is in effect."""


class NodeLostError(ExactlyOnceError):
    """The node that got the work first is not to be had any more, and no other node knows whether the work took effect."""


class GenericError(MQError):
    code = 999


class ProtocolError(MQError):
    """The peer broke the protocol; the connection cannot go on."""


class FrameTooLargeError(ProtocolError):
    """A frame announces more bytes than the limit in force."""


class MalformedPacketError(ProtocolError):
    """A packet cannot be read; ``packet`` and ``field`` say where."""

    def __init__(self, packet: str, field: str, reason: str) -> None:
        super().__init__(f"{packet}.{field}: {reason}")
        self.packet = packet
        self.field = field
        self.reason = reason
