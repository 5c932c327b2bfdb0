"""Consumers with a window of 0: one message at a time, each asked for, from a broker that keeps account of credits."""

from __future__ import annotations

from collections import deque

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire.frames import frame
from mqclient.wire.message import CoreMessage, encode_headers
from mqclient.wire.packets import (
    FlowToken,
    ForceConsumerDelivery,
    Packet,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    encode_packet,
)
from tests.support.network import MemoryLink, ScriptedBroker, World, marker, message

CHANNEL = 10
SIZES = (0, 2000, 0, 2000, 2000, 0)
"""Bodies of messages 1, 2, …: 0 a regular one, else a large one in two chunks."""


class AccountingBroker(ScriptedBroker):
    """Delivers while the consumer's balance is above 0; ``begun`` messages were delivered, at least in part."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self._balance = 0
        self.late = False
        """Does a message come right behind each marker, before the client can withdraw its credit?"""
        self._packets: deque[Packet] = deque()
        for number, size in enumerate(SIZES, 1):
            if not size:
                self._packets.append(message(number))
                continue
            self._packets.append(SessionReceiveLarge(0, 1, size, encode_headers(CoreMessage(number, "q"))))
            self._packets.append(SessionReceiveContinuation(bytes(size // 2), True, 0))
            self._packets.append(SessionReceiveContinuation(bytes(size // 2), False, 0))

    def handle(self, link: MemoryLink, channel: int, packet: Packet) -> None:
        if isinstance(packet, FlowToken):
            self._balance = self._balance + packet.credits if packet.credits else 0
        if not self.late:
            self._deliver(link)
        if isinstance(packet, ForceConsumerDelivery):
            self.send(link, channel, marker(packet))
            self._deliver(link)
        elif not isinstance(packet, FlowToken):
            super().handle(link, channel, packet)

    def _deliver(self, link: MemoryLink) -> None:
        while self._balance > 0 and self._packets:
            sent = self._packets.popleft()
            self._balance -= len(frame(sent.TYPE, CHANNEL, encode_packet(sent, self.version)))
            self.begun += not isinstance(sent, SessionReceiveContinuation)
            self.send(link, CHANNEL, sent)


class SingleMessageTests(SynchronousTestCase):
    def start(self, browse_only: bool) -> None:
        self.broker = AccountingBroker()
        self.world = World(self.broker, consumer_window_size=0)
        session = self.world.session(self.world.factory())
        self.world.finish(session.start())
        self.consumer = self.world.finish(session.create_consumer("q", browse_only=browse_only))

    def check(self, timeout: int | None, read: bool) -> None:
        for number, size in enumerate(SIZES, 1):
            received = self.world.finish(self.consumer.receive(timeout))
            self.assertEqual((received.message_id, self.broker.begun), (number, number))
            if size and read:
                self.assertEqual(len(self.world.finish(received.large.read())), size)
                self.assertEqual(self.broker.begun, number)
        self.assertIsNone(self.world.finish(self.consumer.receive_immediate()))

    def test_browsers_see_all_and_nothing_comes_unasked(self) -> None:
        for timeout in (0, 1000, None):
            for read in (False, True):
                self.start(browse_only=True)
                self.check(timeout, read)

    def test_receivers_get_all_and_nothing_comes_unasked(self) -> None:
        for timeout in (0, 1000, None):
            for read in (False, True):
                self.start(browse_only=False)
                self.check(timeout, read)

    def test_a_receive_that_gives_up_leaves_no_credit_behind(self) -> None:
        self.start(browse_only=False)
        self.check(0, read=False)
        self.assertEqual(self.broker.got(FlowToken)[-1].credits, 0)

    def test_a_message_that_comes_while_its_credit_is_withdrawn_leaves_no_credit_behind(self) -> None:
        self.start(browse_only=False)
        self.broker.late = True
        self.assertIsNone(self.world.finish(self.consumer.receive_immediate()))
        self.broker.late = False
        self.assertEqual(self.broker.begun, 1)
        self.check(None, read=True)
