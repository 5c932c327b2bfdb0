"""Whom a broker asks to host its backup, and when it asks again."""

from __future__ import annotations

from typing import Any

from twisted.logger import capturedLogs, formatEvent

from mqbroker.cluster.membership.votes import OFFER_VOTE, WANTED_VOTE, wanted_question
from mqbroker.config.model.cluster import ColocatedConfiguration
from mqbroker.ha.colocated.hosted_configuration import Hosted
from mqbroker.ha.colocated.requesting import HostSearch
from mqclient.wire.packets import BackupRequest
from tests.unit.ha.colocated.support import REPLICATED, ColocatedCase, PlayedProcess
from tests.unit.ha.replication.support import Node

INTERVAL_MS = 5000


class SearchCase(ColocatedCase):
    def setUp(self) -> None:
        super().setUp()
        self.own = self.broker("own", 1, 2, 3)
        self.active = True

    def search(self, retries: int = -1) -> HostSearch:
        server: Any = self.own.life.active.server
        topology = server.cluster.connections["c"].topology
        configuration = ColocatedConfiguration(
            REPLICATED, request_backup=True, backup_request_retries=retries, backup_request_retry_interval=INTERVAL_MS
        )

        def request(count: int) -> BackupRequest:
            return BackupRequest(count, None, None, None, None, server.node_id)

        search = HostSearch(self.side(self.own), configuration, server.node_id, lambda: topology, request, lambda: self.active)
        search.register(server.cluster_channel)
        search.start()
        self.addCleanup(self.run_for, 1)
        self.addCleanup(search.stop)
        return search

    def found(self) -> HostSearch:
        search = self.search()
        self.run_until(lambda: search.host is not None)
        return search

    def other(self, name: str, port: int) -> Node:
        node = self.broker(name, port, 1)
        own: Any = self.own.life.active.server
        self.run_until(lambda: len(list(own.cluster.connections["c"].topology)) > port - 1)
        return node

    def id_of(self, node: Node) -> str:
        return node.life.active.server.node_id

    def hosts(self, process: PlayedProcess) -> list[str]:
        return [broker.hosted.node_id for broker in process.started]


class RequestTests(SearchCase):
    def test_the_broker_with_the_fewest_backups_is_asked(self) -> None:
        for busy_port, idle_port in ((2, 3), (3, 2)):
            with self.subTest(busy=busy_port):
                nodes = {port: self.other(f"at {port}", port) for port in (2, 3)}
                busy, _ = self.host(nodes[busy_port], max_backups=5)
                busy.resume([Hosted(1, "somebody", None)])
                self.host(nodes[idle_port], max_backups=5)
                search = self.found()
                self.assertEqual(search.host, self.id_of(nodes[idle_port]))
                search.stop()
                for node in nodes.values():
                    node.kill()
                self.run_for(1)

    def test_the_broker_that_has_the_backup_already_is_asked_again(self) -> None:
        hosts = [self.host(self.other(f"at {port}", port), max_backups=5) for port in (2, 3)]
        first = self.found()
        host = first.host
        for hosting, process in hosts:
            if process.started:
                hosting.resume([Hosted(number, f"node {number}", None) for number in (2, 3)])
        first.stop()
        self.run_for(1)
        self.assertEqual(self.found().host, host)
        self.assertEqual(sorted(len(process.started) for _, process in hosts), [0, 3])

    def test_a_full_broker_is_not_asked(self) -> None:
        full, empty = self.other("full", 2), self.other("empty", 3)
        _, nobody = self.host(full, max_backups=0)
        _, process = self.host(empty, max_backups=1)
        search = self.search()
        self.run_until(lambda: search.host is not None)
        self.assertEqual((search.host, nobody.asked), (self.id_of(empty), []))
        self.assertEqual(self.hosts(process), [self.id_of(self.own)])

    def test_a_refusal_sends_to_the_next_one(self) -> None:
        refusing, willing = self.other("refusing", 2), self.other("willing", 3)
        processes = [self.host(node)[1] for node in (refusing, willing)]
        for process in processes:
            process.refusal = "no room"
        with capturedLogs() as captured:
            search = self.search()
            self.run_for(1)
        self.assertEqual([len(process.asked) for process in processes], [1, 1])
        (told,) = [formatEvent(event) for event in captured if "they are asked again" in formatEvent(event)]
        self.assertIn("refuses", told)
        processes[1].refusal = ""
        self.run_for(INTERVAL_MS / 1000)
        self.assertEqual(search.host, self.id_of(willing))

    def test_a_java_broker_is_never_asked(self) -> None:
        """It could not use the journal."""
        votes: list[str] = []
        java = self.other("java", 2)
        _, process = self.host(java)
        java.speak_java(votes)
        search = self.search()
        self.run_for(2 * INTERVAL_MS / 1000)
        self.assertEqual((search.host, process.asked), (None, []))
        self.assertNotIn(OFFER_VOTE, votes)

    def test_a_broker_that_stands_still_does_not_keep_others_from_being_asked(self) -> None:
        still, willing = self.other("still", 2), self.other("willing", 3)
        _, process = self.host(willing)
        still.stand_still()
        search = self.search()
        took = self.run_until(lambda: search.host is not None)
        self.assertLess(took, 6)
        self.assertEqual(self.hosts(process), [self.id_of(self.own)])

    def test_a_broker_that_leaves_while_it_is_asked_hosts_nothing(self) -> None:
        self.other("host", 2)
        search = self.search()
        search.stop()
        self.run_for(INTERVAL_MS / 1000)
        self.assertIsNone(search.host)


