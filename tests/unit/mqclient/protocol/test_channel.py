"""The session channel without I/O."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.protocol.channel import SessionChannel
from mqclient.wire.packets import (
    ExceptionResponse,
    NullResponse,
    QueueQueryResponseV3,
    SessionSend,
)


class ChannelTests(SynchronousTestCase):
    def test_numbers(self) -> None:
        channel = SessionChannel(10, -1, 136)
        self.assertEqual([channel.next_blocking_correlation() for _ in range(3)], [-2, -3, -4])
        self.assertEqual([channel.next_async_correlation() for _ in range(3)], [1, 2, 3])

    def test_what_answers_a_call(self) -> None:
        channel = SessionChannel(10, -1, 136)
        self.assertFalse(channel.completes_call(NullResponse(-1)))
        channel.begin_call((NullResponse,), -7)
        for packet, answers in (
            (NullResponse(-7), True),
            (NullResponse(-1), False),
            (NullResponse(-6), False),
            (ExceptionResponse(1, None), True),
            (ExceptionResponse(1, None, -7), True),
            (ExceptionResponse(1, None, 5), False),
            (QueueQueryResponseV3(True, True, False, 0, 0, None, "a", "a"), False),
        ):
            self.assertEqual(channel.completes_call(packet), answers, packet)
        channel.begin_call((QueueQueryResponseV3,), -1)
        self.assertTrue(channel.completes_call(QueueQueryResponseV3(True, True, False, 0, 0, None, "a", "a")))

    def test_versions_without_numbers(self) -> None:
        channel = SessionChannel(10, -1, 129)
        channel.begin_call((NullResponse,), -7)
        self.assertTrue(channel.completes_call(NullResponse(None)))

    def test_kept_frames(self) -> None:
        channel = SessionChannel(10, 1000, 136)
        frames = [channel.frame(SessionSend(bytes(40)), tag=number) for number in (1, 2, 3)]
        self.assertEqual(channel.replay(), frames)
        self.assertEqual(channel.confirmed(1), [1, 2])
        self.assertEqual(channel.replay(), frames[2:])
        channel.restart(136)
        self.assertEqual((channel.replay(), channel.last_confirmed), ([], -1))

    def test_without_a_window_nothing_is_kept(self) -> None:
        channel = SessionChannel(10, -1, 136)
        channel.frame(SessionSend(bytes(40)), tag=1)
        self.assertEqual((channel.replay(), channel.confirmed(5), channel.flush(), channel.last_confirmed), ([], [], None, -1))
