"""The page of statistics."""

from __future__ import annotations

from html.parser import HTMLParser

from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs.report import duration_text
from mqspark.jobs.stats import Group, Stats
from mqspark.jobs.stats_page import HOURS_PLOTTED, binary_text, bytes_text, count_text, page, plotted_hours
from tests.unit.mqspark.jobs.test_stats import HOUR, NOON, example


class Checked(HTMLParser):
    """Notes what a page would load, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


class PageTests(SynchronousTestCase):
    def test_it_needs_no_other_file_and_texts_of_messages_are_no_markup(self) -> None:
        text = page(example(), "/data/<archive>")
        checked = Checked()
        checked.feed(text)
        self.assertEqual((checked.loads, checked.open), ([], []))
        self.assertNotIn("url(", text)
        self.assertNotIn("<b>bob", text)
        self.assertIn("&lt;b&gt;bob", text)
        self.assertIn("Latency from the client to the broker", text)
        self.assertNotIn("Latency from the client to the archive", text)

    def test_many_addresses_are_summed_up(self) -> None:
        text = page(example(addresses=12), "x")
        self.assertIn("5 others", text)
        self.assertIn("50", text)

    def test_messages_without_timestamps_have_a_page(self) -> None:
        self.assertIn("No message has a timestamp.", page(Stats(Group(3, 0, 0, None, None)), "x"))

    def test_hours_without_messages_are_plotted_too(self) -> None:
        hours, note = plotted_hours([NOON, NOON + 3 * HOUR])
        self.assertEqual((hours, note), ([NOON, NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR], ""))

    def test_of_a_long_time_the_latest_month_is_plotted(self) -> None:
        hours, note = plotted_hours([NOON - 1000 * HOUR, NOON])
        self.assertEqual((len(hours), hours[-1], note), (HOURS_PLOTTED, NOON, "The latest 744 of 1001 hours."))

    def test_numbers_for_readers(self) -> None:
        self.assertEqual([count_text(value) for value in (0, 950, 1500, 20e6, 3e15)], ["0", "950", "1.5 k", "20 M", "3000 T"])
        self.assertEqual([bytes_text(value) for value in (950, 1500)], ["950 B", "1.5 kB"])
        self.assertEqual([binary_text(1 << power) for power in (0, 12, 40)], ["1 B", "4 KiB", "1 TiB"])
        self.assertEqual(
            [duration_text(value) for value in (0.5, 1500, 180e3, 7.2e6, 864e6, -20)],
            ["0.5 ms", "1.5 s", "3 min", "2 h", "10.0 d", "-20 ms"],
        )
