"""Commands about destinations, in the words and columns of imqcmd."""

from __future__ import annotations

import json

from tests.unit.cli.imq.support import CommandCase

COUNTS = {"producers": 1, "consumers": 2, "msgs": 3, "remote": 0, "unAck": 1, "inDelay": 0, "avgSize": 1.5}
QUEUE = {"name": "orders", "type": "Queue", "state": "RUNNING", **COUNTS}
TOPIC = {"name": "news", "type": "Topic", "state": "RUNNING", **COUNTS}


class ListTests(CommandCase):
    def test_queues_and_topics_together(self) -> None:
        self.answer(listDestinations=[TOPIC, QUEUE])
        lines = self.good("list", "dst").splitlines()
        start = next(number for number, line in enumerate(lines) if "Producers" in line)
        self.assertEqual(
            [line.split() for line in lines[start : start + 2]],
            [
                ["Name", "Type", "State", "Producers", "Consumers", "Msgs"],
                ["Total", "Wildcard", "Total", "Wildcard", "Count", "Remote", "UnAck", "InDelay", "Avg", "Size"],
            ],
        )
        self.assertEqual(lines[start + 3].split(), ["news", "Topic", "RUNNING", "1", "0", "2", "0", "3", "0", "1", "0", "1.5"])
        self.assertEqual(lines[start + 4].split(), ["orders", "Queue", "RUNNING", "1", "-", "2", "-", "3", "0", "1", "0", "1.5"])
        self.assertEqual(self.asked(), [("listDestinations", None, False)])

    def test_queues_alone(self) -> None:
        self.answer(listDestinations=[QUEUE])
        lines = self.good("list", "dst", "-t", "q", "-tmp").splitlines()
        self.assertEqual(lines[0], "Listing all the queue destinations on the broker specified by:")
        title = next(line for line in lines if line.lstrip().startswith("Active"))
        row = next(line for line in lines if line.startswith("orders"))
        self.assertEqual((title.index("Active"), row[title.index("Active")], row[title.index("Backup")]), (title.index("Active"), "2", "0"))
        self.assertEqual(self.asked(), [("listDestinations", "q", True)])

    def test_as_json(self) -> None:
        self.answer(listDestinations=[QUEUE])
        self.assertEqual(json.loads(self.good("list", "dst", "--json")), [QUEUE])

    def test_a_type_that_is_none(self) -> None:
        self.assertEqual(self.bad("list", "dst", "-t", "x"), "Error: The destination type 'x' is not valid.\n")


class OneTests(CommandCase):
    def test_type_and_name_are_needed(self) -> None:
        for words in (("query", "dst"), ("create", "dst"), ("destroy", "dst"), ("purge", "dst"), ("update", "dst")):
            self.assertIn("type needs to be specified with the -t option", self.bad(*words, "-n", "a"))
            self.assertIn("name needs to be specified with the -n option", self.bad(*words, "-t", "q"))

    def test_create_shows_the_attributes_by_their_titles(self) -> None:
        out = self.good("create", "dst", "-t", "t", "-n", "news", "-o", "maxNumMsgs=100")
        self.assertIn("Destination Name          news\nDestination Type          Topic\nMax Number of Messages    100\n", out)
        self.assertTrue(out.endswith("Successfully created the destination.\n"))
        self.assertEqual(self.asked(), [("createDestination", "t", "news", '{"maxNumMsgs": "100"}')])

    def test_query(self) -> None:
        self.answer(queryDestination=[[["Destination Name", "orders"], ["Messages", ""], ["    Actual", "1"]]])
        self.assertIn("Destination Name    orders\nMessages\n    Actual          1\n", self.good("query", "dst", "-t", "q", "-n", "orders"))
        found = json.loads(self.good("query", "dst", "-t", "q", "-n", "orders", "--json"))
        self.assertEqual(found, {"Destination Name": "orders", "Messages": {"Actual": "1"}})

    def test_update(self) -> None:
        out = self.good("update", "dst", "-t", "q", "-n", "orders", "-o", "maxNumMsgs=5", say="y")
        self.assertIn("Updating the Queue destination that has the name:\n\norders\n\nwith the following updated attributes:\n", out)
        self.assertIn("maxNumMsgs    5\n", out)
        self.assertEqual(self.asked(), [("updateDestination", "q", "orders", '{"maxNumMsgs": "5"}')])
        self.assertIn("with the -o option", self.bad("update", "dst", "-t", "q", "-n", "orders"))

    def test_destroy_and_purge_ask(self) -> None:
        for word, done in (("destroy", "destroyed"), ("purge", "purged")):
            command = (word, "dst", "-t", "q", "-n", "orders")
            self.assertTrue(self.good(*command, say="n").endswith(f"The destination was not {done}.\n"))
            self.assertTrue(self.good(*command, "-f").endswith(f"Successfully {done} the destination.\n"))
        self.assertEqual(self.asked(), [("destroyDestination", "q", "orders"), ("purgeDestination", "q", "orders")])

    def test_no_limit_may_be_written_as_0(self) -> None:
        for word in ("create", "update"):
            result = self.run_command(word, "dst", "-t", "q", "-n", "orders", "-o", "maxNumMsgs=0", "-o", "maxBytesPerMsg=0", "-f")
            self.assertEqual(result.status, 0)
            warning = "Warning: maxNumMsgs=0 means unlimited, which is written maxNumMsgs=-1\n"
            self.assertTrue(result.err.startswith(warning), result.err)
            self.assertEqual(self.asked()[-1][-1], '{"maxNumMsgs": "-1", "maxBytesPerMsg": "-1"}')
