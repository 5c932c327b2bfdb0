"""What brokers of one cluster must have in common."""

from __future__ import annotations

from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.matching import differences, match_properties
from mqbroker.config.model.home_cluster import EnhancedCluster, HomeCluster

HOME = HomeCluster(("a:1", "b:1"), "a:1", "b:1")


class MatchTests(SynchronousTestCase):
    def compare(self, **changes: object) -> list[str]:
        return differences(match_properties(HOME), match_properties(replace(HOME, **changes)))  # type: ignore[arg-type]

    def test_equal_brokers_have_no_difference(self) -> None:
        self.assertEqual(self.compare(address="a:1", consumer_flow_limit=3, wait_reply_s=1), [])

    def test_each_difference_is_a_sentence(self) -> None:
        self.assertEqual(self.compare(autocreate_queue=False), ["imq.autocreate.queue is true here and false there"])
        self.assertEqual(self.compare(cluster_id="c"), ["imq.cluster.clusterid is not set here and c there"])
        self.assertEqual(
            self.compare(autocreate_topic=False, nowait_for_master=True),
            ["imq.autocreate.topic is true here and false there", "imq.cluster.nowaitForMasterBroker is false here and true there"],
        )

    def test_services_are_the_same_where_a_member_may_take_over_the_clients_of_another(self) -> None:
        home = replace(HOME, master=None, enhanced=EnhancedCluster())
        other = replace(home, services=frozenset(("jms", "admin", "ssljms")))
        expected = ["imq.service.activelist is admin,jms here and admin,jms,ssljms there"]
        self.assertEqual(differences(match_properties(home), match_properties(other)), expected)
        self.assertEqual(self.compare(services=frozenset(("ssljms",))), [], "nobody takes over here")

    def test_a_broker_without_a_master_differs_from_one_with_it(self) -> None:
        self.assertEqual(len(self.compare(master=None)), 2)
