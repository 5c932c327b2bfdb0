"""The sample clusters of ``config/``: each starts, and the commands of its README move messages from one broker to another."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms import ConnectionFactory, JMSException
from tests.integration.examples.samples import START_SECONDS, SampleCluster
from tests.unit.cli.runner import Result


class SampleClusterTests(SynchronousTestCase):
    def start(self, name: str) -> SampleCluster:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-test-")
        self.addCleanup(folder.cleanup)
        sample = SampleCluster(name, Path(folder.name))
        self.addCleanup(sample.stop)
        return sample

    def until(self, condition: Callable[[], object], what: str, sample: SampleCluster) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what}:\n{sample.text()[-5000:]}")
            time.sleep(0.1)

    def follow_the_readme(self, name: str, ready: Callable[[SampleCluster], object] = SampleCluster.await_start) -> SampleCluster:
        sample = self.start(name)
        ready(sample)
        produce, consume, *_ = sample.commands()
        sent = sample.run(produce)
        self.assertEqual(sent.status, 0, sent.err)
        got: list[Result] = []
        # A thread, so that a message which never comes is told instead of waited for.
        patient = [*consume, "--receive-timeout", "30000", "--break-on-null"]
        reader = threading.Thread(target=lambda: got.append(sample.run(patient)), daemon=True)
        reader.start()
        reader.join(60)
        self.assertTrue(got, sample.text()[-5000:])
        self.assertIn("Consumed: 30 messages", got[0].out, sample.text()[-5000:])
        return sample

    def test_symmetric(self) -> None:
        sample = self.follow_the_readme("cluster-symmetric")
        url = f"tcp://127.0.0.1:{sample.ports['61616']}"

        def nodes() -> list[dict[str, Any]]:
            return list(json.loads(sample.run(["cluster", "--all", "--json", "--url", url]).out))

        # The consumer may have everything before the other nodes are linked, and before the sender has been told.
        self.until(
            lambda: [link["state"] for node in nodes() for link in node["links"]] == ["connected"] * 6, "all nodes are linked", sample
        )
        self.until(lambda: sum(link["messagesAcknowledged"] for link in nodes()[0]["links"]) >= 30, "the messages are answered", sample)
        found = nodes()
        self.assertEqual(found[0]["name"], "node0")
        self.assertEqual(sorted(node["name"] for node in found), ["node0", "node1", "node2"])
        self.assertEqual([[link["state"] for link in node["links"]] for node in found], [["connected"] * 2] * 3)
        self.assertEqual(sum(link["messagesAcknowledged"] for link in found[0]["links"]), 30)
        graph = sample.run(["cluster", "--graph", "--url", url]).out
        self.assertEqual(graph.count("──▶"), 6, graph)
        stat = sample.run(["queue", "stat", "--clustered", "--per-node", "--json", "--queueName", "example", "--url", url]).out
        (row,) = json.loads(stat)["data"]
        self.assertEqual((row["messageCount"], row["messagesAcked"] >= 30, len(row["nodes"])), (0, True, 2))
        self.assertEqual(sample.run(["check", "node", "--peers", "3", "--url", url]).status, 0)
        self.assertEqual(sample.run(["check", "node", "--peers", "4", "--url", url]).status, 1)
        self.assertEqual(sample.stop(), 0, sample.text()[-3000:])

    def test_static(self) -> None:
        self.follow_the_readme("cluster-static")

    def test_chain(self) -> None:
        self.follow_the_readme("cluster-chain")

    def test_discovery(self) -> None:
        self.follow_the_readme("cluster-discovery")

    def test_home_brokers(self) -> None:
        self.follow_homes("imq-master", "cluster.properties")

    def test_peers(self) -> None:
        self.follow_homes("imq-peers", "orders")

    def await_clients(self, sample: SampleCluster) -> None:
        """Wait until each broker takes clients: one that has just started serves administrators alone until it has the change record."""
        sample.await_start()

        def takes_clients(port: str) -> bool:
            try:
                ConnectionFactory(f"tcp://127.0.0.1:{port}").create_context().close()
            except JMSException:
                return False
            return True

        for port in sample.ports.values():
            self.until(lambda port=port: takes_clients(port), f"the broker at {port} takes clients", sample)  # type: ignore[misc]

    def follow_homes(self, name: str, shown_at_last: str) -> None:
        sample = self.follow_the_readme(name, self.await_clients)
        passfile = sample.folder / "passfile"
        passfile.write_text("imq.imqcmd.password=any\n")
        for command in sample.commands()[2:]:
            shown = sample.run([*command, "-passfile", str(passfile)])
            self.assertEqual(shown.status, 0, shown.err)
        self.assertIn(shown_at_last, shown.out)
        self.assertEqual(sample.stop(), 0, sample.text()[-3000:])

    def test_an_enhanced_cluster(self) -> None:
        sample = self.start("imq-enhanced")
        sample.await_line(6, "is linked")
        passfile = sample.folder / "passfile"
        passfile.write_text("imq.imqcmd.password=any\n")
        shown = ""
        for command in sample.commands():
            words = [*command, "-passfile", str(passfile)] if "imq" in command else command
            result = sample.run(words)
            self.assertEqual(result.status, 0, result.err)
            shown += result.out
            if "shutdown" in command:
                sample.await_line(1, "has taken over b0")
        self.assertRegex(shown, "b0 .* TAKEOVER_COMPLETE")
        self.assertEqual(sample.stop(), 0, sample.text()[-3000:])

    def test_shared_store(self) -> None:
        sample = self.start("ha-shared-store")
        sample.await_line(1, "AMQ221007|AMQ221010")
        sample.await_line(1, "AMQ221031")
        self.kill_the_primary(sample)

    def test_shared_database(self) -> None:
        sample = self.start("database-pair")
        sample.await_line(1, "AMQ221007|AMQ221010")
        sample.await_line(1, "AMQ221031")
        self.kill_the_primary(sample)

    def test_replication(self) -> None:
        sample = self.start("ha-replication")
        sample.await_line(1, r"^backup \| .*AMQ221024")
        self.kill_the_primary(sample)

    def test_colocated(self) -> None:
        sample = self.start("ha-colocated")
        sample.await_line(2, "hosts the backup of this one")
        sample.await_line(2, "AMQ221031")
        self.kill_the_primary(sample, "node0")

    def test_scale_down_of_a_backup(self) -> None:
        sample = self.start("ha-scale-down")
        sample.await_line(1, r"^backup \| .*AMQ221031")
        sample.await_line(1, r"^other \| .*AMQ221007")
        self.kill_the_primary(sample)
        sample.await_line(1, r"^backup \| .*scale-down to .*; complete")

    def test_a_lock_manager_on_files(self) -> None:
        sample = self.start("ha-lock-file")
        sample.await_line(1, r"^backup \| .*AMQ221024")
        self.kill_the_primary(sample)

    def test_competing_primaries(self) -> None:
        sample = self.start("ha-competing")
        sample.await_line(2, "AMQ221024")
        [active] = [name for name in sample.nodes if any(re.search(rf"^{name} \| .*AMQ221007", line) for line in sample.output)]
        produce, consume, *_ = sample.commands()
        self.assertEqual(sample.run(produce).status, 0)
        sample.kill(active)
        got = sample.run([*consume, "--receive-timeout", "30000", "--break-on-null"])
        self.assertIn("Consumed: 30 messages", got.out, sample.text()[-5000:])

    def kill_the_primary(self, sample: SampleCluster, name: str = "primary") -> None:
        produce, consume, *others, check = sample.commands()
        sent = sample.run(produce)
        self.assertEqual(sent.status, 0, sent.err)
        self.assertEqual(sample.run(check).status, 0)
        with contextlib.chdir(sample.folder):
            listed = [sample.run(each) for each in others]
        self.assertEqual([(each.status, "number:" in each.out) for each in listed], [(0, True)] * len(listed), listed)
        sample.kill(name)
        sample.await_line(1, "AMQ221010")
        got = sample.run([*consume, "--receive-timeout", "30000", "--break-on-null"])
        self.assertIn("Consumed: 30 messages", got.out, sample.text()[-5000:])
