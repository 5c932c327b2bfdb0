"""The interface of the core client: the classes of its objects under the names of the Java core API, settings, listeners.

A shell makes the first of them, the locator: :mod:`mqclient.twisted` (awaitables are Deferreds), :mod:`mqclient.asyncio` (awaitables are
tasks and futures), :mod:`mqclient.sockets` or :mod:`mqclient.blocking` (calls that wait in the caller's thread).  Methods have the names
of the Java core API in Python spelling.

Rules that hold for every object here:

* All methods must be called in the thread of the reactor or loop; only :mod:`mqclient.blocking` may be used from others.
* A method that returns an ``Awaitable`` starts even if the awaitable is never awaited: at once under Twisted, in the loop's next turn under
  asyncio, in the order of the calls.
* Locators, factories, sessions, producers and consumers are closed at the end of ``async with``::

      async with server_locator(url) as locator, await locator.create_session_factory() as factory:
          async with await factory.create_session() as session:
              ...

* Every call to the broker is bounded by ``call_timeout``; while a reconnect runs, by ``call_failover_timeout``.
  Exceptions: ``ClientConsumer.receive()`` without a timeout and sends to a full address with the BLOCK policy.
* Errors are the classes of :mod:`mqclient.errors`.  After a connection failure a call that waited raises ``UnblockedError``;
  a call on a closed object raises ``ObjectClosedError``.
* Times are milliseconds, sizes are bytes, unless a name says otherwise.
"""

from __future__ import annotations

from mqclient.core.consuming.consumers import Consumer as ClientConsumer
from mqclient.core.factories.locator import Locator as ServerLocator
from mqclient.core.listeners import FailoverEvent, FailoverEventListener, SendAcknowledgementHandler, SessionFailureListener
from mqclient.core.message import ClientMessage, LargeBody
from mqclient.core.sending.producers import Producer as ClientProducer
from mqclient.core.session.branches import Branches as XAResource
from mqclient.core.session.owner import ClientSessionFactory
from mqclient.core.session.session import Session as ClientSession
from mqclient.core.settings import WITHOUT_EFFECT, LocatorSettings, QueueConfiguration, url_parameter_names
from mqclient.wire.packets import ROUTING_ANYCAST, ROUTING_MULTICAST, AddressQueryResult, QueueQueryResult
from mqclient.wire.primitives import TransportConfiguration

__all__ = [
    "ROUTING_ANYCAST",
    "ROUTING_MULTICAST",
    "WITHOUT_EFFECT",
    "AddressQueryResult",
    "ClientConsumer",
    "ClientMessage",
    "ClientProducer",
    "ClientSession",
    "ClientSessionFactory",
    "FailoverEvent",
    "FailoverEventListener",
    "LargeBody",
    "LocatorSettings",
    "QueueConfiguration",
    "QueueQueryResult",
    "SendAcknowledgementHandler",
    "ServerLocator",
    "SessionFailureListener",
    "TransportConfiguration",
    "XAResource",
    "url_parameter_names",
]
