"""The configuration of a broker, whose parts are made once for everybody."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration


class RepositoryTests(SynchronousTestCase):
    def test_address_settings_are_those_of_the_configuration(self) -> None:
        settings = Configuration(address_settings={"a.#": {"max_delivery_attempts": 3}}).address_settings_repository()
        self.assertEqual([settings.lookup(name).max_delivery_attempts for name in ("a.b", "b")], [3, 10])

    def test_each_broker_changes_its_own(self) -> None:
        configuration = Configuration(address_settings={"a": {"max_delivery_attempts": 3}})
        changed, other = configuration.address_settings_repository(), configuration.address_settings_repository()
        changed.set("a", {"max_delivery_attempts": 5})
        self.assertEqual((changed.lookup("a").max_delivery_attempts, other.lookup("a").max_delivery_attempts), (5, 3))