class RetryTests(SearchCase):
    def test_an_empty_cluster_is_asked_again_so_many_times(self) -> None:
        with capturedLogs() as captured:
            self.search(retries=2)
            self.run_for(2 * INTERVAL_MS / 1000 - 1)
            self.assertEqual(self.said(captured, "none is asked any more"), 0)
            self.run_for(2)
            self.assertEqual(self.said(captured, "none is asked any more"), 1)
        self.assertEqual(self.said(captured, "they are asked again"), 1)
        _, process = self.host(self.other("late", 2))
        self.run_for(3 * INTERVAL_MS / 1000)
        self.assertEqual(process.asked, [])

    def said(self, captured: Any, text: str) -> int:
        return sum(text in formatEvent(event) for event in captured)

    def test_without_a_number_it_is_asked_for_ever(self) -> None:
        search = self.search()
        self.run_for(20 * INTERVAL_MS / 1000)
        self.host(self.other("late", 2))
        self.run_until(lambda: search.host is not None)

    def test_another_one_is_asked_when_the_host_has_gone(self) -> None:
        first, second = self.other("first", 2), self.other("second", 3)
        for node in (first, second):
            self.host(node)
        search = self.search(retries=0)
        self.run_until(lambda: search.host is not None)
        gone, left = (first, second) if search.host == self.id_of(first) else (second, first)
        gone.kill()
        self.run_until(lambda: search.host == self.id_of(left))

    def test_another_one_is_asked_when_the_host_has_it_no_longer(self) -> None:
        first, second = self.other("first", 2), self.other("second", 3)
        processes = {self.id_of(node): self.host(node)[1] for node in (first, second)}
        search = self.search()
        self.run_until(lambda: search.host is not None)
        host = search.host
        assert host is not None
        processes[host].refusal = "the disk is full"
        processes[host].started[0].failed("the disk is full")
        self.run_until(lambda: search.host not in (None, host))

    def test_a_broker_that_is_not_active_asks_nobody(self) -> None:
        self.active = False
        _, process = self.host(self.other("host", 2))
        search = self.search()
        self.run_for(INTERVAL_MS / 1000)
        self.assertEqual((search.host, process.asked), (None, []))

    def test_a_defect_does_not_end_the_search(self) -> None:
        search = self.search()
        broken = [RuntimeError("broken")]
        offers = search._offers

        async def fail_once() -> Any:
            if broken:
                raise broken.pop()
            return await offers()

        self.patch(search, "_offers", fail_once)
        self.host(self.other("host", 2))
        self.run_for(2 * INTERVAL_MS / 1000)
        self.assertIsNotNone(search.host)
        self.flushLoggedErrors(RuntimeError)


class WantedTests(SearchCase):
    def wanted(self, by: str) -> bool:
        channel: Any = self.own.life.active.server.cluster_channel
        return bool(channel._votes[WANTED_VOTE](None, wanted_question(by))[0])

    def test_a_backup_is_wanted_where_it_is_and_everywhere_as_long_as_it_is_nowhere(self) -> None:
        search = self.search()
        self.assertTrue(self.wanted("anybody"))
        host = self.other("host", 2)
        self.host(host)
        self.run_until(lambda: search.host is not None)
        self.assertEqual((self.wanted(self.id_of(host)), self.wanted("another")), (True, False))
