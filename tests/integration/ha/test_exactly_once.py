"""Programs with ``exactlyOnce``, in every shell, at a replicated pair that fails over and back."""

from __future__ import annotations

from tests.integration.ha.pair import PRIMARY
from tests.integration.ha.replicated_pair import EventfulPairCase
from tests.interop.ha.clients import FOLLOW, NOTICE
from tests.interop.ha.once import follow_exactly_once, in_all_shells


class ExactlyOnceTests(EventfulPairCase):
    def test_nothing_takes_effect_twice_or_never(self) -> None:
        follow_exactly_once(f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}&{NOTICE}", in_all_shells(), self.events)
