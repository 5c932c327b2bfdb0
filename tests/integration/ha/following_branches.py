"""What a transaction manager lives through whose broker is killed, whatever kind the pair is of."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from queue import SimpleQueue

from mqclient.blocking import get_runner
from mqclient.jms import JMSException
from mqclient.jms.xa import XAConnectionFactory, XAResource, XASession
from mqclient.xa import TMFAIL, XA_RETRY, XAER_NOTA, XAError, Xid
from tests.integration.brokers import Broker
from tests.integration.ha.following_clients import FOLLOW, WAIT_MS, FollowingClients
from tests.integration.ha.pair import BACKUP, PRIMARY

UNDER_LOAD = 30
"""Branches that are committed before the primary is killed, and after that."""


class FollowingBranches(FollowingClients):
    """The pair is there: the primary is active, and the backup may take over."""

    primary: Broker
    backup: Broker

    def open(self) -> tuple[XASession, XAResource]:
        url = f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}"
        connection = XAConnectionFactory(url).create_xa_connection()
        self.addCleanup(connection.close)
        connection.start()
        session = connection.create_xa_session()
        return session, session.xa_resource

    def fill(self, session: XASession, resource: XAResource, name: str) -> Xid:
        """A branch with one message, which has ended."""
        xid = Xid(1, name.encode(), b"branch")
        resource.start(xid)
        session.create_producer(session.create_queue("q")).send(session.create_text_message(name))
        resource.end(xid)
        return xid

    def kill(self) -> None:
        self.primary.kill()
        self.backup.wait_for("AMQ221010")

    def test_prepared_branches_wait_for_their_outcome_at_the_backup(self) -> None:
        plain = self.connect().create_session()
        plain.create_producer(plain.create_queue("q")).send(plain.create_text_message("consumed"))
        session, resource = self.open()
        consumed = Xid(1, b"consumed", b"branch")
        resource.start(consumed)
        consumer = session.create_consumer(session.create_queue("q"))
        self.assertIsNotNone(consumer.receive(WAIT_MS))
        consumer.close()
        resource.end(consumed)
        committed, undone = (self.fill(session, resource, name) for name in ("committed", "undone"))
        for xid in (consumed, committed, undone):
            resource.prepare(xid)
        ended = self.fill(session, resource, "ended")
        self.kill()
        self.assertEqual(set(resource.recover()), {consumed, committed, undone})
        resource.commit(consumed)
        resource.commit(committed)
        resource.rollback(undone)
        with self.assertRaises(XAError) as raised:
            resource.prepare(ended)
        self.assertEqual(raised.exception.error_code, XAER_NOTA)
        self.assertEqual(resource.recover(), [])
        self.assertEqual(self.received(BACKUP), ["committed"])

    def commit(self, resource: XAResource, xid: Xid) -> bool:
        """Commit as a transaction manager does: again as long as nobody knows whether it is done.  Was that so at first?"""
        for attempt in range(10):
            try:
                resource.commit(xid)
            except XAError as error:
                if error.error_code == XAER_NOTA and attempt:
                    return True  # the first one was done, and its answer is lost
                self.assertEqual(error.error_code, XA_RETRY)
            else:
                return attempt > 0
        raise AssertionError("the commit does not end")

    def await_call(self) -> None:
        """Until the call of another thread is on its way: one that is made after the kill would just be made at the backup."""
        runner = get_runner()
        while not runner._outcomes:
            time.sleep(0.01)
        for _ in range(2):  # the reactor writes to its sockets between two turns
            runner.call(lambda: None)

    def forget(self, resource: XAResource) -> None:
        for each in resource.recover():
            resource.rollback(each)

    def disown(self, resource: XAResource, xid: Xid) -> None:
        """End a branch that has failed, and roll it back if the broker still knows it."""
        for step in (lambda: resource.end(xid, TMFAIL), lambda: resource.rollback(xid)):
            with suppress(XAError):
                step()

    def test_a_commit_under_way_is_done_once(self) -> None:
        session, resource = self.open()
        xid = self.fill(session, resource, "committed")
        resource.prepare(xid)
        self.primary.hold_up()
        unknown: SimpleQueue[bool] = SimpleQueue()
        manager = threading.Thread(target=lambda: unknown.put(self.commit(resource, xid)), daemon=True)
        manager.start()
        self.await_call()
        self.kill()
        self.assertTrue(unknown.get(timeout=WAIT_MS / 1000), "the commit was answered by a broker that stood still")
        self.assertEqual(resource.recover(), [])
        self.assertEqual(self.received(BACKUP), ["committed"])

    def test_branches_are_committed_once_while_the_primary_is_killed(self) -> None:
        session, resource = self.open()
        done: list[str] = []
        enough, problems = threading.Event(), SimpleQueue[BaseException]()

        def work() -> None:
            number = 0
            try:
                while not enough.is_set():
                    number += 1
                    name = f"m{number}"
                    try:
                        xid = self.fill(session, resource, name)
                        resource.prepare(xid)
                    except XAError:
                        # It failed before it was prepared: the broker may have it, and has to forget it.
                        self.forget(resource)
                        continue
                    except JMSException:
                        # The connection failed within the branch: it cannot be prepared any more.
                        self.disown(resource, Xid(1, name.encode(), b"branch"))
                        continue
                    self.commit(resource, xid)
                    done.append(name)
            except BaseException as error:
                problems.put(error)

        manager = threading.Thread(target=work, daemon=True)
        manager.start()
        self._await(done, UNDER_LOAD, manager)
        self.kill()
        self._await(done, len(done) + UNDER_LOAD, manager)
        enough.set()
        manager.join(WAIT_MS / 1000)
        self.assertTrue(problems.empty(), "" if problems.empty() else repr(problems.get()))
        self.assertFalse(manager.is_alive())
        self.assertEqual(resource.recover(), [])
        self.assertEqual(sorted(self.received(BACKUP)), sorted(done))

    def _await(self, done: list[str], count: int, manager: threading.Thread) -> None:
        waiting = threading.Event()
        for _ in range(WAIT_MS // 20):
            if len(done) >= count or not manager.is_alive():
                return
            waiting.wait(0.02)
        self.fail(f"{len(done)} of {count} branches are committed")
