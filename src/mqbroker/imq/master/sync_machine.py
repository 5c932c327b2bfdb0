"""How a broker comes to the change record, and what it does without the master (Automat; OpenMQ's machines of the start [B8.2])."""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class SyncMachine(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def go_unprotected(self) -> None:
        """No master is configured: there is no record."""

    def keep_record(self) -> None:
        """This broker is the master."""

    def follow(self) -> None:
        """Another broker is the master: at the start, or after a change of the master."""

    def stop(self) -> None:
        """The broker stops."""

    def master_linked(self) -> None:
        """The link to the master is up."""

    def master_lost(self) -> None:
        """The link to the master is lost."""

    def record_taken(self) -> None:
        """This broker has all changes of the record."""

    def record_failed(self) -> None:
        """The master has not answered, or cannot now."""

    def join_refused(self, reason: str) -> None:
        """This broker may not join."""


class SyncCore(Protocol):
    """The effects of the machine."""

    def entered(self, state: str) -> None:
        """The machine is in another state, or again in this one."""

    def serve_all(self) -> None:
        """Clients are served, and the definitions of the configuration are asked for."""

    def serve_administrators(self) -> None:
        """Nobody else is served; with ``nowaitForMasterBroker`` all are."""

    def open_record(self) -> None:
        """The master has a record, which begins with a reset record."""

    def ask_master(self) -> None:
        """Ask the master for what this broker has missed."""

    def ask_later(self) -> None:
        """Ask the master again after a pause."""

    def forget_requests(self) -> None:
        """Answers of the former master come in vain; whoever waits for one is refused."""

    def leave(self, reason: str) -> None:
        """End this broker."""


class SyncData:
    """The data of all states."""

    def __init__(self, core: SyncCore) -> None:
        self.core = core


build = TypeMachineBuilder(SyncMachine, SyncData)

starting = build.state("starting")
running_unprotected = build.state("running_unprotected")
running_master = build.state("running_master")
waiting_master = build.state("waiting_master")
syncing = build.state("syncing")
running = build.state("running")
running_without_master = build.state("running_without_master")
exited = build.state("exited")
stopped = build.state("stopped")


@starting.upon(SyncMachine.go_unprotected).to(running_unprotected)
def without_record(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(running_unprotected.name)
    data.core.serve_all()


@starting.upon(SyncMachine.keep_record).to(running_master)
@running.upon(SyncMachine.keep_record).to(running_master)
@running_without_master.upon(SyncMachine.keep_record).to(running_master)
def be_master(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(running_master.name)
    data.core.forget_requests()
    data.core.open_record()
    data.core.serve_all()


@starting.upon(SyncMachine.follow).to(waiting_master)
def wait_for_master(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(waiting_master.name)
    data.core.serve_administrators()


@running_master.upon(SyncMachine.follow).to(running_without_master)
def step_down(machine: SyncMachine, data: SyncData) -> None:
    """The machine is told right after whether the new master is linked."""
    data.core.entered(running_without_master.name)


@running.upon(SyncMachine.follow).to(running_without_master)
@running.upon(SyncMachine.master_lost).to(running_without_master)
def go_on_alone(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(running_without_master.name)
    data.core.forget_requests()


@syncing.upon(SyncMachine.follow).to(waiting_master)
@syncing.upon(SyncMachine.master_lost).to(waiting_master)
def wait_again(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(waiting_master.name)
    data.core.forget_requests()


running_without_master.upon(SyncMachine.follow).loop().returns(None)
waiting_master.upon(SyncMachine.follow).loop().returns(None)


@waiting_master.upon(SyncMachine.master_linked).to(syncing)
def synchronise(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(syncing.name)
    data.core.ask_master()


@running_without_master.upon(SyncMachine.master_linked).to(running)
@running.upon(SyncMachine.master_linked).to(running)
def catch_up(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(running.name)
    data.core.ask_master()


@syncing.upon(SyncMachine.record_taken).to(running)
def begin(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(running.name)
    data.core.serve_all()


running.upon(SyncMachine.record_taken).loop().returns(None)


@syncing.upon(SyncMachine.record_failed).loop()
@running.upon(SyncMachine.record_failed).loop()
def try_again(machine: SyncMachine, data: SyncData) -> None:
    data.core.ask_later()


@syncing.upon(SyncMachine.join_refused).to(exited)
@running.upon(SyncMachine.join_refused).to(exited)
def give_up(machine: SyncMachine, data: SyncData, reason: str) -> None:
    data.core.entered(exited.name)
    data.core.forget_requests()
    data.core.leave(reason)


@syncing.upon(SyncMachine.stop).to(stopped)
@running.upon(SyncMachine.stop).to(stopped)
@starting.upon(SyncMachine.stop).to(stopped)
@waiting_master.upon(SyncMachine.stop).to(stopped)
@running_without_master.upon(SyncMachine.stop).to(stopped)
@running_master.upon(SyncMachine.stop).to(stopped)
@running_unprotected.upon(SyncMachine.stop).to(stopped)
def end(machine: SyncMachine, data: SyncData) -> None:
    data.core.entered(stopped.name)
    data.core.forget_requests()


starting.upon(SyncMachine.master_linked).loop().returns(None)
starting.upon(SyncMachine.master_lost).loop().returns(None)
starting.upon(SyncMachine.record_taken).loop().returns(None)
starting.upon(SyncMachine.record_failed).loop().returns(None)
starting.upon(SyncMachine.join_refused).loop().returns(None)

running_unprotected.upon(SyncMachine.go_unprotected).loop().returns(None)
running_unprotected.upon(SyncMachine.keep_record).loop().returns(None)
running_unprotected.upon(SyncMachine.follow).loop().returns(None)
running_unprotected.upon(SyncMachine.master_linked).loop().returns(None)
running_unprotected.upon(SyncMachine.master_lost).loop().returns(None)
running_unprotected.upon(SyncMachine.record_taken).loop().returns(None)
running_unprotected.upon(SyncMachine.record_failed).loop().returns(None)
running_unprotected.upon(SyncMachine.join_refused).loop().returns(None)

running_master.upon(SyncMachine.go_unprotected).loop().returns(None)
running_master.upon(SyncMachine.keep_record).loop().returns(None)
running_master.upon(SyncMachine.master_linked).loop().returns(None)
running_master.upon(SyncMachine.master_lost).loop().returns(None)
running_master.upon(SyncMachine.record_taken).loop().returns(None)
running_master.upon(SyncMachine.record_failed).loop().returns(None)
running_master.upon(SyncMachine.join_refused).loop().returns(None)

waiting_master.upon(SyncMachine.go_unprotected).loop().returns(None)
waiting_master.upon(SyncMachine.keep_record).loop().returns(None)
waiting_master.upon(SyncMachine.master_lost).loop().returns(None)
waiting_master.upon(SyncMachine.record_taken).loop().returns(None)
waiting_master.upon(SyncMachine.record_failed).loop().returns(None)
waiting_master.upon(SyncMachine.join_refused).loop().returns(None)

syncing.upon(SyncMachine.go_unprotected).loop().returns(None)
syncing.upon(SyncMachine.keep_record).loop().returns(None)
syncing.upon(SyncMachine.master_linked).loop().returns(None)

running.upon(SyncMachine.go_unprotected).loop().returns(None)

running_without_master.upon(SyncMachine.go_unprotected).loop().returns(None)
running_without_master.upon(SyncMachine.master_lost).loop().returns(None)
running_without_master.upon(SyncMachine.record_taken).loop().returns(None)
running_without_master.upon(SyncMachine.record_failed).loop().returns(None)
running_without_master.upon(SyncMachine.join_refused).loop().returns(None)

for ended in (exited, stopped):
    ended.upon(SyncMachine.go_unprotected).loop().returns(None)
    ended.upon(SyncMachine.keep_record).loop().returns(None)
    ended.upon(SyncMachine.follow).loop().returns(None)
    ended.upon(SyncMachine.stop).loop().returns(None)
    ended.upon(SyncMachine.master_linked).loop().returns(None)
    ended.upon(SyncMachine.master_lost).loop().returns(None)
    ended.upon(SyncMachine.record_taken).loop().returns(None)
    ended.upon(SyncMachine.record_failed).loop().returns(None)
    ended.upon(SyncMachine.join_refused).loop().returns(None)

make_sync_machine = build.build()
