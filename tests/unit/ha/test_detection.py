"""The time until another broker goes on, added up by setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import (
    ClusterConnectionConfiguration,
    LockManagerConfiguration,
    ReplicationConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import EnhancedCluster, HomeCluster
from mqbroker.ha.detection import Delay, Detection, Share, detection, silence
from mqbroker.ha.proof.rules import LOCK_RETRY_SECONDS
from mqclient.protocol.connection import ConnectionBroken, CoreConnection
from mqclient.urls import TransportUri

CONNECTOR = TransportUri("tcp", "h", 1, name="own")


def found(nfs: Share | None = None, backup: bool = True, timeout: int = -1, connector: TransportUri = CONNECTOR, **link: Any) -> Detection:
    configuration = Configuration(
        shared_store=SharedStoreConfiguration(backup),
        journal_lock_acquisition_timeout=timeout,
        connectors={"own": connector},
        cluster_connections=[ClusterConnectionConfiguration("c", "own", **link)],
    )
    result = detection(configuration, nfs)
    assert result is not None
    return result


def shares(delay: Delay) -> dict[str, float]:
    return {share.setting: share.seconds for share in delay.shares}


class SharedStoreTests(SynchronousTestCase):
    def test_without_a_backup_there_is_nothing_to_add_up(self) -> None:
        self.assertIsNone(detection(Configuration(), None))

    def test_a_member_of_an_enhanced_cluster_is_taken_over_by_another_one(self) -> None:
        cluster = EnhancedCluster(heartbeat_interval=1, heartbeat_threshold=2, monitor_interval=1, monitor_threshold=2)
        home = HomeCluster((), None, "a:7676", enhanced=cluster)
        found = detection(Configuration(home_cluster=home), None)
        assert found is not None
        [delay] = found.delays
        self.assertEqual(([each.seconds for each in delay.shares], delay.seconds, found.warnings), ([2, 3], cluster.detection_s, []))
        slow = detection(Configuration(home_cluster=replace(home, enhanced=EnhancedCluster())), None)
        assert slow is not None
        [warning] = slow.warnings
        self.assertIn("after up to 135 s, more than 10 s (imq.cluster.monitor.interval", warning)
        self.assertIsNone(detection(Configuration(home_cluster=replace(home, enhanced=None)), None))

    def test_the_folder_is_taken_at_the_next_look(self) -> None:
        folder, _ = found().delays
        self.assertEqual((folder.seconds, folder.warning()), (0.5, None))

    def test_a_dead_file_server_comes_first(self) -> None:
        folder, _ = found(Share("timeo=600 x retrans=2 of /data", 120.0)).delays
        self.assertEqual(folder.seconds, 120.5)
        self.assertIn(
            "A backup takes the folder of a dead broker after up to 120.5 s, more than 10 s (timeo=600 x retrans=2 of /data: 120 s, ",
            str(folder.warning()),
        )

    def test_each_setting_of_a_cluster_connection_has_its_share(self) -> None:
        _, link = found().delays
        self.assertEqual(
            shares(link),
            {
                "connection-ttl": 60.0,
                "check-period, beyond connection-ttl": 0.0,
                "connection-ttl, of an attempt to connect to the dead broker": 60.0,
                "retry-interval": 0.5,
            },
        )
        self.assertIn("Another broker of the cluster-connection c follows", str(link.warning()))
        _, link = found(check_period=1000, connection_ttl=2000).delays
        self.assertEqual((link.seconds, link.warning()), (4.5, None))

    def test_a_check_period_above_the_ttl_counts(self) -> None:
        _, link = found(check_period=30_000, connection_ttl=2000).delays
        self.assertEqual(shares(link)["check-period, beyond connection-ttl"], 30.0)

    def test_an_attempt_to_connect_has_a_limit_of_its_own(self) -> None:
        connector = TransportUri("tcp", "h", 1, {"connect-timeout-millis": "700"}, "own")
        _, link = found(connector=connector).delays
        self.assertEqual(shares(link)["connect-timeout-millis of the connector own"], 0.7)

    def test_pauses_that_grow_count_with_their_maximum(self) -> None:
        for link, setting, seconds in (
            ({"retry_interval": 500}, "retry-interval", 0.5),
            ({"retry_interval": 500, "retry_interval_multiplier": 2.0, "max_retry_interval": 4000}, "max-retry-interval", 4.0),
            ({"retry_interval": 5000, "max_retry_interval": 4000}, "retry-interval", 4.0),
        ):
            _, delay = found(**link).delays
            self.assertEqual(shares(delay)[setting], seconds)

    def test_traps(self) -> None:
        self.assertEqual(found().traps, ())
        self.assertIn("journal-lock-acquisition-timeout: this backup ends after it has waited for 60 s", found(timeout=60_000).traps[0])
        self.assertEqual(found(timeout=60_000, backup=False).traps, ())
        alone = detection(Configuration(shared_store=SharedStoreConfiguration(True)), None)
        assert alone is not None
        self.assertEqual(len(alone.delays), 1)
        (warning,) = alone.warnings
        self.assertIn("without a cluster-connection", warning)

    def database(self, url: str, **times: int) -> Detection:
        store = DatabaseStoreConfiguration(url, **times)
        link = ClusterConnectionConfiguration("c", "own", check_period=1000, connection_ttl=2000)
        result = detection(
            Configuration(
                shared_store=SharedStoreConfiguration(True),
                database_store=store,
                connectors={"own": CONNECTOR},
                cluster_connections=[link],
            ),
            None,
        )
        assert result is not None
        return result

    def test_a_lease_in_a_database_has_to_end(self) -> None:
        found = self.database("jdbc:postgresql://h/mq")
        lease, _ = found.delays
        self.assertEqual((lease.seconds, found.traps), (20.5, ()))
        self.assertIn("A backup takes the data of a dead broker after up to 20.5 s, more than 10 s", found.warnings[0])
        self.assertIn("(jdbc-lock-expiration: 20 s, built in: ", found.warnings[0])
        lease, _ = self.database("jdbc:postgresql://h/mq", lock_expiration=6000, network_timeout=8000).delays
        self.assertEqual(shares(lease)["jdbc-network-timeout of a transaction under way, beyond jdbc-lock-expiration"], 2.0)
        self.assertEqual(lease.seconds, 8.5)

    def test_with_sqlite_there_is_no_network(self) -> None:
        found = self.database("jdbc:sqlite:x.db", lock_expiration=6000)
        self.assertEqual((found.delays[0].seconds, found.traps), (6.5, ()))

    def test_a_broker_with_a_replica(self) -> None:
        configuration = Configuration(
            replication=ReplicationConfiguration(False, cluster_name="c"),
            connection_ttl_check_interval=500,
            connectors={"own": CONNECTOR},
            cluster_connections=[
                ClusterConnectionConfiguration("first", "own"),
                ClusterConnectionConfiguration("c", "own", check_period=1000, connection_ttl=1500),
            ],
        )
        result = detection(configuration, None)
        assert result is not None
        replica, by_voters, primary, primary_by_voters, *links = result.delays
        asked = "built in: the dead copy is asked for its word"
        voted = "built in: the voters are asked twice, and those that live answer at once"
        dead_primary = {"connection-ttl": 1.5, "check-period, beyond connection-ttl": 0.5, asked: 2.0}
        dead_replica = {"connection-ttl": 1.5, "connection-ttl-check-interval, twice": 1.0, asked: 2.0}
        self.assertEqual((shares(replica), shares(by_voters)), (dead_primary, {**dead_primary, voted: 0.0}))
        alone = {"built in: the dead copy is looked for twice": 2.15, "connection-ttl": 1.5, "connection-ttl-check-interval, twice": 1.0}
        self.assertEqual((shares(primary), shares(primary_by_voters)), (alone, {**dead_replica, voted: 0.0}))
        self.assertEqual(
            (replica.what, by_voters.what),
            ("A replica takes over from a dead primary, in a pair alone", "A replica takes over from a dead primary, with voters"),
        )
        self.assertEqual((len(links), result.traps), (2, ()))

    def test_with_a_lock_manager_nobody_votes(self) -> None:
        configuration = Configuration(
            replication=ReplicationConfiguration(False, manager=LockManagerConfiguration("a:B")),
            connectors={"own": CONNECTOR},
            cluster_connections=[ClusterConnectionConfiguration("c", "own", check_period=1000, connection_ttl=1500)],
        )
        result = detection(configuration, None)
        assert result is not None
        replica, primary, _ = result.delays
        again = "built in: the lock manager is asked again"
        self.assertEqual(replica.what, "A replica takes over from a dead primary, with the lock manager")
        self.assertEqual(
            shares(replica), {"connection-ttl": 1.5, "check-period, beyond connection-ttl": 0.5, again: 1.5 * LOCK_RETRY_SECONDS}
        )
        self.assertEqual(primary.what, "A primary goes on without a dead replica, with the lock manager")
        for seconds, rest in ((6.0, 4.0), (1.0, 0.0)):
            result = detection(configuration, None, Share("session-ms", seconds))
            assert result is not None
            self.assertEqual(shares(result.delays[0])["session-ms, beyond the time until it is noticed"], rest)
            self.assertEqual(result.delays[1], primary)

    def test_a_replica_that_answers_nothing_is_given_up_by_what_ends_first(self) -> None:
        for options, expected in (
            ({"connection_ttl_override": 20_000}, {"connection-ttl-override": 20.0, "connection-ttl-check-interval, twice": 4.0}),
            ({}, {"call-timeout": 30.0, "built in: the primary looks at its replica": 1.0}),
            ({"connection_ttl_override": 20_000, "connection_ttl_check_interval": 0}, {"call-timeout": 30.0}),
        ):
            configuration = Configuration(
                replication=ReplicationConfiguration(True),
                connectors={"own": CONNECTOR},
                cluster_connections=[ClusterConnectionConfiguration("first", "own")],
                **options,
            )
            result = detection(configuration, None)
            assert result is not None
            self.assertEqual(shares(result.delays[0])["connection-ttl"], 60.0)
            self.assertLessEqual(expected.items(), shares(result.delays[2]).items())
            self.assertIn("A primary goes on without a dead replica, in a pair alone after up to", result.warnings[2])

    @given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 100))
    def test_a_link_lasts_no_longer_than_its_shares_say(self, ttl: int, period: int, last: int) -> None:
        """The peer says something for the last time at ``last``, and answers no ping from then on."""
        protocol = CoreConnection(ttl * 1000, period * 1000)
        protocol.opened(0.0)
        now = 0.0
        protocol.receive_data(b"", now)
        while (timer := protocol.next_timer()) is not None:
            if now < last <= timer:
                now = float(last)
                protocol.receive_data(b"", now)
                continue
            now = timer
            events = protocol.timer_due(now)
            if any(isinstance(event, ConnectionBroken) for event in events):
                break
            if now < last:
                protocol.receive_data(b"", now)
        heard = last if now >= last else 0.0
        link = ClusterConnectionConfiguration("c", "own", connection_ttl=ttl * 1000, check_period=period * 1000)
        self.assertLessEqual(now - heard, sum(share.seconds for share in silence(link)))
