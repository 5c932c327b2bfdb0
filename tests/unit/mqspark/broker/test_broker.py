"""What is remembered of management's answers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqspark.broker.broker import cache_size_of


class IdCacheTests(SynchronousTestCase):
    def test_sizes(self) -> None:
        for settings, size in (
            ('{"idCacheSize": 500}', 500),
            ('{"id-cache-size": 7}', 7),
            ({"idCacheSize": 3}, 3),
            ("{}", None),
            ('{"idCacheSize": null}', None),
            ('{"idCacheSize": true}', None),
            ('{"idCacheSize": 0}', None),
            ("no json", None),
            ("[1]", None),
            (None, None),
        ):
            self.assertEqual(cache_size_of(settings), size, settings)
