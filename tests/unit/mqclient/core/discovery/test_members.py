"""JGroups channels: who hears whom, by each way of finding members."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.discovery.members import CONNECTIONS_MAX, LEARNED_PLACES_MAX, MemberChannel
from mqclient.errors import NotConnectedError
from mqclient.protocol.jgroups import ANNOUNCEMENT, MEMBER, MEMBERS, MessageSplitter, encode_message, encode_places
from tests.unit.mqclient.core.discovery.member_world import Host, MemberWorld

UDP = b'<config><UDP mcast_addr="228.1.2.3" mcast_port="4000"/><PING/></config>'
TCPPING = b'<config><TCP bind_port="7800" port_range="2"/><TCPPING initial_hosts="10.0.0.1[7800],10.0.0.2[7800]" port_range="0"/></config>'
SEED = b'<config><TCP bind_port="7800"/><TCPPING initial_hosts="10.0.0.1[7800]" port_range="0"/></config>'
MPING = b'<config><TCP bind_port="7800"/><MPING mcast_addr="230.5.6.7" mcast_port="7555"/></config>'
FILE_PING = b'<config><TCP bind_port="7800"/><FILE_PING location="../members"/></config>'


class ChannelCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = MemberWorld()

    def hosts(self, stack: bytes, count: int = 3) -> list[Host]:
        self.world.files["etc/stack.xml"] = stack
        return [self.world.host(f"10.0.0.{number}") for number in range(1, count + 1)]


class SharedTests(ChannelCase):
    """What all transports have in common."""

    def test_everybody_hears_everybody_but_himself(self) -> None:
        for stack in (UDP, TCPPING, SEED, MPING, FILE_PING):
            self.setUp()
            hosts = self.hosts(stack)
            links = [host.join() for host in hosts]
            for link in links:
                link.send(b"too early")  # where somebody has to be found first, this may get lost
            self.world.run(5)
            for host in hosts:
                host.heard.clear()
            for number, link in enumerate(links):
                link.send(b"from %d" % number)
            self.world.run(0.1)
            self.assertEqual(
                [sorted(host.heard) for host in hosts], [[b"from 1", b"from 2"], [b"from 0", b"from 2"], [b"from 0", b"from 1"]]
            )
            for link in links:
                link.close()
            self.world.run(0.1)
            self.assertEqual((self.world.connections, self.world.ports, self.world.groups), (0, {}, []), stack)
            self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_other_channels_are_not_heard(self) -> None:
        for stack in (UDP, TCPPING, MPING, FILE_PING):
            self.setUp()
            one, other, third = self.hosts(stack)
            one.join("other")
            link = other.join("channel")
            third.join("channel")
            link.send(b"first")
            self.world.run(5)
            link.send(b"hello")
            self.world.run(0.1)
            self.assertEqual((one.heard, third.heard[-1:]), ([], [b"hello"]), stack)

    def test_a_name_that_is_too_long(self) -> None:
        (host,) = self.hosts(UDP, 1)
        self.assertIn("at most 1024", str(self.assertRaises(ValueError, host.join, "c" * 1025)))

    def test_what_cannot_be_read_reaches_listeners_as_nothing(self) -> None:
        one, other = self.hosts(UDP, 2)
        one.join()
        other.join()
        self.world.groups[1].send(b"something of JGroups itself")
        self.world.run(0.1)
        self.assertEqual(one.heard, [b""])


class TcpTests(ChannelCase):
    def test_who_only_listens_needs_no_port(self) -> None:
        broker, client = self.hosts(SEED, 2)
        sender = broker.sender()
        client.join()
        self.world.run(1)
        self.assertEqual(list(self.world.ports), [("10.0.0.1", 7800)])
        sender.send(b"hello")
        self.world.run(0.1)
        self.assertEqual(client.heard, [b"hello"])

    def test_two_members_keep_one_connection(self) -> None:
        for _ in range(10):  # their ids decide which one
            self.setUp()
            for host in self.hosts(TCPPING, 2):
                host.sender()
            self.world.run(20)
            self.assertEqual(self.world.connections, 1)

    def test_members_that_are_connected_are_not_dialled(self) -> None:
        for host in self.hosts(MPING):
            host.sender()
        self.world.run(5)
        self.world.dialled.clear()
        self.world.run(10)
        self.assertEqual(self.world.dialled, [])
        self.assertEqual(self.world.connections, 3)

    def test_a_new_member_hears_what_was_announced_last(self) -> None:
        """It does not have to wait for the next announcement of everybody."""
        for stack in (TCPPING, SEED, MPING, FILE_PING):
            self.setUp()
            one, other, third = self.hosts(stack)
            link, gone = one.join(), one.sender()
            link.send(b"old")
            link.send(b"new")
            gone.send(b"of somebody who is gone")
            gone.close()
            gone.send(b"after that")
            other.join().send(b"mine")
            self.world.run(2.5)
            self.assertEqual((one.heard[-1], other.heard), (b"mine", [b"new"]), stack)
            third.join()
            self.world.run(2.5)
            self.assertEqual(sorted(third.heard), [b"mine", b"new"], stack)

    def test_a_member_that_comes_late_or_back_is_found(self) -> None:
        one, other = self.hosts(SEED, 2)
        other.join()
        self.world.run(30)
        sender = one.sender()
        self.world.run(2.1)
        sender.send(b"1")
        sender.close()
        self.world.run(5)
        sender = one.sender()
        self.world.run(2.1)
        sender.send(b"2")
        self.world.run(0.1)
        self.assertEqual(other.heard, [b"1", b"2"])

    def test_a_member_that_falls_silent_is_given_up(self) -> None:
        one, other = self.hosts(SEED, 2)
        one.sender()
        other.join()
        self.world.run(3)
        self.assertEqual(self.world.connections, 1)
        self.world.silent.add("10.0.0.1")
        del self.world.ports["10.0.0.1", 7800]
        self.world.run(15)
        self.assertEqual(self.world.connections, 0)

    def test_the_next_port_of_the_range(self) -> None:
        (host,) = self.hosts(TCPPING, 1)
        self.world.taken = {7800, 7801}
        host.sender()
        self.assertEqual(list(self.world.ports), [("10.0.0.1", 7802)])

    def test_no_port_of_the_range(self) -> None:
        (host,) = self.hosts(TCPPING, 1)
        self.world.taken = {7800, 7801, 7802}
        self.assertIn("from 7800 to 7802", str(self.assertRaises(NotConnectedError, host.sender)))
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
        self.world.taken = set()
        host.sender()

    def test_a_port_that_comes_free_later(self) -> None:
        one, other = self.hosts(SEED, 2)
        link = one.join()
        other.join()
        self.world.taken = set(range(7800, 7820))
        for _ in range(3):
            link.send(b"lost")
            self.world.run(3)
        self.assertEqual(len(one.warnings), 2)
        self.assertIn("no free port", one.warnings[1])
        self.world.taken = set()
        link.send(b"hello")
        self.world.run(3)
        self.assertEqual(other.heard, [b"hello"])

    def test_members_tell_each_other_of_third_ones(self) -> None:
        seed, one, other = self.hosts(SEED)
        links = [seed.sender(), one.join(), other.join()]
        links[1].send(b"")
        links[2].send(b"")
        self.world.run(5)
        links[0].close()
        links[1].send(b"without the seed")
        self.world.run(0.1)
        self.assertEqual(other.heard[-1:], [b"without the seed"])

    def test_garbage_ends_the_connection(self) -> None:
        (host,) = self.hosts(SEED, 1)
        host.join().send(b"")
        for garbage in (
            b"\xff" * 100,
            MessageSplitter.framed(b"GET / HTTP/1.1"),
            MessageSplitter.framed(encode_message(1, bytes(16), "channel", b"")),
        ):
            attacker = self.world.host("10.0.0.9")
            link = Dialled(attacker)
            self.world.run(0.1)
            link.end.write(garbage)
            self.world.run(0.1)
            self.assertFalse(link.end.open, garbage)
        self.assertEqual(host.heard, [b"", b""], "the last was well formed, but its sender had not introduced itself")

    @settings(max_examples=60)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from([ANNOUNCEMENT, MEMBER, MEMBERS, 9]),
                st.integers(0, 3),
                st.lists(st.tuples(st.sampled_from(["", "10.0.0.1", "10.0.0.9", "x" * 50]), st.integers(0, 65535)), max_size=64),
                st.binary(max_size=3),
            ),
            max_size=10,
        )
    )
    def test_whatever_a_peer_says_is_survived(self, said: list[tuple[int, int, list[tuple[str, int]], bytes]]) -> None:
        self.setUp()
        (host,) = self.hosts(SEED, 1)
        sender = host.join()
        sender.send(b"")
        self.world.run(0.1)
        link = Dialled(self.world.host("10.0.0.9"))
        self.world.run(0.1)
        for kind, sender_number, places, rest in said:
            message = encode_message(kind, bytes([sender_number]) * 16, "channel", encode_places(tuple(places)) + rest)
            link.end.write(MessageSplitter.framed(message))
            self.world.run(0.05)
        self.world.run(3)
        channel = host._broadcasts._channels["channel"]
        assert isinstance(channel, MemberChannel)
        self.assertLessEqual(len(channel._learned), LEARNED_PLACES_MAX)
        self.assertLessEqual(len(channel._who), LEARNED_PLACES_MAX + 1)
        sender.close()
        self.world.run(3)
        self.assertEqual((self.world.connections, self.world.clock.getDelayedCalls()), (0, []))

    def test_connections_are_bounded(self) -> None:
        (host,) = self.hosts(SEED, 1)
        host.sender()
        self.world.run(1)
        attacker = self.world.host("10.0.0.9")
        links = [Dialled(attacker) for _ in range(CONNECTIONS_MAX + 5)]
        self.world.run(0.1)
        self.assertEqual(sum(link.end.open for link in links), CONNECTIONS_MAX)
        self.world.run(15)
        self.assertEqual(sum(link.end.open for link in links), 0, "none of them has said a word")

    def test_nothing_gathers_for_a_member_that_does_not_read(self) -> None:
        one, other = self.hosts(SEED, 2)
        sender = one.sender()
        other.join()
        self.world.run(1)
        end = next(end for end in self.world.ends if end.host is one and end.open)
        end.handler.link_paused()
        before = end.sent
        sender.send(b"x")
        self.assertEqual(end.sent, before)
        end.handler.link_resumed()
        sender.send(b"y")
        self.world.run(0.1)
        self.assertEqual(other.heard, [b"y"])


class FolderTests(ChannelCase):
    FOLDER = "etc/../members/my%20channel"

    def test_a_member_shows_itself_and_leaves(self) -> None:
        (host,) = self.hosts(FILE_PING, 1)
        sender = host.sender("my channel")
        self.world.run(0.1)
        self.assertEqual(list(self.world.folders[self.FOLDER]), ["10.0.0.1_7800.mqbroker"])
        sender.close()
        self.assertEqual(self.world.folders[self.FOLDER], {})

    def test_who_only_listens_leaves_no_file(self) -> None:
        (host,) = self.hosts(FILE_PING, 1)
        host.join("my channel")
        self.world.run(5)
        self.assertEqual(self.world.folders, {})

    def test_a_folder_that_cannot_be_used_is_told_once(self) -> None:
        one, other = self.hosts(FILE_PING, 2)
        self.world.folder_problem = PermissionError("not yours")
        sender = one.sender()
        other.join()
        self.world.run(20)
        self.assertEqual([len(host.warnings) for host in (one, other)], [2, 2])
        self.assertIn("not yours", one.warnings[1])
        self.world.folder_problem = None
        self.world.run(5)
        sender.send(b"hello")
        self.world.run(0.1)
        self.assertEqual(other.heard, [b"hello"])

    def test_files_of_others_do_no_harm(self) -> None:
        one, other = self.hosts(FILE_PING, 2)
        self.world.folders["etc/../members/channel"] = {"jgroups.list": b"x", "broken.mqbroker": b"x", "gone.mqbroker": b""}
        sender = one.sender()
        other.join()
        self.world.run(5)
        sender.send(b"hello")
        self.world.run(0.1)
        self.assertEqual([data for data in other.heard if data], [b"hello"])

    def test_members_that_are_gone_for_good_are_not_dialled_for_ever(self) -> None:
        one, other = self.hosts(MPING, 2)
        sender = one.sender()
        other.sender()
        self.world.run(1)
        sender.close()
        self.world.run(30)
        self.world.dialled.clear()
        self.world.run(30)
        self.assertEqual(self.world.dialled, [])


class Dialled:
    """A connection by somebody who does not follow the rules."""

    def __init__(self, host: Host) -> None:
        from mqclient.wire.primitives import TransportConfiguration

        connector = TransportConfiguration("x", "", (("host", "10.0.0.1"), ("port", "7800")))
        host.connect(connector, self, 1).addCallback(self.connected)  # type: ignore[attr-defined]

    def connected(self, end: object) -> None:
        self.end = end

    def data_received(self, data: bytes) -> None: ...

    def link_lost(self, reason: str) -> None: ...

    def link_paused(self) -> None: ...

    def link_resumed(self) -> None: ...
