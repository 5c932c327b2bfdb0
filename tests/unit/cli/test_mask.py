"""``mqbroker mask`` and ``mqbroker check password``."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.cli.runner import mqbroker


class MaskTests(SynchronousTestCase):
    def test_two_way_as_artemis_prints_it(self) -> None:
        self.assertEqual(mqbroker("mask", "secret").out, "result: -41e444c3ed07d6dd\n")
        self.assertEqual(mqbroker("mask", "--key", "abc", "secret").out, "result: -79c903ab75df949e\n")

    def test_a_hash_verifies(self) -> None:
        from mqbroker.config.masking import verify_password, wrap

        result = mqbroker("mask", "--hash", "--json", "secret")
        text = json.loads(result.out)["result"]
        self.assertTrue(verify_password("secret", wrap(text)))
        self.assertNotEqual(text, json.loads(mqbroker("mask", "--hash", "--json", "secret").out)["result"])

    def test_a_hash_has_no_key(self) -> None:
        self.assertEqual(mqbroker("mask", "--hash", "--key", "k", "secret").status, 2)

    def test_the_codec_of_an_instance(self) -> None:
        etc = Path(self.mktemp()) / "etc"
        etc.mkdir(parents=True)
        self.assertEqual(mqbroker("mask", "--password-codec", "--instance", str(etc.parent), "secret").status, 2)
        codec = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec;key=abc"
        (etc / "broker.xml").write_text(f'<core xmlns="urn:activemq:core"><password-codec>{codec}</password-codec></core>')
        result = mqbroker("mask", "--password-codec", "--instance", str(etc.parent), "secret")
        self.assertEqual(result.out, "result: -79c903ab75df949e\n", result.err)
