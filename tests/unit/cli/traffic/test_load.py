"""What ``producer``, ``consumer`` and ``browser`` share: destinations, pauses and threads."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.status import BadUsage
from mqbroker.cli.traffic.load import Load, Pause, destination_of
from mqclient.jms import Queue, Topic


class DestinationTests(SynchronousTestCase):
    def test_schemes_choose_the_kind_and_a_name_alone_is_a_queue(self) -> None:
        for text, kind, name in (("queue://q", Queue, "q"), ("topic://t", Topic, "t"), ("q", Queue, "q"), ("fqqn://a::q", Queue, "a::q")):
            found = destination_of(text)
            self.assertEqual((type(found), found.name), (kind, name))

    def test_a_queue_of_an_address_needs_both_names(self) -> None:
        self.assertIn("expected fqqn://ADDRESS::QUEUE", str(self.assertRaises(BadUsage, destination_of, "fqqn://a")))

    def test_another_scheme_is_refused_with_those_that_there_are(self) -> None:
        self.assertIn("expected queue://NAME, topic://NAME", str(self.assertRaises(BadUsage, destination_of, "jms://q")))


class LoadTests(SynchronousTestCase):
    def load(self, threads: int = 1, destination: str = "q") -> Load:
        connection = ConnectionOptions(None, "artemis", None, None, None, True, False, None)
        return Load(connection, destination, 5, threads, 0, 0, True)

    def test_every_thread_works_once_with_a_tally_of_its_own(self) -> None:
        done: list[int] = []

        def work(thread: int, tally: Any, advance: Any) -> None:
            done.append(thread)

        tallies, _ = self.load(threads=3).run(1, "", work)
        self.assertEqual((sorted(done), len(tallies)), ([0, 1, 2], 3))

    def test_an_error_of_one_thread_is_kept_and_ends_the_others(self) -> None:
        load = self.load(threads=2)

        def work(thread: int, tally: Any, advance: Any) -> None:
            if thread:
                raise ValueError("broken")
            while load.pause():
                pass

        tallies, _ = load.run(1, "", work)
        self.assertEqual([str(tally.error) for tally in tallies], ["None", "broken"])

    def test_threads_call_themselves_as_those_of_artemis(self) -> None:
        self.assertEqual(self.load().label("Producer", 1), "Producer ActiveMQQueue[q], thread=1")
        self.assertEqual(self.load(destination="topic://t").label("Consumer", 0), "Consumer ActiveMQTopic[t], thread=0")

    def test_a_pause_ends_when_the_command_is_interrupted(self) -> None:
        pause = Pause(3_600_000)
        pause.stopped.set()
        self.assertFalse(pause())
