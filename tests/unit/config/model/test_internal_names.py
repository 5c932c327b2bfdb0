from __future__ import annotations

from twisted.trial.unittest import TestCase

from mqbroker.config.model.internal_names import store_and_forward_end, store_and_forward_prefix


class StoreAndForwardNameTests(TestCase):
    def test_a_name_is_that_of_artemis(self) -> None:
        name = store_and_forward_prefix("$.artemis.internal.") + store_and_forward_end("my-cluster", "2c8d")
        self.assertEqual(name, "$.artemis.internal.sf.my-cluster.2c8d")
