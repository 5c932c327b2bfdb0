"""``mqbroker activation`` with a lock manager: its number is shown, and set under the lock, together with what the copy has or alone."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.coordinated import verdict
from mqbroker.ha.locks.file_manager import FOLDER, FileLockManager
from mqbroker.ha.proof.copy_record import CopyRecord, CopyState, OtherCopy, read_record, write_record
from mqbroker.lock_managers import FILE
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.nodelock import NodeLock
from tests.unit.cli.runner import Result, mqbroker

NODE = "11111111-2222-4333-8444-555555555555"
OTHER_NODE = "66666666-2222-4333-8444-555555555555"

BROKER_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<bindings-directory>{folder}/bindings</bindings-directory><journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large</large-messages-directory><paging-directory>{folder}/paging</paging-directory>
<connectors><connector name="own">tcp://127.0.0.1:61616</connector></connectors>
<ha-policy><replication><{role}>{manager}{more}</{role}></replication></ha-policy>
<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref></cluster-connection></cluster-connections>
</core></configuration>
"""


class CoordinatedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.journal = self.folder / "journal"
        for name in ("journal", "bindings", "locks"):
            (self.folder / name).mkdir(parents=True)
        self.put(CopyRecord("own", CopyState.COMPLETE, 7, OtherCopy("other", "tcp://other:61616")))
        NodeLock(LocalFileSystem(), str(self.journal)).write_node_id(NODE)
        self.configure()
        self.set_number(8)

    def configure(self, role: str = "primary", more: str = "", locks: str = "locks") -> None:
        properties = f'<properties><property key="{FOLDER}" value="{self.folder / locks}"/></properties>'
        manager = f"<manager><class-name>{FILE[0]}</class-name>{properties}</manager>"
        (self.folder / "broker.xml").write_text(BROKER_XML.format(folder=self.folder, role=role, manager=manager, more=more))

    def put(self, record: CopyRecord) -> None:
        write_record(LocalFileSystem(), str(self.journal), record)

    @property
    def record(self) -> CopyRecord | None:
        return read_record(LocalFileSystem(), str(self.journal))

    def manager(self) -> FileLockManager:
        return FileLockManager({FOLDER: str(self.folder / "locks")}, LocalFileSystem())

    def set_number(self, value: int, name: str = NODE) -> None:
        (self.folder / "locks" / f"ML:{name}").write_bytes(value.to_bytes(8, "big", signed=True))

    def command(self, name: str, *arguments: str) -> Result:
        return mqbroker("activation", name, "--broker", str(self.folder / "broker.xml"), *arguments)

    def refused(self, name: str, *arguments: str) -> str:
        before = self.record, self.manager().number(NODE)
        result = self.command(name, *arguments)
        self.assertNotEqual(result.status, 0)
        self.assertEqual((self.record, self.manager().number(NODE)), before)
        return result.err

    # --- list

    def test_both_are_shown(self) -> None:
        result = self.command("list")
        self.assertEqual(result.status, 0, result.err)
        for line in ("sequence:   7", f"node:       {NODE}", "number:     8", "may start:  no: another copy has newer data"):
            self.assertIn(line, result.out)
        shown = json.loads(self.command("list", "--json").out)
        self.assertEqual((shown["sequence"], shown["nodeID"], shown["coordinatedSequence"]), (7, NODE, 8))

    def test_one_of_both(self) -> None:
        self.assertNotIn("number:", self.command("list", "--local").out)
        shown = json.loads(self.command("list", "--remote", "--json").out)
        self.assertEqual(shown, {"nodeID": NODE, "coordinatedSequence": 8})

    def test_the_number_is_shown_while_a_broker_is_active(self) -> None:
        lock, manager = NodeLock(LocalFileSystem(), str(self.journal)), self.manager()
        lock.acquire()
        manager.try_lock(NODE)
        try:
            self.assertIn("number:     8", self.command("list", "--remote").out)
        finally:
            lock.release()
            manager.stop()

    def test_a_claim(self) -> None:
        self.set_number(-8)
        self.assertIn("number:     8, which is claimed and was not reached (it was 7)", self.command("list").out)

    def test_another_node(self) -> None:
        self.set_number(3, OTHER_NODE)
        self.assertIn("number:     3", self.command("list", "--remote", "--node-id", OTHER_NODE).out)
        self.assertIn("--node-id needs --remote", self.refused("list", "--node-id", OTHER_NODE))

    def test_the_node_of_competing_primaries(self) -> None:
        self.configure(more="<coordination-id>peer-journal-001</coordination-id>")
        self.assertIn("node:       peer.journal.001", self.command("list", "--remote").out)
        self.assertIn("follows from its coordination-id", self.refused("list", "--remote", "--node-id", OTHER_NODE))

    def test_a_folder_without_a_node(self) -> None:
        (self.journal / "server.lock").unlink()
        self.assertIn("has no node id yet: name one by --node-id", self.refused("list", "--remote"))

    def test_without_a_lock_manager(self) -> None:
        (self.folder / "broker.xml").write_text(BROKER_XML.format(folder=self.folder, role="primary", manager="", more=""))
        self.assertNotIn("number:", self.command("list").out)
        for name, *more in (("list",), ("set", "--to", "9")):
            self.assertIn("there is no lock manager", self.refused(name, "--remote", *more))
        result = mqbroker("activation", "list", "--data", str(self.folder), "--remote")
        self.assertIn("there is no lock manager", result.err)

    def test_a_lock_manager_that_is_not_there(self) -> None:
        self.configure(locks="nowhere")
        self.assertIn("the lock manager cannot be asked", self.refused("list", "--remote"))

    def test_a_number_that_cannot_be_read(self) -> None:
        (self.folder / "locks" / f"ML:{NODE}").write_bytes(b"123")
        self.assertIn("the lock manager does not answer", self.command("list", "--remote").err)

    # --- set

    def test_both_are_set(self) -> None:
        result = self.command("set", "--to", "9")
        self.assertEqual(result.status, 0, result.err)
        self.assertIn(f"Forced coordinated activation sequence for NodeID={NODE} from 8 to 9", result.out)
        self.assertIn("active at sequence 10", result.out)
        self.assertEqual((self.record, self.manager().number(NODE)), (CopyRecord("own", CopyState.COMPLETE, 9), 9))
        self.assertIn("from 9 to 9", self.command("set", "--to", "9").out)

    def test_the_copy_alone(self) -> None:
        self.command("set", "--to", "9", "--local")
        self.assertEqual((self.record, self.manager().number(NODE)), (CopyRecord("own", CopyState.COMPLETE, 9), 8))

    def test_the_number_alone(self) -> None:
        before = self.record
        self.command("set", "--to", "7", "--remote")
        self.assertEqual((self.record, self.manager().number(NODE)), (before, 7))

    def test_a_lock_that_is_held(self) -> None:
        manager = self.manager()
        manager.try_lock(NODE)
        try:
            for side in ((), ("--remote",)):
                self.assertIn(f"the lock of NodeID={NODE} is held", self.refused("set", "--to", "9", *side))
        finally:
            manager.stop()

    def test_a_lock_that_is_lost(self) -> None:
        self.patch(FileLockManager, "change_number", lambda manager, name, old, new: False)
        self.assertIn("was lost before its number was set", self.refused("set", "--to", "9", "--remote"))

    def test_both_sides_at_once(self) -> None:
        for name, *more in (("list",), ("set", "--to", "9")):
            self.assertIn("--local and --remote", self.refused(name, "--local", "--remote", *more))

    def test_another_node_id(self) -> None:
        self.command("set", "--to", "9", "--node-id", OTHER_NODE)
        lock = NodeLock(LocalFileSystem(), str(self.journal))
        self.assertEqual((lock.node_id(), self.manager().number(OTHER_NODE)), (OTHER_NODE, 9))
        self.command("set", "--to", "10", "--remote", "--node-id", NODE)
        self.assertEqual((lock.node_id(), self.manager().number(NODE)), (OTHER_NODE, 10))

    def test_data_do_not_become_those_of_another_node(self) -> None:
        self.patch_journal()
        self.assertIn("cannot become those of another one", self.refused("set", "--to", "9", "--node-id", OTHER_NODE))

    def patch_journal(self) -> None:
        from mqbroker.cli.data.journal_folder import DataFolders
        from mqbroker.cli.data.recover import write_journal
        from mqbroker.storage.files.recover import SalvagedState
        from mqclient.storageformat.replay import State

        (self.journal / "server.lock").unlink()
        folders = DataFolders(self.journal, self.folder / "bindings", self.folder / "large", self.folder / "paging")
        write_journal(SalvagedState(State(), [], node_id=bytes.fromhex(NODE.replace("-", ""))), folders, folders)


class VerdictTests(SynchronousTestCase):
    def test_what_the_lock_manager_will_say(self) -> None:
        record = CopyRecord("own", CopyState.COMPLETE, 7)
        for number, said in (
            (7, "yes: these data"),
            (-7, "yes: these"),
            (-8, "yes: the next"),
            (8, "no: another"),
            (3, "no: the lock manager"),
        ):
            self.assertIn(said, verdict(number, record))
        self.assertEqual(verdict(7, CopyRecord("own", CopyState.INCOMPLETE, 7)), "no: these data are incomplete")
