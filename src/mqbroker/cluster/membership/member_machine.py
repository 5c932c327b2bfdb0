"""The life of the link to one member of a cluster, as one state machine (Artemis manual, chapter "Clusters").

The effects of the states are behind :class:`MemberCore`.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class MemberMachine(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def start(self) -> None:
        """The member was learned of."""

    def stop(self) -> None:
        """This broker leaves the cluster."""

    def connected(self) -> None:
        """The link is up, and the member was asked for its queues."""

    def connection_lost(self) -> None:
        """The link failed; it will be tried again."""

    def left(self, target_node_id: str | None) -> None:
        """The member said goodbye; ``target_node_id`` is the broker that it gave its messages to."""

    def retries_exhausted(self) -> None:
        """The link failed, and will not be tried again."""


class MemberCore(Protocol):
    """The effects of the machine."""

    def entered(self, state: str) -> None:
        """The name of the state that holds from now on, for the effects too: a machine answers no question within a transition."""

    def open_link(self) -> None: ...

    def close_link(self) -> None: ...

    def member_up(self) -> None:
        """The member is there: other brokers are told."""

    def member_down(self) -> None:
        """The member is gone, for a while at least: other brokers are told."""

    def disconnect_bindings(self) -> None:
        """The queues of the member are no first choice for messages now."""

    def remove_bindings(self) -> None: ...

    def move_messages(self, target_node_id: str) -> None:
        """Messages that wait for the member go to the broker that took over its queues."""

    def forget(self) -> None:
        """The record ends; the messages that wait for the member are kept."""


class MemberData:
    """The data of all states."""

    def __init__(self, core: MemberCore) -> None:
        self.core = core


build = TypeMachineBuilder(MemberMachine, MemberData)

disconnected = build.state("disconnected")
connecting = build.state("connecting")
connected = build.state("connected")
gone = build.state("gone")

gone.upon(MemberMachine.stop).loop().returns(None)
gone.upon(MemberMachine.connected).loop().returns(None)
gone.upon(MemberMachine.connection_lost).loop().returns(None)
gone.upon(MemberMachine.left).loop().returns(None)
gone.upon(MemberMachine.retries_exhausted).loop().returns(None)


@disconnected.upon(MemberMachine.start).to(connecting)
def begin(machine: MemberMachine, data: MemberData) -> None:
    data.core.entered(connecting.name)
    data.core.open_link()


@connecting.upon(MemberMachine.connected).to(connected)
def link_is_up(machine: MemberMachine, data: MemberData) -> None:
    data.core.entered(connected.name)
    data.core.member_up()


@connected.upon(MemberMachine.connection_lost).to(connecting)
def link_is_down(machine: MemberMachine, data: MemberData) -> None:
    data.core.entered(connecting.name)
    data.core.disconnect_bindings()
    data.core.member_down()


@connecting.upon(MemberMachine.connection_lost).to(connecting)
def not_yet(machine: MemberMachine, data: MemberData) -> None:
    data.core.disconnect_bindings()


@connected.upon(MemberMachine.left).to(gone)
@connecting.upon(MemberMachine.left).to(gone)
def member_left(machine: MemberMachine, data: MemberData, target_node_id: str | None) -> None:
    data.core.entered(gone.name)
    data.core.close_link()
    data.core.member_down()
    if target_node_id is not None:
        data.core.move_messages(target_node_id)
    data.core.remove_bindings()
    data.core.forget()


@connected.upon(MemberMachine.retries_exhausted).to(gone)
@connecting.upon(MemberMachine.retries_exhausted).to(gone)
def give_up(machine: MemberMachine, data: MemberData) -> None:
    data.core.entered(gone.name)
    data.core.close_link()
    data.core.member_down()
    data.core.remove_bindings()
    data.core.forget()


@disconnected.upon(MemberMachine.stop).to(gone)
def stop_unstarted(machine: MemberMachine, data: MemberData) -> None:
    data.core.entered(gone.name)
    data.core.forget()


@connecting.upon(MemberMachine.stop).to(gone)
@connected.upon(MemberMachine.stop).to(gone)
def stop_link(machine: MemberMachine, data: MemberData) -> None:
    data.core.entered(gone.name)
    # Bindings stay: messages sent while this broker stops wait for the member, and are forwarded after the next start.
    data.core.close_link()
    data.core.forget()


make_member_machine = build.build()
