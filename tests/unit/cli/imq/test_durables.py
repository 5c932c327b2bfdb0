"""Commands about durable subscriptions."""

from __future__ import annotations

import json

from tests.unit.cli.imq.support import CommandCase

ROW = {"name": "sub", "clientID": "c1", "topic": "news", "durable": True, "msgs": 3, "state": "INACTIVE"}


class DurableTests(CommandCase):
    def test_all_of_them(self) -> None:
        self.answer(listDurables=[ROW])
        out = self.good("list", "dur")
        self.assertIn("Subscription Name   Client ID   Destination Name   Durable   Messages   Subscription State\n", out)
        self.assertIn("sub                 c1          news               true      3          INACTIVE\n", out)
        self.assertEqual(json.loads(self.good("list", "dur", "--json")), [ROW])

    def test_those_of_a_topic(self) -> None:
        self.answer(listDurables=[ROW])
        out = self.good("list", "dur", "-d", "news")
        self.assertTrue(out.startswith("Listing all subscriptions on the topic 'news'\non the broker specified by:\n"))
        self.assertIn("sub                 c1          true      3          INACTIVE\n", out)
        self.assertEqual(self.asked(), [("listDurables", "news")])

    def test_destroy(self) -> None:
        out = self.good("destroy", "dur", "-n", "sub", "-c", "c1", say="y")
        self.assertIn("sub                  c1\n", out)
        self.assertTrue(out.endswith("Successfully destroyed the durable subscription.\n"))
        self.assertEqual(self.asked(), [("destroyDurable", "sub", "c1")])
        self.assertTrue(self.good("destroy", "dur", "-n", "sub", say="n").endswith("The durable subscription was not destroyed.\n"))
        self.assertIn("with the -n option", self.bad("destroy", "dur"))

    def test_purge(self) -> None:
        out = self.good("purge", "dur", "-n", "sub", "-c", "c1", say="y")
        self.assertTrue(out.startswith("Purging the durable subscription where:\n\n-----"))
        self.assertTrue(out.endswith("Successfully purged the durable subscription.\n"))
        self.assertEqual(self.asked(), [("purgeDurable", "sub", "c1")])
        self.assertTrue(self.good("purge", "dur", "-n", "sub", say="n").endswith("The durable subscription was not purged.\n"))
        self.assertIn("with the -n option", self.bad("purge", "dur"))
