"""``mqbroker activation``: the record of a copy is shown, set and freed of voters, and never where that would lose messages."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.recover import write_journal
from mqbroker.ha.proof.copy_record import RECORD_FILE, CopyRecord, CopyState, OtherCopy, read_record, write_record
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.files.bindings import setting_value
from mqbroker.storage.files.recover import SalvagedState, read_settings
from mqclient.storageformat.records import SETTING_BINDING, BindingRecord
from mqclient.storageformat.replay import State
from tests.unit.cli.runner import Result, mqbroker

OTHER = OtherCopy("other", "tcp://other:61616")


class ActivationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = Path(self.mktemp()).absolute()
        self.folders = DataFolders(self.data / "journal", self.data / "bindings", self.data / "large-messages")
        self.places = ["--data", str(self.data)]
        found = SalvagedState(State(), [], node_id=bytes(range(16)))
        found.state.apply(1, BindingRecord(SETTING_BINDING, setting_value("activation-voters", "voters", '["v1", "v2"]')))
        write_journal(found, self.folders, self.folders)
        self.put(CopyRecord("own", CopyState.COMPLETE, 7, OTHER))

    def put(self, record: CopyRecord) -> None:
        write_record(LocalFileSystem(), self.folders.node_directory, record)

    @property
    def record(self) -> CopyRecord | None:
        return read_record(LocalFileSystem(), self.folders.node_directory)

    def command(self, name: str, *arguments: str) -> Result:
        return mqbroker("activation", name, *self.places, *arguments)

    def assert_refused(self, reason: str, name: str, *arguments: str) -> None:
        before = self.record
        result = self.command(name, *arguments)
        self.assertNotEqual(result.status, 0)
        self.assertIn(reason, result.err)
        self.assertEqual(self.record, before)

    def test_the_record_is_shown(self) -> None:
        result = self.command("list")
        self.assertEqual(result.status, 0, result.err)
        for text in (
            "copy:       own\n",
            "data:       complete\n",
            "sequence:   7\n",
            "other at tcp://other:61616",
            "needs a proof",
            "v1, v2\n",
        ):
            self.assertIn(text, result.out)
        self.put(CopyRecord("own", CopyState.GIVEN_UP, 7, diverged=True))
        self.assertIn("given up, with messages that no other copy has", self.command("list").out)

    def test_the_record_is_shown_to_scripts(self) -> None:
        shown = json.loads(self.command("list", "--json").out)
        self.assertEqual(
            shown,
            {
                "copy": "own",
                "data": "complete",
                "sequence": 7,
                "diverged": False,
                "otherCopy": {"copy": "other", "connector": "tcp://other:61616"},
                "needsProof": True,
                "voters": ["v1", "v2"],
            },
        )

    def test_a_copy_is_made_the_one_that_starts(self) -> None:
        for state in (CopyState.COMPLETE, CopyState.GIVEN_UP):
            self.put(CopyRecord("own", state, 7, OTHER))
            result = self.command("set", "--sequence", "9")
            self.assertIn("active at sequence 10", result.out, result.err)
            self.assertEqual(self.record, CopyRecord("own", CopyState.COMPLETE, 9))

    def test_a_damaged_record_is_written_anew(self) -> None:
        path = Path(self.folders.node_directory) / RECORD_FILE
        path.write_bytes(b"damaged")
        self.assertIn("is damaged", self.command("list").err)
        self.command("set", "--sequence", "9")
        record = self.record
        assert record is not None
        self.assertEqual((record.complete, record.sequence, record.shared), (True, 9, False))

    def test_what_would_lose_messages_is_refused(self) -> None:
        self.assert_refused("was active at 7 already", "set", "--sequence", "6")
        self.assert_refused("leaves no room", "set", "--sequence", str((1 << 63) - 1))
        self.assert_refused("--f: a folder that a broker uses", "set", "--sequence", "9", "--f")
        self.put(CopyRecord("own", CopyState.INCOMPLETE, 7, OTHER))
        self.assert_refused("these data are incomplete", "set", "--sequence", "9")
        (Path(self.folders.node_directory) / RECORD_FILE).unlink()
        self.assert_refused("never one of a replicated pair", "set", "--sequence", "9")
        self.assert_refused("never one of a replicated pair", "list")

    def test_a_broker_that_runs_is_left_alone(self) -> None:
        lock = NodeLock(LocalFileSystem(), self.folders.node_directory)
        lock.acquire()
        try:
            self.assert_refused("another broker uses this folder", "set", "--sequence", "9")
        finally:
            lock.release()

    def voters(self) -> str:
        return read_settings(LocalFileSystem(), self.folders.settings())["activation-voters", "voters"]

    def test_a_voter_is_forgotten(self) -> None:
        self.put(CopyRecord("own", CopyState.COMPLETE, 7))
        result = self.command("forget", "--node", "v1")
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(json.loads(self.voters()), ["v2"])

    def test_no_voter_is_forgotten_that_the_other_copy_may_still_count(self) -> None:
        self.assert_refused("cannot be changed alone", "forget", "--node", "v1")
        self.put(CopyRecord("own", CopyState.COMPLETE, 7))
        self.assert_refused("v9 is none of the voters (v1, v2)", "forget", "--node", "v9")
        self.assertEqual(json.loads(self.voters()), ["v1", "v2"])


class LockFolderTests(ActivationTests):
    """The record and the locks are in a folder of their own, which only broker.xml names."""

    def setUp(self) -> None:
        super().setUp()
        (self.folders.journal / RECORD_FILE).unlink()
        self.folders.lock = self.data / "locks"
        self.folders.lock.mkdir()
        self.put(CopyRecord("own", CopyState.COMPLETE, 7, OTHER))
        core = "".join(
            f"<{name}-directory>{folder}</{name}-directory>"
            for name, folder in (
                ("journal", self.folders.journal),
                ("bindings", self.folders.bindings),
                ("large-messages", self.folders.large_messages),
                ("paging", self.data / "paging"),
                ("node-manager-lock", self.folders.lock),
            )
        )
        broker_xml = self.data / "broker.xml"
        broker_xml.write_text(f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{core}</core></configuration>')
        self.places = ["--broker", str(broker_xml)]

    def test_a_journal_that_was_put_away_has_its_own_locks(self) -> None:
        away = self.data / "journal" / "oldreplica.1"
        away.mkdir()
        lock = NodeLock(LocalFileSystem(), self.folders.node_directory)
        lock.acquire()
        self.addCleanup(lock.release)
        self.assertIn("another broker uses this folder", mqbroker("data", "exp", *self.places).err)
        result = mqbroker("data", "exp", *self.places, "--journal", str(away))
        self.assertEqual(result.status, 0, result.err)
