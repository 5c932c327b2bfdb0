"""What a broker is put together of for one activation, and again for the next."""

from __future__ import annotations

from typing import Any

from mqbroker.messaging.ports import Inherited, Recovered
from mqbroker.node.stores import make_store
from tests.unit.node.test_life import StartCase


class AssemblyTests(StartCase):
    def test_a_broker_alone_is_active_at_once(self) -> None:
        life = self.life()
        self.assertEqual(life.state, "stopped")
        life.start()
        self.assertEqual((life.state, life.live(), life.ready()), ("active", None, None))
        self.assertTrue(self.pages[0].is_open and self.listeners[0].is_open)
        self.stopped(life)
        self.assertFalse(self.pages[0].is_open or self.listeners[0].is_open)

    def test_the_same_broker_becomes_active_again_with_what_it_kept(self) -> None:
        life = self.life()
        life.start()
        self.make_queue(life)
        self.stopped(life)
        life.start()
        self.assertIn("q", life.active.messaging.core.queues)
        self.stopped(life)

    def test_temporary_destinations_that_were_taken_over_and_not_read_are_there_at_the_next_start(self) -> None:
        kind = "imq-temporary"
        found = Recovered(settings={(kind, "theirs"): "1", (kind, "both"): "2", ("another", "theirs"): "3"})

        def make(*arguments: Any) -> Any:
            store = make_store(*arguments)
            load = store.load

            def inherited() -> Recovered:
                recovered = load()
                recovered.settings[kind, "both"] = "4"
                recovered.inherited = [Inherited(found, lambda known: {})]
                return recovered

            self.patch(store, "load", inherited)
            return store

        life = self.life(make_store=make)
        life.start()
        kept = {name: text for (kind, name), text in life.active._kept.items()}
        self.assertEqual(kept, {"theirs": "1", "both": "4"})
        self.stopped(life)
