"""The commands of Open Message Queue on instances that ``mqbroker imq brokerd`` has started, from shells as an operator has them."""

from __future__ import annotations

import datetime
import json
import shutil
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509.oid import NameOID

from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort
from tests.unit.cli.runner import Result, mqbroker

SECONDS = 30.0
"""How long a test waits for what must come."""


class InstanceCase(unittest.TestCase):
    """``count`` instances on the loopback, b0 the master; each has a folder of its own and the cluster file in common."""

    count = 1
    shared = "imq.cluster.dynamicChangeMasterBrokerEnabled=true\n"

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-imq-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        ports = [ReservedPort() for _ in range(self.count)]
        for port in ports:
            self.addCleanup(port.close)
        self.places = [f"127.0.0.1:{port.number}" for port in ports]
        self.central = self.folder / "cluster.properties"
        self.write_central(self.places)
        self.passfile = self.folder / "passfile"
        self.passfile.write_text("imq.imqcmd.password=admin\n")
        self.running: dict[int, Broker] = {}
        self.addCleanup(self.stop_all)

    def write_central(self, places: list[str]) -> None:
        text = f"imq.cluster.brokerlist={','.join(places)}\nimq.cluster.masterbroker={places[0]}\n{self.shared}"
        self.central.write_text(text)

    def instance(self, number: int) -> Path:
        return self.folder / "var" / "instances" / f"b{number}"

    def start(self, number: int, *options: str) -> Broker:
        command = [sys.executable, "-m", "mqbroker.cli", "imq", "brokerd", "-varhome", str(self.folder / "var"), "-name", f"b{number}"]
        command += ["-port", self.places[number].rpartition(":")[2], f"-Dimq.cluster.url=file:{self.central}", *options]
        folder = self.folder / f"log{number}"
        folder.mkdir(exist_ok=True)
        self.running[number] = Broker(command, folder)
        return self.running[number]

    def start_together(self, *numbers: int) -> None:
        with ThreadPoolExecutor(len(numbers)) as pool:
            list(pool.map(self.start, numbers))

    def stop_all(self) -> None:
        with ThreadPoolExecutor(self.count) as pool:
            list(pool.map(Broker.stop, self.running.values()))

    def command(self, number: int, *words: str) -> Result:
        return mqbroker("imq", *words, "-b", self.places[number], "-u", "admin", "-passfile", str(self.passfile))

    def good(self, number: int, *words: str) -> str:
        result = self.command(number, *words)
        self.assertEqual(result.status, 0, result.err)
        return result.out

    def states(self, number: int) -> dict[str, str]:
        return {row["address"]: row["state"] for row in json.loads(self.good(number, "list", "bkr", "--json"))["brokers"]}

    def names(self, number: int) -> list[str]:
        return [row["name"] for row in json.loads(self.good(number, "list", "dst", "--json"))]

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"in {SECONDS:g} s it did not come to this: {what}")
            time.sleep(0.2)


class OneBrokerTests(InstanceCase):
    def test_a_new_instance_from_its_start_to_its_end(self) -> None:
        broker = self.start(0)
        log = broker.wait_for("node id")
        for warning in ("user admin has the password", "user guest has the password", "AMQ222007: Security risk!"):
            self.assertIn(warning, log)
        self.good(0, "create", "dst", "-t", "q", "-n", "orders", "-o", "maxNumMsgs=2")
        url = f"tcp://{self.places[0]}"
        login = ("--user", "guest", "--password", "guest")
        sent = mqbroker("producer", "--url", url, *login, "--destination", "queue://orders", "--message-count", "3")
        self.assertEqual(sent.status, 1)  # the third one is rejected
        self.assertIn("full", sent.err)
        [row] = [row for row in json.loads(self.good(0, "list", "dst", "--json")) if row["name"] == "orders"]
        self.assertEqual((row["msgs"], row["state"]), (2, "RUNNING"))
        self.good(0, "update", "bkr", "-o", "imq.autocreate.topic=false", "-f")
        self.good(0, "restart", "bkr", "-f")
        broker.wait_for("AMQ221007", 2)
        shown = json.loads(self.good(0, "query", "bkr", "--json"))
        self.assertEqual((shown["Auto Create Topics"], shown["Current Number of Messages in System"]), ("false", "2"))
        origins = {row["name"]: row["origin"] for row in json.loads(self.good(0, "query", "bkr", "--origin", "--json"))}
        self.assertEqual(origins["imq.autocreate.topic"], f"instance ({self.instance(0)}/props/config.properties:3)")
        self.assertEqual(origins["imq.cluster.masterbroker"], f"cluster file ({self.central}:2)")
        self.assertEqual((origins["imq.cluster.url"], origins["imq.portmapper.port"]), ("-D", "command line"))
        self.good(0, "quiesce", "bkr", "-f")
        self.assertEqual(json.loads(self.good(0, "query", "bkr", "--json"))["State"], "QUIESCE_COMPLETE")
        refused = mqbroker("producer", "--url", url, *login, "--destination", "queue://orders", "--message-count", "1")
        self.assertIn("the broker is quiesced", refused.err)
        self.good(0, "unquiesce", "bkr", "-f")
        self.good(0, "purge", "dst", "-t", "q", "-n", "orders", "-f")
        self.good(0, "destroy", "dst", "-t", "q", "-n", "orders", "-f")
        self.assertEqual(self.names(0), ["mq.sys.dmq"])
        self.assertTrue(self.good(0, "shutdown", "bkr", "-f").endswith("Successfully shutdown the broker.\n"))
        self.assertEqual(broker.ended(), 0)
        result = self.command(0, "list", "bkr")
        self.assertEqual(result.status, 1)
        self.assertTrue(result.err.startswith("Error while connecting to the broker on host '127.0.0.1'"), result.err)

    def test_a_cluster_file_that_cannot_be_read_stops_the_start(self) -> None:
        self.central.unlink()
        with self.assertRaises(AssertionError) as caught:
            self.start(0)
        self.assertIn("cannot read the cluster file", str(caught.exception))


