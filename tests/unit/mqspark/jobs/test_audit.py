"""What an audit is told, without Spark."""

from __future__ import annotations

import importlib.util
import unittest

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark.errors import BadOptionError
from mqspark.jobs.audit import plan_audit

BROKER = {"url": "tcp://localhost:61616"}


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
