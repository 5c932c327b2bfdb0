"""Transformers: how they are named, made and refused."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import TransformerConfiguration
from mqbroker.messaging.message.transformers import ADD_HEADERS, load_transformer
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import INT, STRING

NUMBER = 5


class Shout:
    """A transformer for these tests."""

    def init(self, properties: dict[str, str]) -> None:
        self.mark = properties.get("mark", "!")

    def transform(self, message: CoreMessage) -> CoreMessage:
        message.body = message.body.upper() + self.mark.encode()
        return message


def tag(message: CoreMessage, properties: dict[str, str]) -> None:
    """Changes the message and returns nothing."""
    message.properties["tag"] = (INT, 1)


class TransformerTests(SynchronousTestCase):
    def test_by_import_path(self) -> None:
        for name in (f"{__name__}:Shout", f"{__name__}.Shout"):
            transform = load_transformer(TransformerConfiguration(name), "bridge b")
            self.assertEqual(transform(CoreMessage(body=b"x")).body, b"X!")
        self.assertEqual(
            load_transformer(TransformerConfiguration(f"{__name__}.tag"), "bridge b")(CoreMessage()).properties, {"tag": (INT, 1)}
        )

    def test_the_one_of_real_brokers(self) -> None:
        transform = load_transformer(TransformerConfiguration(ADD_HEADERS, {"a": "b"}), "bridge b")
        self.assertEqual(transform(CoreMessage()).properties, {"a": (STRING, "b")})

    def test_what_cannot_be_loaded(self) -> None:
        for name, reason in (
            ("Nothing", "not an import path"),
            ("no.such.module:Thing", "cannot be imported"),
            ("org.acme.Transformer", "write it in Python"),
            (f"{__name__}:Missing", "has no Missing"),
            (f"{__name__}:NUMBER", "neither a class"),
            (f"{__name__}:TransformerTests", "cannot be made"),
        ):
            error = self.assertRaises(ValueError, load_transformer, TransformerConfiguration(name), "bridge b")
            self.assertIn(reason, str(error))
