"""Statistics: what is made of the rows that Spark counts, and the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs.archives import epoch_ms
from mqspark.jobs.stats import Group, Latency, Stats, collected, tables
from tests.unit.mqspark.jobs.test_command import invoked

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def row(kind: int, messages: int, **keys: Any) -> dict[str, Any]:
    """A row as Spark gives it: ``kind`` has a bit for each of address, producer, hour and power that the group is not of."""
    empty = {"address": None, "producer": None, "hour": None, "power": None, "to_broker": None, "to_archive": None}
    times = {"first": epoch_ms(NOON), "last": epoch_ms(NOON) + 2_000}
    return empty | {"kind": kind, "messages": messages, "bytes": messages * 10, "largest": 30} | times | keys


class CollectedTests(SynchronousTestCase):
    def test_rows_are_told_apart_by_their_kind(self) -> None:
        hour = epoch_ms(NOON) // 3_600_000
        found = collected(
            [
                row(0b1111, 8, to_broker=[1.0, 2.0, 3.0]),
                row(0b0111, 8, address="prices"),
                row(0b1011, 5, producer="bob"),
                row(0b1011, 3, producer=""),
                row(0b1101, 8, hour=hour),
                row(0b1101, 1),
                row(0b0101, 8, address="prices", hour=hour),
                row(0b1110, 6, power=0),
                row(0b1110, 2, power=5),
            ]  # type: ignore[arg-type]
        )
        assert found is not None
        self.assertEqual((found.total.messages, found.total.size, found.total.rate), (8, 80, 4.0))
        self.assertEqual(found.total.to_broker, Latency(1.0, 2.0, 3.0))
        self.assertEqual({name: group.messages for name, group in found.addresses.items()}, {"prices": 8})
        self.assertEqual({name: group.messages for name, group in found.producers.items()}, {"bob": 5, None: 3})
        self.assertEqual(list(found.hours), [NOON])
        self.assertEqual(list(found.address_hours), [("prices", NOON)])
        self.assertEqual(found.sizes, {0: 6, 5: 2})

    def test_nothing_selected_is_nothing(self) -> None:
        self.assertIsNone(collected([]))
        self.assertIsNone(collected([row(0b1111, 0)]))  # type: ignore[list-item]

    def test_messages_without_timestamps_have_no_hours_and_no_rate(self) -> None:
        found = collected([row(0b1111, 3, first=None, last=None), row(0b1101, 3)])  # type: ignore[list-item]
        assert found is not None
        self.assertEqual((found.total.rate, found.hours), (0.0, {}))


def group(messages: int, **more: Any) -> Group:
    return Group(messages, messages * 100, 300, NOON, NOON + HOUR, **more)


def example(addresses: int = 2, hours: int = 3) -> Stats:
    names = [f"a<{number}>" for number in range(addresses)]
    times = [NOON + number * HOUR for number in range(hours)]
    latency = Latency(1, 20, 3_000)
    return Stats(
        group(100, to_broker=latency),
        {name: group(50 - place) for place, name in enumerate(names)},
        {"<b>bob</b>": group(70), None: group(30)},
        {time: group(30, to_broker=latency) for time in times},
        {(name, time): group(10) for name in names for time in times},
        {0: 1, 7: 90, 8: 9},
    )


class TableTests(SynchronousTestCase):
    def test_addresses_producers_hours_and_known_latencies(self) -> None:
        found = {table.title: table for table in tables(example())}
        self.assertEqual(list(found), ["Addresses", "Producers", "Hours", "Latency: addresses", "Latency: hours"])
        self.assertEqual([line[0] for line in found["Addresses"].rows], ["(all)", "a<0>", "a<1>"])
        self.assertEqual(found["Producers"].rows[1][:2], ("(not named)", 30))
        self.assertEqual(list(found["Latency: hours"].columns), ["hour (UTC)", "to broker p50", "to broker p95", "to broker p99"])
        self.assertEqual(found["Latency: addresses"].rows[0][1:], ("1 ms", "20 ms", "3 s"))
        self.assertEqual(found["Latency: addresses"].rows[1][1:], (None, None, None))

    def test_long_tables_say_what_they_leave_out(self) -> None:
        found = example(hours=30)
        found.producers = {f"p{number}": group(number + 1) for number in range(25)}
        titles = [table.title for table in tables(found)]
        self.assertIn("Producers, the greatest 20 of 25", titles)
        self.assertIn("Hours, the latest 20 of 30", titles)


class CommandTests(SynchronousTestCase):
    def test_help(self) -> None:
        status, out, _ = invoked("stats", "--help")
        self.assertEqual(status, 0)
        self.assertIn("--html", out)
        self.assertNotIn("--url", out)

    def test_bad_arguments_are_refused_before_spark_starts(self) -> None:
        for arguments, status, sentence in (
            ((), 2, "Missing option '--archive'"),
            (("--archive", "x", "--since", "soon"), 2, "'soon' is not a time"),
            (("--archive", "x", "--html", "/no/such/folder/page.html"), 1, "the folder of /no/such/folder/page.html does not exist"),
        ):
            found, _, err = invoked("stats", *arguments)
            self.assertEqual(found, status)
            self.assertIn(sentence, err)
