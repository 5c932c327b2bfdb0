"""Times that select from archives."""

from __future__ import annotations

from datetime import UTC, datetime

from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError
from mqspark.jobs.archives import epoch_ms, parse_time
from tests.unit.mqspark.jobs.test_stats import NOON


class TimeTests(SynchronousTestCase):
    def test_times_are_utc_unless_they_say_otherwise(self) -> None:
        self.assertEqual(parse_time("2026-11-21"), datetime(2026, 11, 21, tzinfo=UTC))
        self.assertEqual(parse_time(" 2026-11-21T13:00:00+01:00 "), NOON)
        self.assertEqual(epoch_ms(datetime(1970, 1, 2, 0, 0, 0, 1999, tzinfo=UTC)), 86_400_001)

    def test_what_is_no_time_is_refused(self) -> None:
        self.assertIn("'yesterday' is not a time", str(self.assertRaises(BadOptionError, parse_time, "yesterday")))