class SecureTests(InstanceCase):
    count = 2
    shared = "imq.cluster.transport=ssl\nimq.keystore.file.dirpath=.\n"

    def test_links_and_commands_use_tls(self) -> None:
        """Each broker has the key store of all, as imqkeytool makes it: one key with its own certificate."""
        self.central.write_text(self.central.read_text().replace("dirpath=.", f"dirpath={self.folder}"))
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "brokers")])
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        store = pkcs12.serialize_key_and_certificates(
            b"imq", key, builder.sign(key, hashes.SHA256()), None, BestAvailableEncryption(b"secret")
        )
        (self.folder / "keystore").write_bytes(store)
        for number in range(2):
            self.start(number, "-password", "secret")
        plain = self.command(0, "list", "bkr")
        self.assertEqual(plain.status, 1)

        def states() -> dict[str, str]:
            shown = self.good(0, "list", "bkr", "--json", "-secure")
            return {row["address"]: row["state"] for row in json.loads(shown)["brokers"]}

        self.until(lambda: states() == dict.fromkeys(self.places, "OPERATING"), "both are linked")


class ClusterTests(InstanceCase):
    count = 3

    def start_all(self, count: int) -> None:
        self.start_together(*range(count))
        for number in range(count):
            self.until(lambda number=number: list(self.states(number).values()).count("OPERATING") == count, f"b{number} is linked")  # type: ignore[misc]

    def test_what_is_defined_on_one_is_defined_on_all_and_members_come_and_go(self) -> None:
        self.write_central(self.places[:2])
        self.start_all(2)
        self.good(1, "create", "dst", "-t", "q", "-n", "orders", "-o", "maxNumMsgs=7")
        self.until(lambda: "orders" in self.names(0), "b0 has the destination")
        shown = json.loads(self.good(0, "query", "dst", "-t", "q", "-n", "orders", "--json"))
        self.assertEqual((shown["Max Number of Messages"], shown["Created Administratively"]), ("7", "true"))
        # A third one joins: edit the list, start it, reload.
        self.write_central(self.places)
        self.start(2)
        self.good(0, "reload", "cls")
        self.until(lambda: self.states(1) == dict.fromkeys(self.places, "OPERATING"), "all three are linked")
        self.until(lambda: "orders" in self.names(2), "b2 has the destination")
        # What is destroyed on one is gone from all, at once and for those that come back.
        self.good(0, "create", "dst", "-t", "q", "-n", "bills")
        self.until(lambda: "bills" in self.names(2), "b2 has the other one, too")
        self.good(2, "destroy", "dst", "-t", "q", "-n", "orders", "-f")
        for number in (0, 1):
            self.until(lambda number=number: "orders" not in self.names(number), f"b{number} has it no more")  # type: ignore[misc]
        # It leaves again.
        self.good(2, "shutdown", "bkr", "-f")
        self.until(lambda: self.states(0)[self.places[2]] == "BROKER_DOWN", "b2 is missing")
        self.write_central(self.places[:2])
        self.good(1, "reload", "cls")
        self.assertEqual(self.states(0), dict.fromkeys(self.places[:2], "OPERATING"))

    def test_another_master(self) -> None:
        self.write_central(self.places[:2])
        self.start_all(2)
        wanted = f"imq.cluster.masterbroker={self.places[1]}"
        refused = self.command(1, "changemaster", "cls", "-o", wanted, "-f")
        self.assertEqual(refused.status, 1)
        self.assertIn("NOT_ALLOWED", refused.err)
        self.good(0, "changemaster", "cls", "-o", wanted, "-f")
        for number in (0, 1):
            self.until(
                lambda number=number: json.loads(self.good(number, "query", "bkr", "--json"))["Cluster Master Broker"] == self.places[1],  # type: ignore[misc]
                f"b{number} knows the new master",
            )

    def test_a_broker_that_differs_is_not_linked(self) -> None:
        self.write_central(self.places[:2])
        self.start(0)
        other = self.start(1, "-Dimq.autocreate.queue=false")
        for broker, own in ((self.running[0], "true here and false there"), (other, "false here and true there")):
            self.assertIn(own, broker.wait_for("are not linked: imq.autocreate.queue is"))
        self.until(lambda: self.states(0)[self.places[1]] != "OPERATING", "there is no link")
        self.good(1, "shutdown", "bkr", "-f")
        other.ended()
        self.start(1)
        for number in (0, 1):
            self.until(lambda number=number: self.states(number) == dict.fromkeys(self.places[:2], "OPERATING"), "they are linked")  # type: ignore[misc]

    def test_the_record_is_backed_up_by_the_master(self) -> None:
        self.write_central(self.places[:1])
        self.start(0)
        self.good(0, "create", "dst", "-t", "t", "-n", "news")
        self.good(0, "shutdown", "bkr", "-f")
        self.running[0].ended()
        record = self.folder / "record"
        self.start(0, "-backup", str(record)).wait_for("the change record was backed up")
        self.assertGreater(record.stat().st_size, 20)
        self.good(0, "destroy", "dst", "-t", "t", "-n", "news", "-f")
        self.good(0, "shutdown", "bkr", "-f")
        self.running[0].ended()
        self.start(0, "-restore", str(record))
        self.until(lambda: "news" in self.names(0), "the topic is there again")


