"""The places of a network check: what can be asked, with which command, and what a start refuses."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.network_check.places import PLACES_MAX, NetworkPlaces, network_places, network_remarks, ping_words
from mqclient.urls import parse_transport_uri

OWN = ("127.0.0.1", "10.0.0.9", "localhost")


def places(**settings: Any) -> NetworkPlaces:
    return network_places(Configuration(**settings), OWN.__contains__)


def remarks(**settings: Any) -> list[str]:
    configuration = Configuration(**settings)
    return list(network_remarks(configuration, network_places(configuration, OWN.__contains__)))


class CommandTests(SynchronousTestCase):
    def test_values_in_their_order_or_by_number(self) -> None:
        self.assertEqual(ping_words("ping -c 1 -w %d %s", 2, "h"), ["ping", "-c", "1", "-w", "2", "h"])
        self.assertEqual(ping_words("ping6 -c 1 %2$s", 2, "::1"), ["ping6", "-c", "1", "::1"])
        self.assertEqual(ping_words("p %2$s/%1$d %1$s 100%%", 2, "h"), ["p", "h/2", "2", "100%"])

    def test_an_address_stays_one_word_whatever_it_is(self) -> None:
        self.assertEqual(ping_words("ping %d %s", 1, "a; rm -r b"), ["ping", "1", "a; rm -r b"])

    def test_what_cannot_be_used_is_refused(self) -> None:
        for command in ("", "  ", "ping %x", "ping %s %d", "ping %d %s %s", "ping %3$s", "ping %2$d", "ping %", "ping %0$s", "ping %1$%"):
            with self.subTest(command=command):
                self.assertRaises(ValueError, ping_words, command, 1, "h")


class PlacesTests(SynchronousTestCase):
    def refused(self, text: str, **settings: Any) -> None:
        error = self.assertRaises(ValueError, places, **settings)
        self.assertIn(text, str(error))

    def test_hosts_with_the_command_of_their_kind(self) -> None:
        found = places(network_check_list=" 10.0.0.1, ::2,,router.lan ,10.0.0.1", network_check_timeout=2500)
        self.assertEqual(
            found.pings,
            {
                "10.0.0.1": ["ping", "-c", "1", "-w", "2", "10.0.0.1"],
                "::2": ["ping6", "-c", "1", "::2"],
                "router.lan": ["ping", "-c", "1", "-w", "2", "router.lan"],
            },
        )
        self.assertEqual((found.pages, found.own), ({}, []))

    def test_a_ping_gets_a_whole_second_at_least(self) -> None:
        self.assertIn("1", places(network_check_list="h", network_check_timeout=200).pings["h"][4])

    def test_hosts_that_no_command_may_get(self) -> None:
        for host in ("-f", "a b", "a;b", "$(a)", "a/b", "`a`", "::1::", "fe80::1%a b", "a..b", "x" * 64, "é"):
            with self.subTest(host=host):
                self.refused("network-check-list", network_check_list=f"10.0.0.1,{host}")

    def test_the_network_card_is_for_the_commands_that_stand_in_the_product(self) -> None:
        found = places(network_check_list="10.0.0.1,::2", network_check_nic="eth0")
        self.assertEqual(found.pings["10.0.0.1"][:3], ["ping", "-I", "eth0"])
        self.assertEqual(found.pings["::2"][:3], ["ping6", "-I", "eth0"])
        own = places(network_check_list="10.0.0.1", network_check_nic="eth0", network_check_ping_command="fping %2$s")
        self.assertEqual(own.pings["10.0.0.1"], ["fping", "10.0.0.1"])
        self.refused("network-check-NIC", network_check_list="10.0.0.1", network_check_nic="-f")

    def test_a_bad_command_is_told_with_its_element(self) -> None:
        self.refused("network-check-ping-command", network_check_list="10.0.0.1", network_check_ping_command="ping %q")
        self.refused("network-check-ping6-command", network_check_list="::2", network_check_ping6_command="ping %q")

    def test_the_broker_itself_is_not_asked(self) -> None:
        acceptor = parse_transport_uri("tcp://broker1:61616", "a")
        found = places(network_check_list="127.0.0.1,10.0.0.1,broker1", acceptors=[acceptor])
        self.assertEqual((list(found.pings), found.own), (["10.0.0.1"], ["127.0.0.1", "broker1"]))

    def test_a_list_of_the_broker_itself_is_refused(self) -> None:
        for listed in ("127.0.0.1", "10.0.0.9,localhost"):
            self.refused("is this broker itself", network_check_list=listed)
        found = places(network_check_list="127.0.0.1", network_check_url_list="http://10.0.0.1")
        self.assertEqual((dict(found.pings), list(found.pages)), ({}, ["http://10.0.0.1"]))

    def test_pages(self) -> None:
        found = places(network_check_url_list="http://h/a?b=c, https://[::2]:8443").pages
        first, second = found.values()
        self.assertEqual((first.secure, first.host, first.port), (False, "h", 80))
        self.assertTrue(first.request.startswith(b"GET /a?b=c HTTP/1.1\r\nHost: h\r\n"))
        self.assertEqual((second.secure, second.host, second.port), (True, "::2", 8443))
        self.assertTrue(second.request.startswith(b"GET / HTTP/1.1\r\nHost: [::2]:8443\r\n"))

    def test_what_is_no_page(self) -> None:
        for url in ("h", "ftp://h", "http://", "http://h:x", "http://u:p@h/", "http://h/a b", "http://h/é", "http://-h/", "http://[::1/"):
            with self.subTest(url=url):
                self.refused("network-check-URL-list", network_check_url_list=url)

    def test_there_is_a_limit(self) -> None:
        many = ",".join(f"h{number}" for number in range(PLACES_MAX))
        self.assertEqual(len(places(network_check_list=many).pings), PLACES_MAX)
        self.refused("more than", network_check_list=many, network_check_url_list="http://h")


class RemarksTests(SynchronousTestCase):
    def test_the_command_that_artemis_create_writes(self) -> None:
        (text,) = remarks(network_check_list="10.0.0.1", network_check_ping_command="ping -c 1 -t %d %s")
        self.assertIn("number of hops", text)
        self.assertIn("network-check-ping-command", text)
        self.assertEqual(remarks(network_check_list="10.0.0.1"), [])

    def test_addresses_of_the_broker_itself(self) -> None:
        (text,) = remarks(network_check_list="10.0.0.1,127.0.0.1")
        self.assertTrue(text.startswith("AMQ202001"))
        self.assertIn("127.0.0.1", text)

    def test_a_network_card_without_effect(self) -> None:
        (text,) = remarks(network_check_list="10.0.0.1", network_check_nic="eth0", network_check_ping_command="fping %2$s")
        self.assertIn("a ping command of your own", text)
        (text,) = remarks(network_check_url_list="http://h", network_check_nic="eth0")
        self.assertIn("network-check-URL-list", text)
