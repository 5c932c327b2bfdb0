"""Distributed transactions with a broker: what a transaction manager does with two sessions, failures included."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from mqclient.jms import (
    JMSException,
    MessageConsumer,
    TextMessage,
    TransactionInProgressException,
    XAConnection,
    XAConnectionFactory,
    XAResource,
    XASession,
)
from mqclient.xa import (
    TMFAIL,
    TMJOIN,
    TMRESUME,
    TMSUSPEND,
    XA_HEURCOM,
    XA_HEURRB,
    XA_OK,
    XA_RBTIMEOUT,
    XAER_DUPID,
    XAER_NOTA,
    XAER_PROTO,
    XAER_RMFAIL,
    XAError,
    Xid,
)
from tests.integration.brokers import against_artemis, broker_url
from tests.integration.mqclient.jms.case import WAIT, BrokerCase
from tests.integration.mqclient.jms.proxy import Proxy

AGAIN = {"reconnect_attempts": -1, "retry_interval": 20, "call_timeout": 5000}


class XaCase(BrokerCase):
    def setUp(self) -> None:
        super().setUp()
        self.transaction = uuid.uuid4().bytes
        self.numbers = itertools.count()
        self.queue = f"queue://{self.name}"

    def xid(self) -> Xid:
        """A branch that nobody else knows."""
        return Xid(4711, self.transaction, str(next(self.numbers)).encode())

    def xa_connection(self, url: str | None = None, **settings: Any) -> XAConnection:
        factory = XAConnectionFactory(url or broker_url(), **settings)
        self.addCleanup(factory.close)
        connection = factory.create_xa_connection()
        self.addCleanup(connection.close)
        connection.start()
        return connection

    def begin(self, session: XASession, *texts: str) -> Xid:
        """A new branch in which the texts are sent."""
        xid = self.xid()
        session.xa_resource.start(xid)
        self.send(session, *texts)
        return xid

    def send(self, session: XASession, *texts: str) -> None:
        with session.create_producer(self.queue) as producer:
            for text in texts:
                producer.send(text)

    def refused(self, code: int, function: Any, *arguments: Any) -> None:
        error = self.assertRaises(XAError, function, *arguments)
        self.assertEqual(error.error_code, code, str(error))

    def observer(self) -> MessageConsumer:
        return self.session().create_consumer(self.queue)

    def left(self) -> list[str | None]:
        """The texts in the queue, in their order."""
        with self.session().create_browser(self.queue) as browser:
            return [message.text for message in browser if isinstance(message, TextMessage)]


class CommitTests(XaCase):
    def test_two_phases_over_two_sessions(self) -> None:
        connection, observer = self.xa_connection(), self.observer()
        sessions = [connection.create_xa_session() for _ in range(2)]
        branches = [self.begin(session, f"from {number}") for number, session in enumerate(sessions)]
        for session, xid in zip(sessions, branches, strict=True):
            session.xa_resource.end(xid)
        for session, xid in zip(sessions, branches, strict=True):
            self.assertEqual(session.xa_resource.prepare(xid), XA_OK)
        self.assert_empty(observer)
        for session, xid in zip(sessions, branches, strict=True):
            session.xa_resource.commit(xid)
        self.assertEqual(sorted(map(str, self.texts(observer, 2))), ["from 0", "from 1"])

    def test_one_phase(self) -> None:
        session, observer = self.xa_connection().create_xa_session(), self.observer()
        xid = self.begin(session, "one", "two")
        session.xa_resource.end(xid)
        self.assert_empty(observer)
        session.xa_resource.commit(xid, one_phase=True)
        self.assertEqual(self.texts(observer, 2), ["one", "two"])

    def test_receipts_belong_to_the_branch(self) -> None:
        session = self.xa_connection().create_xa_session()
        sender = self.session()
        for text in ("one", "two"):
            sender.create_producer(self.queue).send(text)
        consumer, resource = session.create_consumer(self.queue), session.xa_resource
        xid = self.begin(session)
        self.assertEqual(self.texts(consumer, 1), ["one"])
        resource.end(xid)
        resource.rollback(xid)
        xid = self.begin(session)
        again = consumer.receive(WAIT)
        assert again is not None
        self.assertEqual((self.text(again), again.delivery_count), ("one", 2))
        self.assertEqual(self.texts(consumer, 1), ["two"])
        resource.end(xid)
        resource.prepare(xid)
        resource.commit(xid)
        consumer.close()
        self.assertEqual(self.left(), [])

    def test_rollback_before_and_after_prepare(self) -> None:
        session, observer = self.xa_connection().create_xa_session(), self.observer()
        for prepared in (False, True):
            xid = self.begin(session, "never")
            session.xa_resource.end(xid, TMFAIL if not prepared else 0x4000000)
            if prepared:
                session.xa_resource.prepare(xid)
            session.xa_resource.rollback(xid)
            self.refused(XAER_NOTA, session.xa_resource.commit, xid)
        self.assert_empty(observer)

    def test_suspend_resume_and_join(self) -> None:
        connection, observer = self.xa_connection(), self.observer()
        first, second = connection.create_xa_session(), connection.create_xa_session()
        self.assertTrue(first.xa_resource.is_same_rm(second.xa_resource))
        xid = self.begin(first, "before")
        first.xa_resource.end(xid, TMSUSPEND)
        other = self.begin(first, "another branch")
        first.xa_resource.end(other)
        first.xa_resource.commit(other, one_phase=True)
        first.xa_resource.start(xid, TMRESUME)
        self.send(first, "after")
        first.xa_resource.end(xid)
        second.xa_resource.start(xid, TMJOIN)
        self.send(second, "joined")
        second.xa_resource.end(xid)
        self.assertEqual(self.texts(observer, 1), ["another branch"])
        first.xa_resource.prepare(xid)
        second.xa_resource.commit(xid)
        self.assertEqual(self.texts(observer, 3), ["before", "after", "joined"])

    def test_what_is_refused(self) -> None:
        connection = self.xa_connection()
        session, second = connection.create_xa_session(), connection.create_xa_session()
        resource, unknown = session.xa_resource, self.xid()
        for call in (resource.commit, resource.rollback, resource.prepare, resource.forget, resource.end):
            self.refused(XAER_NOTA, call, unknown)
        self.refused(XAER_NOTA, resource.start, unknown, TMJOIN)
        self.refused(XAER_NOTA, resource.start, unknown, TMRESUME)
        xid = self.begin(session)
        self.refused(XAER_DUPID, second.xa_resource.start, xid)
        self.refused(XAER_PROTO, resource.start, self.xid())
        self.assertRaises(TransactionInProgressException, session.commit)
        self.assertRaises(TransactionInProgressException, session.rollback)
        resource.end(xid)
        self.refused(XAER_PROTO, resource.commit, xid)

    def test_a_context(self) -> None:
        factory = XAConnectionFactory(broker_url())
        self.addCleanup(factory.close)
        with factory.create_xa_context() as context:
            xid = self.xid()
            context.xa_resource.start(xid)
            context.create_producer().send(self.queue, "from a context")
            context.xa_resource.end(xid)
            context.xa_resource.commit(xid, one_phase=True)
            self.assertTrue(context.transacted)
            self.assertRaises(JMSException, context.create_context)
        self.assertEqual(self.left(), ["from a context"])

    def test_posted_sends_are_in_the_branch(self) -> None:
        """Sends that did not wait for the broker, far more than there are credits for at first."""
        session = self.xa_connection(producer_window_size=2000).create_xa_session()
        xid = self.begin(session, *(f"{number} {'x' * 200}" for number in range(100)))
        session.xa_resource.end(xid)
        session.xa_resource.prepare(xid)
        session.xa_resource.commit(xid)
        self.assertEqual(len(self.left()), 100)


class RecoveryTests(XaCase):
    def recovered(self, resource: XAResource) -> set[Xid]:
        return {xid for xid in resource.recover() if xid.global_transaction_id == self.transaction}

    def test_prepared_branches_outlive_their_connection(self) -> None:
        connection = self.xa_connection()
        session = connection.create_xa_session()
        branches = [self.begin(session, "first")]
        session.xa_resource.end(branches[0])
        branches.append(self.begin(session, "second"))
        session.xa_resource.end(branches[1])
        for xid in branches:
            connection.create_xa_session().xa_resource.prepare(xid)
        connection.close()
        resource = self.xa_connection().create_xa_session().xa_resource
        self.assertEqual(self.recovered(resource), set(branches))
        resource.rollback(branches[0])
        resource.commit(branches[1])
        self.assertEqual(self.recovered(resource), set())
        self.assertEqual(self.left(), ["second"])

    def test_decided_by_an_administrator(self) -> None:
        session = self.xa_connection().create_xa_session()
        resource = session.xa_resource
        branches = [self.begin(session, "committed")]
        resource.end(branches[0])
        branches.append(self.begin(session, "rolled back"))
        resource.end(branches[1])
        for xid in branches:
            resource.prepare(xid)
        for xid, operation in zip(branches, ("commitPreparedTransaction", "rollbackPreparedTransaction"), strict=True):
            self.assertEqual(self.manage(operation, xid.base64), "[true]")
        self.assertEqual(self.left(), ["committed"])
        self.assertEqual(self.recovered(resource), set(branches))
        self.refused(XA_HEURCOM, resource.commit, branches[0])
        self.refused(XA_HEURRB, resource.rollback, branches[1])
        for xid in branches:
            resource.forget(xid)
        self.assertEqual(self.recovered(resource), set())
        self.refused(XAER_NOTA, resource.forget, branches[0])

    def manage(self, operation: str, argument: str) -> str | None:
        session = self.session()
        replies = session.create_temporary_queue()
        request = session.create_text_message(f'["{argument}"]')
        request.properties["_AMQ_ResourceName"] = "broker"
        request.properties["_AMQ_OperationName"] = operation
        request.reply_to = replies
        session.create_producer("queue://activemq.management").send(request)
        return self.text(session.create_consumer(replies).receive(WAIT))

    def test_a_branch_whose_time_is_over(self) -> None:
        session = self.xa_connection().create_xa_session()
        self.assertTrue(session.xa_resource.set_transaction_timeout(6))  # s: the send is to come before, also after a stall
        xid = self.begin(session, "too late")

        def rolled_back() -> bool:
            probe = self.xa_connection().create_xa_session().xa_resource
            try:
                probe.start(xid, TMJOIN)
                probe.end(xid)
            except XAError:
                return True
            return False

        self.eventually(rolled_back)
        with self.assertRaises(XAError) as refused:
            session.xa_resource.end(xid)
            if against_artemis():  # It forgets the branch a moment before it rolls it back: the end may still succeed then.
                session.xa_resource.prepare(xid)
        # Some brokers know why the branch is gone, and some only that it is.
        self.assertIn(refused.exception.error_code, (XA_RBTIMEOUT, XAER_PROTO, XAER_NOTA))
        self.assertEqual(self.left(), [])


class FailureTests(XaCase):
    def setUp(self) -> None:
        super().setUp()
        self.proxy = Proxy(broker_url())
        self.addCleanup(self.proxy.close)

    def test_a_failure_inside_a_branch(self) -> None:
        connection, reported = self.xa_connection(self.proxy.url, **AGAIN), list[JMSException]()
        session = connection.create_xa_session()
        xid = self.begin(session, "lost")
        self.proxy.cut()
        self.refused(XAER_RMFAIL, session.xa_resource.end, xid)
        try:
            session.xa_resource.rollback(xid)
        except XAError as gone:  # the broker has noticed the failure, and what was not prepared is or will be rolled back
            self.assertIn(gone.error_code, (XAER_NOTA, XAER_PROTO))
        xid = self.begin(session, "second try")
        session.xa_resource.end(xid)
        session.xa_resource.prepare(xid)
        connection.exception_listener = reported.append
        self.proxy.cut()
        self.eventually(lambda: reported)  # the answer to a commit before that would be lost
        session.xa_resource.commit(xid)
        self.assertEqual(self.left(), ["second try"])

    def test_reattached(self) -> None:
        session = self.xa_connection(self.proxy.url, confirmation_window_size=100_000, **AGAIN).create_xa_session()
        xid = self.begin(session, "one")
        self.proxy.cut()
        self.send(session, "two")
        session.xa_resource.end(xid)
        self.proxy.cut()
        session.xa_resource.prepare(xid)
        session.xa_resource.commit(xid)
        self.assertEqual(self.left(), ["one", "two"])

    def test_without_reconnecting(self) -> None:
        session = self.xa_connection(self.proxy.url).create_xa_session()
        xid = self.begin(session, "in doubt")
        session.xa_resource.end(xid)
        session.xa_resource.prepare(xid)
        self.proxy.cut()
        self.eventually(lambda: session.closed)
        self.assertRaises(JMSException, lambda: session.create_producer(self.queue))
        resource = self.xa_connection().create_xa_session().xa_resource
        self.assertIn(xid, resource.recover())
        resource.commit(xid)
        self.assertEqual(self.left(), ["in doubt"])