class PeersTests(InstanceCase):
    """No list of brokers, and no master (complaints 108 and 54 of OpenMQ's users)."""

    count = 3
    jdbc = "imq.cluster.sharecc.persist.jdbc"

    def make_peers(self) -> None:
        self.central.write_text(
            f"imq.cluster.nomasterbroker=true\nimq.cluster.clusterid=c\nimq.hostname=127.0.0.1\n{self.jdbc}.dbVendor=sqlite\n"
            f"{self.jdbc}.sqlite.opendburl=jdbc:sqlite:{self.folder}/record.db\n"
        )

    def dbmgr(self, *words: str) -> str:
        result = mqbroker("imq", "dbmgr", *words, "-varhome", str(self.folder / "var"), f"-Dimq.cluster.url=file:{self.central}")
        self.assertEqual((result.status, result.err), (0, ""))
        return result.out

    def start_peers(self, *numbers: int) -> None:
        self.start_together(*numbers)
        expected = [self.places[number] for number in numbers]
        for number in numbers:
            self.until(
                lambda number=number: [place for place, state in self.states(number).items() if state == "OPERATING"] == sorted(expected),  # type: ignore[misc]
                f"b{number} is linked with all others",
            )

    def shut_down(self, *numbers: int) -> None:
        for number in numbers:
            self.good(number, "shutdown", "bkr", "-f")
        for number in numbers:
            self.running[number].ended()

    def test_a_master_becomes_a_cluster_of_peers(self) -> None:
        self.write_central(self.places[:1])
        self.start(0)
        self.good(0, "create", "dst", "-t", "t", "-n", "news")
        record = self.folder / "record"
        self.shut_down(0)
        self.start(0, "-backup", str(record)).wait_for("the change record was backed up")
        self.shut_down(0)
        self.make_peers()
        self.dbmgr("create", "sharecc_tbl")
        self.dbmgr("restore", "sharecc_tbl", "-file", str(record))
        self.start_peers(0, 1, 2)
        for number in range(3):
            self.until(lambda number=number: "news" in self.names(number), f"b{number} has what was on record")  # type: ignore[misc]
        self.good(1, "create", "dst", "-t", "q", "-n", "orders")
        self.until(lambda: "orders" in self.names(2), "b2 has it, too")
        shown = json.loads(self.good(1, "query", "bkr", "--json"))
        self.assertEqual((shown["Cluster Master Broker"], shown["Cluster ID"]), ("imq.cluster.nomasterbroker=true (sqlite)", "c"))
        self.shut_down(0, 1)
        self.until(lambda: self.states(2)[self.places[0]] == "BROKER_DOWN", "b2 has noticed")
        self.good(2, "destroy", "dst", "-t", "t", "-n", "news", "-f")
        self.start(0)
        self.until(lambda: self.names(0) == ["mq.sys.dmq", "orders"], "b0 has what has changed meanwhile")
        # Another record takes the place of the present one, while brokers run: they start again, and take over everything.
        self.dbmgr("backup", "sharecc_tbl", "-file", str(self.folder / "orders"))
        self.good(0, "create", "dst", "-t", "t", "-n", "later")
        self.until(lambda: "later" in self.names(2), "b2 has the topic")
        self.dbmgr("recreate", "sharecc_tbl")
        self.dbmgr("restore", "sharecc_tbl", "-file", str(self.folder / "orders"))
        for number in (0, 2):
            self.running[number].wait_for("this broker starts again: PRECONDITION_FAILED")
            self.running[number].wait_for("AMQ221007", 2)
            self.until(lambda number=number: self.names(number) == ["mq.sys.dmq", "orders"], f"b{number} has the restored record")  # type: ignore[misc]
