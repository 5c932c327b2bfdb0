"""What an audit is told, without Spark."""

from __future__ import annotations

import importlib.util
import unittest
from typing import NoReturn
from unittest.mock import MagicMock

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark.broker import broker
from mqspark.broker.nodes import Node
from mqspark.errors import BadOptionError, BrokerUnreachableError
from mqspark.jobs.audit import _queues, plan_audit

BROKER = {"url": "tcp://localhost:61616"}


class AbsenceTests(SynchronousTestCase):
    def test_a_node_that_is_away_is_an_audit_that_cannot_be_done(self) -> None:
        """Its messages would count as lost, or its doubled ones would be missed."""
        asked: list[object] = []

        def connect(_: object, node: Node, **__: object) -> NoReturn:
            asked.append(node)
            raise BrokerUnreachableError("node b cannot be reached")

        self.patch(broker, "nodes", lambda _: [Node("b", ())])
        self.patch(broker, "connect", connect)
        reader = MagicMock()
        error = self.assertRaises(BrokerUnreachableError, _queues, reader, plan_audit(BROKER, queues=["q"]))
        self.assertEqual((str(error), len(asked)), ("node b cannot be reached", 1))
        reader.read.format.assert_not_called()


class PlanTests(SynchronousTestCase):
    def test_places(self) -> None:
        plan = plan_audit(BROKER, archives=["/a", "/b"], journals=["/data"], queues=["q", "r"], reference="/all")
        self.assertEqual(plan.places, ["archive /a", "archive /b", "journal /data", "queues q,r", "reference /all"])
        self.assertEqual(plan.options, {**BROKER, "queue": "q,r"})
        self.assertEqual(plan_audit(BROKER, archives=["/a"]).options, {})

    def test_what_messages_must_have_is_named_as_users_name_it(self) -> None:
        for more, wanted in (
            ({"sequence": "number"}, "the property number with a whole number"),
            ({"identity": "order"}, "the property order"),
            ({}, "a JMSMessageID"),
        ):
            self.assertEqual(plan_audit(BROKER, queues=["q"], **more).wanted, wanted)  # type: ignore[arg-type]

    def test_what_excludes_each_other(self) -> None:
        for text, wrong in (
            ("nothing to look at", {}),
            ("nothing to look at", {"reference": "/all"}),
            ("exclude each other", {"archives": ["/a"], "sequence": "n", "identity": "i"}),
            ("need --sequence", {"archives": ["/a"], "producer": "p"}),
            ("need --sequence", {"archives": ["/a"], "first": 0}),
        ):
            error = self.assertRaises(BadOptionError, plan_audit, BROKER, **wrong)
            self.assertIn(text, str(error))
