"""The number of a node that its lock manager has, for ``mqbroker activation``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.status import BadUsage, CommandError

if TYPE_CHECKING:
    from mqbroker.cli.data.journal_folder import DataFolders
    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.locks.contract import LockManager
    from mqbroker.ha.proof.copy_record import CopyRecord

NO_MANAGER = "there is no lock manager: --remote needs --instance or --broker, and a broker.xml with a manager in its ha-policy"


def lock_policy(options: dict[str, Any]) -> ReplicationConfiguration | None:
    """The policy of the broker that the options name, if it has a lock manager; None also for folders without a broker.xml."""
    from mqbroker.cli.data.journal_folder import chosen_instance, read_configuration

    instance, broker = chosen_instance(options), options["broker"]
    if instance is None and broker is None:
        return None
    policy = read_configuration(broker, instance).replication
    return None if policy is None or policy.manager is None else policy


def node_name(policy: ReplicationConfiguration, folders: DataFolders, node_id: str | None) -> str:
    """The name by which the lock manager knows the node; ``node_id`` is one that the operator has named."""
    from mqbroker.ha.locks.coordination import coordinated_name
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.disk.nodelock import NodeLock

    if policy.coordination_id is not None:
        if node_id is not None:
            raise BadUsage(f"--node-id: the node id of this broker follows from its coordination-id {policy.coordination_id}")
        return coordinated_name(policy.coordination_id)
    found = node_id or NodeLock(LocalFileSystem(), folders.node_directory).node_id()
    if found is None:
        raise CommandError(f"{folders.node_directory} has no node id yet: name one by --node-id")
    return found


@contextmanager
def connected(policy: ReplicationConfiguration) -> Iterator[LockManager]:
    """A connection to the lock manager.  Its errors become :class:`CommandError`."""
    from mqbroker.ha.locks.contract import UnavailableError
    from mqbroker.lock_managers import make_lock_manager

    assert policy.manager is not None
    try:
        manager = make_lock_manager(policy.manager)
        for warning in manager.start(lambda reason: None):
            click.echo(f"lock manager: {warning}", err=True)
    except (ValueError, UnavailableError) as error:
        raise CommandError(f"the lock manager cannot be asked: {error}") from error
    try:
        yield manager
    except UnavailableError as error:
        raise CommandError(f"the lock manager does not answer: {error}") from error
    finally:
        manager.stop()


@contextmanager
def held_number(policy: ReplicationConfiguration, name: str) -> Iterator[LockManager]:
    """The lock manager, with the lock of the node: nobody is active meanwhile."""
    with connected(policy) as manager:
        if not manager.try_lock(name):
            raise CommandError(f"the lock of NodeID={name} is held: a broker is active, or its session is not over yet")
        yield manager


def set_number(manager: LockManager, name: str, value: int) -> None:
    """Change the number to ``value``, whatever it is."""
    former = manager.number(name)
    if former != value and not manager.change_number(name, former, value):
        raise CommandError(f"the lock of NodeID={name} was lost before its number was set")
    click.echo(f"Forced coordinated activation sequence for NodeID={name} from {former} to {value}")


def verdict(number: int, record: CopyRecord) -> str:
    """The lock manager's answer to a copy that starts, in words."""
    from mqbroker.ha.locks.claims import Standing, standing

    if not record.complete:
        return f"no: these data are {record.state.value}"
    found = standing(number, record.sequence)
    if found is Standing.NEWEST:
        return "yes: these data are the newest"
    if found is Standing.CLAIMED:
        return "yes: the next sequence was claimed, and nobody has acknowledged anything at it"
    if abs(number) < record.sequence:
        return "no: the lock manager has lost its number, or never had that of these data"
    return "no: another copy has newer data"
