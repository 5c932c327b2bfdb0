"""The instances of ``mqbroker demo takeover``."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.members import MemberFigures, Members, member_figures
from mqbroker.settings import settings_from_instance


class MemberTests(SynchronousTestCase):
    def test_each_is_an_instance_of_one_cluster_on_one_database(self) -> None:
        members = Members(2)
        try:
            made = [settings_from_instance(member.folder / "instances" / member.name, (), {}).configuration for member in members.members]
            homes = [each.home_cluster for each in made]
            self.assertEqual([home and (home.broker_id, home.cluster_id) for home in homes], [("b0", "demo"), ("b1", "demo")])
            self.assertEqual(len({each.database_store and each.database_store.url for each in made}), 1)
            self.assertIn("exactlyOnce=true", members.members[0].home.url)
        finally:
            members.__exit__(None, None, None)

    def test_the_figures_of_a_member(self) -> None:
        rows = {"brokers": [{"brokerID": "b0", "state": "TAKEOVER_COMPLETE", "takeoverBrokerID": "b1"}]}

        class Broker:
            def attribute(self, resource: str, name: str) -> int:
                return {"MessageCount": 3, "ConsumerCount": 1}[name]

            def invoke(self, resource: str, operation: str) -> str:
                return json.dumps(rows)

        broker: Any = Broker()
        self.assertEqual(member_figures(broker), MemberFigures(3, 1, {"b0": ("TAKEOVER_COMPLETE", "b1")}))
