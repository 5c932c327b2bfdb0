"""``mqbroker check ha``."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.cli.runner import Result, mqbroker

LINK = """<connectors><connector name="own">tcp://127.0.0.1:1</connector></connectors>
<cluster-user>u</cluster-user><cluster-password>p</cluster-password>
<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref>{link}</cluster-connection></cluster-connections>"""
SHORT = "<check-period>1000</check-period><connection-ttl>2000</connection-ttl>"
PAIR = "<ha-policy><shared-store><backup/></shared-store></ha-policy>"


class HaTests(SynchronousTestCase):
    def check(self, core: str, *options: str) -> Result:
        folder = Path(self.mktemp())
        folder.mkdir()
        core = f'<core xmlns="urn:activemq:core"><security-enabled>false</security-enabled>{core}</core>'
        (folder / "broker.xml").write_text(f'<configuration xmlns="urn:activemq">{core}</configuration>')
        return mqbroker("check", "ha", str(folder / "broker.xml"), *options)

    def test_a_pair_that_is_quick_enough(self) -> None:
        result = self.check(PAIR + LINK.format(link=SHORT))
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertIn("       0.5 s  built in: a backup looks for the lock\n", result.out)
        self.assertIn("         2 s  connection-ttl\n", result.out)
        self.assertIn("       4.5 s  in all\n", result.out)
        self.assertIn("Not counted: reading the journal", result.out)

    def test_a_pair_that_takes_too_long(self) -> None:
        result = self.check(PAIR + LINK.format(link=""))
        self.assertEqual(result.status, 1)
        self.assertIn("     120.5 s  in all\n", result.out)
        warning = "WARNING Another broker of the cluster-connection c follows to the backup of a dead one after up to 120.5 s"
        self.assertIn(warning, result.err)

    def test_a_replicated_pair(self) -> None:
        replicated = "<ha-policy><replication><backup/></replication></ha-policy>"
        checks = "<connection-ttl-check-interval>500</connection-ttl-check-interval>"
        result = self.check(checks + replicated + LINK.format(link=SHORT))
        self.assertEqual((result.status, result.err), (0, ""))
        for what, seconds in (
            ("A replica takes over from a dead primary, in a pair alone", 4),
            ("A replica takes over from a dead primary, with voters", 4),
            ("A primary goes on without a dead replica, in a pair alone", 5.15),
            ("A primary goes on without a dead replica, with voters", 5),
        ):
            _, _, shown = result.out.partition(f"{what}:\n")
            self.assertIn(f"  {seconds:>8} s  in all", shown.partition("\n\n")[0])
        result = self.check(replicated + LINK.format(link=""))
        self.assertEqual(result.status, 1)
        self.assertIn("A replica takes over from a dead primary, with voters after up to 62 s, more than 10 s", result.err)

    def test_a_mount_with_which_no_broker_starts(self) -> None:
        with mock.patch("mqbroker.process.mounts.read_mounts", lambda: "filer:/a / nfs rw,nolock 0 0\n"):
            result = self.check(PAIR + LINK.format(link=SHORT))
        self.assertEqual(result.status, 1)
        self.assertIn("ERROR /: with its mount option nolock", result.err)

    def test_overriding_properties_count(self) -> None:
        properties = Path(self.mktemp())
        properties.write_text("clusterConfigurations.c.connectionTTL=60000\nHAPolicyConfiguration=SHARED_STORE_PRIMARY\n")
        self.assertEqual(self.check(LINK.format(link=SHORT), "--properties", str(properties)).status, 1)

    def test_for_scripts(self) -> None:
        result = self.check(PAIR + LINK.format(link=""), "--json")
        self.assertEqual(result.status, 1)
        answer = json.loads(result.out)
        folder, link = answer["delays"]
        self.assertEqual((answer["limit"], folder["seconds"], link["seconds"]), (10.0, 0.5, 120.5))
        self.assertEqual(link["shares"][0], {"setting": "connection-ttl", "seconds": 60.0})
        self.assertEqual(len(answer["warnings"]), 1)

    def test_nobody_goes_on_without_a_policy(self) -> None:
        result = self.check(LINK.format(link=SHORT))
        self.assertEqual(result.status, 1)
        self.assertIn("nobody goes on when this broker dies: ha-policy names no backup", result.err)

    def test_a_file_that_no_broker_starts_with(self) -> None:
        result = self.check("<nam>x</nam>")
        self.assertEqual(result.status, 1)
        self.assertIn("broker.xml:1: ", result.err)
