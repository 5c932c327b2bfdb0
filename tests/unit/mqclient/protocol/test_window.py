"""The confirmation window: when a confirmation is due, and what is kept until one comes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.protocol.window import ConfirmationWindow


class ReceivingTests(SynchronousTestCase):
    def test_a_confirmation_is_due_when_the_window_is_full(self) -> None:
        window = ConfirmationWindow(100)
        self.assertEqual([window.processed(40) for _ in range(6)], [None, None, 2, None, None, 5])

    def test_a_window_of_0_confirms_every_command(self) -> None:
        window = ConfirmationWindow(0)
        self.assertEqual([window.processed(10), window.processed(10)], [0, 1])

    def test_a_window_below_zero_is_refused(self) -> None:
        self.assertRaises(ValueError, ConfirmationWindow, -1)

    def test_a_confirmation_may_be_asked_for_early_and_says_nothing_twice(self) -> None:
        window = ConfirmationWindow(100)
        self.assertIsNone(window.flush())
        window.processed(10)
        self.assertEqual((window.flush(), window.flush()), (0, None))

    def test_many_commands_are_taken_together_only_as_long_as_none_is_to_be_confirmed(self) -> None:
        window = ConfirmationWindow(100)
        self.assertTrue(window.processed_many(3, 99))
        self.assertFalse(window.processed_many(1, 1))
        self.assertEqual(window.last_confirmed_command_id, 2)
        self.assertEqual(window.processed(1), 3)

    def test_a_refused_command_is_confirmed_with_a_later_one(self) -> None:
        window = ConfirmationWindow(100)
        self.assertIsNone(window.refused(150))
        self.assertEqual(window.refused(10), 0)
        self.assertEqual(window.flush(), 1)


class SendingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.window = ConfirmationWindow(100)
        for frame in (b"a", b"bb", b"ccc"):
            self.window.sent(frame)

    def kept(self) -> tuple[list[bytes], int, int]:
        return self.window.unconfirmed(), self.window.cached, self.window.cached_bytes

    def test_frames_are_kept_until_the_peer_has_them(self) -> None:
        self.assertEqual(self.window.confirmed(1), 2)
        self.assertEqual(self.kept(), ([b"ccc"], 1, 3))

    def test_an_old_confirmation_and_one_of_more_than_was_sent_do_no_harm(self) -> None:
        self.window.confirmed(1)
        self.assertEqual(self.window.confirmed(0), 0)
        self.assertEqual(self.window.confirmed(99), 1)
        self.assertEqual(self.kept(), ([], 0, 0))
        self.window.sent(b"d")
        self.window.sent(b"e")
        self.assertEqual(self.window.confirmed(3), 1)
        self.assertEqual(self.kept(), ([b"e"], 1, 1))

    def test_frames_that_were_sent_together_are_kept_one_by_one(self) -> None:
        self.window.sent_many([b"d", b"e"], 2)
        self.window.confirmed(3)
        self.assertEqual(self.kept(), ([b"e"], 1, 1))

    def test_forgotten_frames_are_still_counted(self) -> None:
        self.window.forget()
        self.window.sent(b"d")
        self.assertEqual(self.window.confirmed(2), 0)
        self.assertEqual(self.window.confirmed(3), 1)

    def test_a_session_that_was_created_anew_counts_from_the_start(self) -> None:
        self.window.processed(10)
        self.window.clear()
        self.assertEqual(self.kept(), ([], 0, 0))
        self.assertEqual((self.window.last_confirmed_command_id, self.window.flush()), (-1, None))
        self.window.sent(b"x")
        self.assertEqual(self.window.confirmed(0), 1)
