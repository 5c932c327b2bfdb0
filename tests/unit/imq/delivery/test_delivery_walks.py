"""Random walks: producers, consumers, transactions and broken links at three members; nothing is lost, and nothing settled comes again."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from tests.support.broker import Session, message_id
from tests.unit.imq.support import Cluster

SEEDS = range(20)
STEPS = 100


class _Client:
    """A consumer at one member; ``held`` are the messages that it has got and not settled, by body."""

    def __init__(self, number: int, session: Session, transacted: bool) -> None:
        self.number = number
        self.session = session
        self.transacted = transacted
        self.held: dict[bytes, int] = {}
        self.taken: list[bytes] = []
        """Acknowledged in the open transaction."""


class _Walk:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(3)
        self.sent = 0
        self.done: set[bytes] = set()
        """Confirmed as consumed."""
        self.unknown: set[bytes] = set()
        """Consumed, perhaps."""
        self.clients: list[_Client] = []
        self.cuts: set[tuple[int, int]] = set()

    def run(self) -> None:
        steps = [self.publish] * 3 + [self.open] * 3 + [self.settle] * 8 + [self.end] * 4
        steps += [self.close, self.cut, self.link, self.link, self.wait]
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.cluster.stir()
            for client in self.clients:
                self.receive_all(client)

    # --- steps

    def publish(self) -> None:
        session = self.cluster[self.random.randint(1, 3)].session()
        for _ in range(self.random.randint(1, 4)):
            self.sent += 1
            session.publish(b"%d" % self.sent)

    def open(self) -> None:
        if len(self.clients) < 6:
            number, transacted = self.random.randint(1, 3), self.random.random() < 0.5
            session = self.cluster[number].session(auto_commit_acks=not transacted, auto_commit_sends=not transacted)
            session.consume(credits=self.random.choice((-1, 100, 400)))
            self.clients.append(_Client(number, session, transacted))

    def client(self) -> _Client | None:
        return self.random.choice(self.clients) if self.clients else None

    def settle(self) -> None:
        """Acknowledge some of what has come."""
        client = self.client()
        if client is None:
            return
        client.session.send(wire.FlowToken(0, 600))
        for body in self.random.sample(sorted(client.held), min(len(client.held), self.random.randint(1, 3))):
            number = client.held.pop(body)
            if client.transacted:
                client.taken.append(body)
                client.session.send(wire.IndividualAcknowledge(0, number, False))
                continue
            self.unknown.add(body)
            client.session.send(wire.IndividualAcknowledge(0, number, True))
            self.cluster.stir()
            if self.confirmed(client):
                self.done.add(body)

    def end(self) -> None:
        """Commit or roll back."""
        client = self.client()
        if client is None or not client.transacted:
            return
        taken, client.taken = client.taken, []
        if self.random.random() < 0.2:
            client.session.send(wire.Rollback(False))
            client.held.clear()
            self.cluster.stir()
            self.answers(client)
            return
        if self.random.random() < 0.5:
            client.session.publish(b"answer", "answers")
        self.unknown.update(taken)
        client.session.send(wire.Commit())
        if self.random.random() < 0.4:
            self.cluster.stir(self.random.randint(1, 6))
            self.cut()
        self.cluster.stir()
        if self.confirmed(client):
            self.done.update(taken)

    def close(self) -> None:
        if self.clients and self.random.random() < 0.5:
            client = self.clients.pop(self.random.randrange(len(self.clients)))
            client.session.peer.lose()

    def cut(self) -> None:
        of, to = self.random.sample((1, 2, 3), 2)
        if (of, to) not in self.cuts:
            self.cuts.add((of, to))
            self.cluster.cut(of, to)

    def link(self) -> None:
        for of, to in sorted(self.cuts):
            self.cluster.link(of, to)
        self.cuts.clear()

    def wait(self) -> None:
        self.cluster.advance(1.5)

    # --- answers

    def answers(self, client: _Client) -> list[wire.Packet]:
        packets = client.session.take()
        client.session.peer.inbox += [(client.session.channel, packet) for packet in packets if not packet.RESPONSE]
        return [packet for packet in packets if packet.RESPONSE]

    def confirmed(self, client: _Client) -> bool:
        (answer,) = self.answers(client)
        return isinstance(answer, wire.NullResponse)

    def receive_all(self, client: _Client) -> None:
        for packet in client.session.received():
            body = decode_message(packet.message).body
            assert body not in self.done, f"{body!r} comes again"
            client.held[body] = message_id(packet)

    def left(self) -> list[bytes]:
        """What the members still have, once everybody has gone and the links are back."""
        for client in self.clients:
            client.session.peer.lose()
        self.cluster.stir()
        self.link()
        self.cluster.advance(200)
        found: list[bytes] = []
        for broker in self.cluster.brokers.values():
            assert not broker.world.messaging.branches.prepared(), "a branch is left in doubt"
            assert broker.delivery.coordination.undecided == 0, "a decision is left"
            assert broker.remotes == [], "a remote consumer is left"
            found += broker.waiting()
            assert broker.count() == len(broker.waiting()), "a message is in delivery to nobody"
        return found


class WalkTests(SynchronousTestCase):
    def test_nothing_is_lost_and_nothing_settled_comes_again(self) -> None:
        for seed in SEEDS:
            walk = _Walk(seed)
            walk.run()
            left = walk.left()
            self.assertEqual(len(left), len(set(left)), f"seed {seed}: doubled")
            self.assertEqual(walk.done & set(left), set(), f"seed {seed}: settled and still there")
            lost = {b"%d" % number for number in range(1, walk.sent + 1)} - set(left) - walk.unknown - walk.done
            self.assertEqual(lost, set(), f"seed {seed}: lost")
