"""Dead letters: proposals, retries with a broker that answers as it is told, and what the command refuses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BrokerUnreachableError, MqsparkError
from mqspark.jobs.brokers import Brokers
from mqspark.jobs.deadletters import GROUPS_SHOWN, Group, Proposal, Retried, matches, propose, report, retry_one
from tests.unit.mqspark.jobs.test_command import UNREACHABLE, invoked

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def group(reason: str = "not delivered", address: str | None = "orders", origin: str | None = "orders", **more: Any) -> Group:
    values: dict[str, Any] = {"node_id": "n1", "queue": "DLQ", "messages": 5, "oldest": NOON, "newest": NOON} | more
    return Group(reason=reason, address=address, origin=origin, **values)


class PlayedBroker:
    """Answers the questions that the job asks."""

    def __init__(self, node_id: str = "n1", queues: dict[str, int] | None = None, addresses: dict[str, list[str]] | None = None) -> None:
        self.node_id = node_id
        self.queues = queues or {}
        self.addresses = addresses or {}
        self.calls: list[tuple[object, ...]] = []
        self.answers: list[object] = []

    def queue_query(self, queue: str) -> SimpleNamespace:
        return SimpleNamespace(exists=queue in self.queues, consumer_count=self.queues.get(queue, 0))

    def address_query(self, address: str) -> SimpleNamespace:
        return SimpleNamespace(queue_names=self.addresses.get(address, []))

    def manage(self, resource: str, operation: str, *parameters: object, repeat: bool = False) -> object:
        self.calls.append((resource, operation, *parameters, repeat))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def cluster(*brokers: PlayedBroker) -> Brokers:
    class Played:
        def each(self) -> Iterator[PlayedBroker]:
            return iter(brokers)

    return cast(Brokers, Played())


class ProposalTests(SynchronousTestCase):
    def proposed(self, one: Group, *wanted: str, **world: Any) -> Proposal:
        return propose([one], cluster(PlayedBroker(**world)), wanted)[one]

    def test_back_to_the_queue_when_it_is_there(self) -> None:
        self.assertEqual(self.proposed(group(), queues={"orders": 2}), Proposal(True, "retry"))
        self.assertEqual(self.proposed(group(), queues={"orders": 0}), Proposal(True, "retry: but no consumer is there"))

    def test_to_the_address_when_the_queue_is_gone(self) -> None:
        addresses = {"orders": ["other"]}
        self.assertEqual(
            self.proposed(group(), addresses=addresses), Proposal(True, "retry: to the address, as its queue no longer exists")
        )
        self.assertEqual(self.proposed(group("not routed", origin=None), addresses=addresses), Proposal(True, "retry: to the address"))

    def test_what_has_no_place_is_left(self) -> None:
        self.assertEqual(self.proposed(group()), Proposal(False, "leave: its queue no longer exists"))
        self.assertEqual(self.proposed(group(origin=None)), Proposal(False, "leave: the address has no queue"))
        self.assertEqual(self.proposed(group(address=None, origin=None)), Proposal(False, "leave: nothing says where from"))

    def test_expired_messages_only_when_they_are_asked_for(self) -> None:
        self.assertFalse(self.proposed(group("expired"), queues={"orders": 1}).retry)
        self.assertFalse(self.proposed(group("expired"), "not", queues={"orders": 1}).retry)
        self.assertTrue(self.proposed(group("expired"), "expired", queues={"orders": 1}).retry)

    def test_each_node_is_asked_for_its_own(self) -> None:
        here, there = group(), group(node_id="n2")
        found = propose([here, there], cluster(PlayedBroker("n1", {"orders": 1}), PlayedBroker("n2")))
        self.assertEqual([found[here].retry, found[there].retry], [True, False])

    def test_groups_of_a_node_that_has_left_are_left_alone(self) -> None:
        one = group(node_id="n3")
        self.assertEqual(propose([one], cluster(PlayedBroker()))[one], Proposal(False, "leave: its node is away"))

    def test_reasons_are_chosen_by_how_they_begin(self) -> None:
        self.assertTrue(matches("not delivered: no stock", ["not delivered: no"]))
        self.assertFalse(matches("not delivered", ["delivered"]))


class RetryTests(SynchronousTestCase):
    def test_what_the_broker_answers_is_counted(self) -> None:
        broker, result = PlayedBroker(), Retried()
        broker.answers = [True, False, MqsparkError("the address is full")]
        for number in (7, 8, 9):
            retry_one(broker, "DLQ", number, result)  # type: ignore[arg-type]
        self.assertEqual((result.done, result.gone), (1, 1))
        self.assertEqual(result.failed, ["DLQ: message 9: the address is full"])
        self.assertEqual(broker.calls[0], ("queue.DLQ", "retryMessage", 7, True))

    def test_a_broker_that_goes_away_ends_the_job(self) -> None:
        broker = PlayedBroker()
        broker.answers = [BrokerUnreachableError("away")]
        self.assertRaises(BrokerUnreachableError, retry_one, broker, "DLQ", 7, Retried())


class ReportTests(SynchronousTestCase):
    proposals = {group(): Proposal(True, "retry"), group("expired"): Proposal(False, "leave")}

    def test_without_retry_it_says_what_would_be_done(self) -> None:
        answer = report(list(self.proposals), self.proposals, None, None)
        self.assertEqual([row[2] for row in answer.tables[0].rows], ["not delivered", "expired"])
        self.assertEqual((answer.notes, answer.status), (["10 dead letters; --retry would send back 5 of them."], 0))
        self.assertIn("back 3 of them", report(list(self.proposals), self.proposals, None, 3).notes[0])

    def test_refused_messages_make_it_fail(self) -> None:
        done = Retried(2, 1, [f"sentence {number}" for number in range(30)])
        answer = report(list(self.proposals), self.proposals, done, None)
        self.assertEqual(answer.status, 1)
        self.assertEqual(answer.notes[:3], ["2 of 10 dead letters were sent back.", "1 were no longer in the queue.", "30 were refused:"])
        self.assertEqual(len(answer.notes), 13)

    def test_many_groups_are_not_all_shown(self) -> None:
        groups = [group(str(number)) for number in range(60)]
        answer = report(groups, dict.fromkeys(groups, Proposal(True, "retry")), None, None)
        self.assertEqual(len(answer.tables[0].rows), GROUPS_SHOWN)
        self.assertIn("greatest 50 of 60 groups", answer.tables[0].title)
        self.assertIn("300 dead letters", answer.notes[0])


class CommandTests(SynchronousTestCase):
    def test_help(self) -> None:
        status, out, _ = invoked("deadletters", "--help")
        self.assertEqual(status, 0)
        for option in ("--retry", "--limit", "--reason-property", "--origin"):
            self.assertIn(option, out)

    def test_bad_arguments_are_refused_before_spark_starts(self) -> None:
        for arguments, status, sentence in (
            (("--limit", "0"), 2, "--limit"),
            (("--since", "soon"), 2, "'soon' is not a time"),
            (("--queue", "a,,b"), 2, "names of queues"),
            (UNREACHABLE, 3, "no broker can be reached at 127.0.0.1:1"),
        ):
            found, _, err = invoked("deadletters", *arguments)
            self.assertEqual((found, sentence in err), (status, True), err)
