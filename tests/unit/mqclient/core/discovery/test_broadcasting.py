"""Opening the endpoints on which brokers announce themselves."""

from __future__ import annotations

from tests.unit.mqclient.core.discovery.test_members import TCPPING, UDP, ChannelCase


class OpeningTests(ChannelCase):
    def test_one_channel_in_a_process_is_opened_once(self) -> None:
        for stack in (UDP, TCPPING):
            self.setUp()
            (host,) = self.hosts(stack, 1)
            first, second = host.join(), host.join(file="is not even read")
            sender = host.sender()
            sender.send(b"hello")
            self.assertEqual(host.heard, [b"hello", b"hello"], "others in the process hear it, too")
            first.send(b"from the first")
            self.assertEqual(host.heard[2:], [b"from the first"], "but not who has sent it")
            self.assertLessEqual(len(self.world.ports) + len(self.world.groups), 1)
            first.close()
            first.close()
            first.send(b"late")
            sender.send(b"again")
            self.assertEqual(host.heard[3:], [b"again"])
            second.close()
            sender.close()
            self.assertEqual((self.world.ports, self.world.groups), ({}, []))
            host.join()

    def test_java_members_are_not_reached_and_that_is_told(self) -> None:
        (host,) = self.hosts(UDP, 1)
        host.join()
        host.join()
        self.assertEqual(len(host.warnings), 1)
        self.assertIn("are not reached", host.warnings[0])

    def test_protection_that_is_not_applied_is_told(self) -> None:
        (host,) = self.hosts(b"<config><UDP/><SYM_ENCRYPT/></config>", 1)
        host.join()
        self.assertIn("SYM_ENCRYPT of its stack file is not applied", host.warnings[1])

    def test_a_stack_file_that_is_not_there(self) -> None:
        (host,) = self.hosts(UDP, 1)
        self.assertIn("etc/else.xml", str(self.assertRaises(ValueError, host.join, "c", "etc/else.xml")))
        host.join("c")
