"""The cluster user's sessions."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER, Configuration
from mqclient.errors import ClusterSecurityError, SecurityError
from mqclient.wire import packets as wire
from mqclient.wire.bodies import encode_text
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.properties import STRING
from tests.support.broker import World
from tests.unit.cluster.support import CONNECTIONS, cluster_world


class ClusterUserTests(SynchronousTestCase):
    def refusal(self, world: World, user: str | None, password: str | None) -> int:
        peer = world.peer()
        peer.session(username=user, password=password)
        (answer,) = peer.take(SESSION_CHANNEL)
        assert isinstance(answer, wire.ExceptionResponse)
        return answer.error_code

    def test_it_may_do_everything(self) -> None:
        settings: dict[str, Any] = {"#": {"send": frozenset({"nobody has this role"})}}
        world, _ = cluster_world(security_settings=settings, management_message_rbac=True)
        session = world.peer().open(username="cu", password="cp")
        session.create_queue("q")
        session.publish()
        session.consume()
        self.assertEqual(session.bodies(), [b"body"])
        properties = {"_AMQ_ResourceName": (STRING, "broker"), "_AMQ_OperationName": (STRING, "updateDuplicateIdCache")}
        request = CoreMessage(address="activemq.management", properties=properties, body=encode_text(json.dumps(["q", ["id"]])))
        session.ok(wire.SessionSend(encode_message(request), True, 1))
        cache = world.messaging.core.known_duplicate_ids("q")
        assert cache is not None
        self.assertEqual(len(cache), 1)

    def test_only_its_own_wrong_password_is_the_cluster_error(self) -> None:
        world, _ = cluster_world()
        self.assertEqual(self.refusal(world, "cu", "wrong"), ClusterSecurityError.code)
        self.assertEqual(self.refusal(world, "cu", None), ClusterSecurityError.code)
        self.assertEqual(self.refusal(world, "other", "cp"), SecurityError.code)
        self.assertEqual(self.refusal(world, "admin", "cp"), SecurityError.code)
        self.assertEqual(self.refusal(world, DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD), SecurityError.code)

    def test_the_default_password_counts_in_a_cluster_only(self) -> None:
        alone = World(Configuration())
        self.assertEqual(self.refusal(alone, DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD), SecurityError.code)
        clustered = World(Configuration(cluster_connections=CONNECTIONS))
        clustered.peer().open(username=DEFAULT_CLUSTER_USER, password=DEFAULT_CLUSTER_PASSWORD)
