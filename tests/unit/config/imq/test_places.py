"""Brokers as the lists of OpenMQ name them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.places import Place, parse_place, parse_places


class PlaceTests(SynchronousTestCase):
    def test_forms(self) -> None:
        for text, expected in (
            ("a", "a:7676"),
            ("a:7677", "a:7677"),
            (" mq://a:7677/ ", "a:7677"),
            ("[fe80::1]:7", "[fe80::1]:7"),
            ("10.0.0.1", "10.0.0.1:7676"),
            (":7677", "localhost:7677"),
        ):
            self.assertEqual(str(parse_place(text)), expected)

    def test_what_is_no_broker(self) -> None:
        for text in ("", ":", "mq://", "a:b", "a:0", "a:65536", "a b", "a:1/x"):
            self.assertRaises(ValueError, parse_place, text)

    def test_a_list_has_each_broker_once(self) -> None:
        self.assertEqual(parse_places("a,,A:7676, localhost ,127.0.0.1:7676"), (Place("a", 7676), Place("localhost", 7676)))

    def test_places_of_the_loopback(self) -> None:
        self.assertTrue(Place("127.0.0.2", 1).is_loopback)
        self.assertFalse(Place("127.0.0.2", 1).same(Place("localhost", 1)))
        self.assertTrue(Place("::1", 1).same(Place("LOCALHOST", 1)))
        self.assertFalse(Place("localhost", 1).same(Place("localhost", 2)))
