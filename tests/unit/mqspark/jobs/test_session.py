"""The Spark session of a job."""

from __future__ import annotations

from mqspark.errors import BadOptionError
from mqspark.jobs.session import parse_conf
from tests.unit.mqspark.jobs.test_command import CommandCase, run_command


class SettingTests(CommandCase):
    def test_the_job_gets_the_options_of_the_data_source_and_of_spark(self) -> None:
        arguments = "--url tcp://b:1 --user u --password-file f --option selector=a=1 --master local[1] --conf spark.x=y=z --dry-run --to t"
        self.assertEqual(run_command(self.probe, *arguments.split())[0], 0)
        run, to = self.runs[0]
        self.assertEqual(run.broker, {"url": "tcp://b:1", "user": "u", "passwordFile": "f", "selector": "a=1"})
        self.assertEqual((run.spark.master, dict(run.spark.conf), run.dry_run, to), ("local[1]", {"spark.x": "y=z"}, True, "t"))

    def test_a_setting_without_a_value_is_refused(self) -> None:
        self.assertRaises(BadOptionError, run_command, self.probe, "--to", "t", "--conf", "spark.x")
        self.assertRaises(BadOptionError, parse_conf, ("=1",))
