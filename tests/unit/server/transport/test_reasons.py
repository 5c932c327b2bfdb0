"""The reasons for which connections end, in the log."""

from __future__ import annotations

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.transport.reasons import KINDS_MAX, KINDS_NAMED, KINDS_WRITTEN_MAX, REASONS_MAX, REPEATED_REASON_SECONDS, ReasonLog
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.unit.server.test_hostile import HostileCase


class ReasonLogTests(HostileCase):
    def setUp(self) -> None:
        super().setUp()
        self.clock = FakeClock()
        self.reasons = ReasonLog(self.clock)

    def test_the_same_reason_of_one_peer_is_one_line_and_a_count(self) -> None:
        for number in range(1000):
            self.reasons.warn(f"10.0.0.1:{number}", f"AMQ222067: SESS_SEND: cut off at {number}")
        self.assertEqual(self.lines, ["AMQ222067: SESS_SEND: cut off at 0"])
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertEqual(len(self.lines), 2)
        self.assertIn("999 more times within 60 s from 10.0.0.1: AMQ222067: SESS_SEND", self.lines[1])
        self.reasons.warn("10.0.0.1:1", "AMQ222067: SESS_SEND: again")
        self.assertEqual(len(self.lines), 3, "a new time begins with a line")

    def test_other_peers_and_other_reasons_have_lines_of_their_own(self) -> None:
        for remote, reason in (
            ("a:1", "AMQ222067: PING: x"),
            ("b:1", "AMQ222067: PING: x"),
            ("a:1", "AMQ222067: COMMIT: x"),
            ("a:1", "words"),
        ):
            self.reasons.warn(remote, reason)
        self.assertEqual(len(self.lines), 4)

    def test_nonsense_of_every_kind_is_some_lines_and_one_with_the_numbers(self) -> None:
        names = [f"PACKET_{chr(65 + number)}" for number in range(26)]
        for number, name in enumerate(names):
            for _ in range(number + 1):
                self.reasons.warn("a:1", f"AMQ222067: {name}: cut off")
        self.assertEqual(self.lines, [f"AMQ222067: {name}: cut off" for name in names[:KINDS_WRITTEN_MAX]])
        self.reasons.warn("a:1", "AMQ229014: another code is not hidden")
        self.reasons.warn("b:1", "AMQ222067: PACKET_Z: another peer is not hidden")
        self.assertEqual(len(self.lines), KINDS_WRITTEN_MAX + 2)
        self.clock.advance(REPEATED_REASON_SECONDS)
        (line,) = self.lines[KINDS_WRITTEN_MAX + 2 :]
        self.assertIn(
            f"{26 * 27 // 2 - KINDS_WRITTEN_MAX} more times within 60 s from a: AMQ222067: PACKET_Z (26), AMQ222067: PACKET_Y (25)", line
        )
        left = 26 - 1 - KINDS_NAMED  # the first kind came once, with a line
        self.assertTrue(line.endswith(f", {left} more kinds ({sum(range(1, left + 1))})"), line)

    def test_the_failed_requests_of_a_peer_are_thinned_by_their_code(self) -> None:
        for name in "ABCDEFGHIJKLMNOP":
            self.reasons.info("a:1", f"PACKET_{name} failed: AMQ229017: Queue {name} does not exist")
        self.reasons.info("a:1", "PACKET_A failed: AMQ229031: another reason")
        self.assertEqual(len(self.lines), KINDS_WRITTEN_MAX + 1)
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertIn("8 more times within 60 s from a: PACKET_I failed: AMQ229017 (1)", self.lines[-1])

    def test_what_peers_say_makes_no_line_of_its_own(self) -> None:
        for _ in range(2):
            self.reasons.warn("a:1", "AMQ229017: Queue x\r\n\x1b[2J\u2028\ud800é does not exist")
        self.clock.advance(REPEATED_REASON_SECONDS)
        shown = "AMQ229017: Queue x\\r\\n\\x1b[2J\\u2028\\ud800é does not exist"
        self.assertEqual(self.lines, [shown, f"1 more times within 60 s from a: {shown}"])

    def test_countless_kinds_share_a_count(self) -> None:
        for number in range(2 * KINDS_MAX):
            self.reasons.warn("a:1", f"AMQ222067: {'A' * (4 + number)}: x")
        for _ in range(KINDS_MAX):
            self.reasons.warn("a:1", f"AMQ222067: {'B' * 500}: x")
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertIn(f"other reasons ({2 * KINDS_MAX})", self.lines[-1])

    def test_countless_peers_share_a_count(self) -> None:
        for number in range(REASONS_MAX + 500):
            self.reasons.warn(f"10.{number}:1", "words")
        self.assertEqual(len(self.lines), REASONS_MAX + 1)
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertIn("499 more times within 60 s from other peers", self.lines[-1])

    def test_a_traceback_is_written_once(self) -> None:
        written: list[int] = []
        for number in range(5):
            self.reasons.failure("a:1", "unexpected failure: ValueError", lambda number=number: written.append(number))
        self.assertEqual(written, [0])

    def test_the_counts_are_told_at_the_end(self) -> None:
        for _ in range(3):
            self.reasons.info("a:1", "words")
        self.reasons.stop()
        self.assertIn("2 more times", self.lines[-1])
        self.clock.advance(1000)
        self.assertEqual(len(self.lines), 2)

    def test_many_refused_messages_of_a_session_are_one_line(self) -> None:
        world = World(Configuration(security_enabled=False, address_settings={"no": {"auto_create_addresses": False}}))
        session = world.peer().open()
        for _ in range(50):
            session.publish(address="no")
        self.assertEqual(len([line for line in self.lines if "was not accepted" in line]), 1)
