"""Diverts of the configuration and of management, over restarts."""

from __future__ import annotations

import sys

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.routing.diverts import DivertError
from mqclient.errors import DivertDoesNotExistError, IllegalStateError
from tests.unit.messaging.cluster_support import Node, texts
from tests.unit.messaging.routing.test_diverts import HERE, DivertCase


class ManagedTests(DivertCase):
    def restarted(self, *configured: DivertConfiguration) -> Node:
        settings: dict[tuple[str, str], str] = {}
        for batch in self.node.store.log:
            for entry in batch:
                if entry[0] == "setting":
                    settings[entry[1], entry[2]] = entry[3]
                elif entry[0] == "delete setting":
                    settings.pop(entry[1:], None)
        node = Node(1)
        node.messaging.restore(Recovered(settings=settings))
        node.messaging.deploy_diverts(configured)
        return node

    def test_they_survive_a_restart(self) -> None:
        made = DivertConfiguration(
            "d", "q", ("t", "u"), filter_string="a = 1", transformer=TransformerConfiguration(f"{HERE}:shout", {"by": "x"})
        )
        self.node.messaging.diverts.create(made)
        found = self.restarted().messaging.diverts.find("d")
        self.assertEqual(found and found.configuration, made)

    def test_what_management_has_changed_is_kept(self) -> None:
        configured = DivertConfiguration("d", "q", ("t",))
        self.node.messaging.deploy_diverts([configured])
        self.node.messaging.diverts.update("d", forwarding_addresses=("u",), exclusive=True)
        divert = self.restarted(configured).messaging.diverts.find("d")
        assert divert is not None
        self.assertEqual((divert.forwarding_addresses, divert.exclusive), (("u",), False))

    def test_one_of_the_configuration_comes_back(self) -> None:
        configured = DivertConfiguration("d", "q", ("t",))
        self.node.messaging.deploy_diverts([configured])
        self.node.messaging.diverts.destroy("d")
        self.node.send(b"1")
        self.assertEqual(texts(self.target), [])
        self.assertEqual(self.restarted(configured).messaging.diverts.names(), ["d"])

    def test_one_of_management_does_not(self) -> None:
        self.node.messaging.diverts.create(DivertConfiguration("d", "q", ("t",)))
        self.node.messaging.diverts.destroy("d")
        self.assertEqual(self.restarted().messaging.diverts.names(), [])
        self.assertEqual(self.node.told[-2:], ["divert_added", "divert_removed"])

    def test_one_that_cannot_be_any_more_is_told(self) -> None:
        made = DivertConfiguration("d", "q", ("t",), transformer=TransformerConfiguration(f"{HERE}:shout"))
        self.node.messaging.diverts.create(made)
        module = vars(sys.modules[HERE])
        original = module.pop("shout")
        try:
            node = self.restarted()
        finally:
            module["shout"] = original
        self.assertEqual(node.messaging.diverts.names(), [])
        self.assertIn("has no shout", node.reports[-1][1])

    def test_names(self) -> None:
        diverts = self.node.messaging.diverts
        self.divert()
        self.assertRaises(IllegalStateError, diverts.create, DivertConfiguration("d", "q", ("t",)))
        self.assertRaises(DivertDoesNotExistError, diverts.destroy, "other")
        self.assertRaises(DivertDoesNotExistError, diverts.update, "other")
        with self.assertRaisesRegex(DivertError, "a forwarding address is missing"):
            diverts.create(DivertConfiguration("empty", "q", ()))

    def test_what_others_have_agreed_on_is_imposed(self) -> None:
        diverts = self.node.messaging.diverts
        made, changed = DivertConfiguration("d", "q", ("t",)), DivertConfiguration("d", "q", ("u",), exclusive=True)
        for configuration in (made, made, changed):
            diverts.impose(configuration)
            found = diverts.find("d")
            self.assertEqual(found and found.configuration, configuration)
        self.assertEqual((diverts.kept(), self.restarted().messaging.diverts.names()), (["d"], ["d"]))
        with self.assertRaises(DivertError):
            diverts.impose(DivertConfiguration("d", "q", ()))
        self.assertEqual(diverts.names(), ["d"])
        for _ in range(2):
            diverts.withdraw("d")
        self.assertEqual((diverts.names(), self.restarted().messaging.diverts.names()), ([], []))

    def test_one_of_the_configuration_that_is_agreed_on_is_kept(self) -> None:
        configured = DivertConfiguration("d", "q", ("t",))
        self.node.messaging.deploy_diverts([configured])
        self.assertEqual(self.node.messaging.diverts.kept(), [])
        self.node.messaging.diverts.impose(configured)
        self.assertEqual(self.node.messaging.diverts.kept(), ["d"])
