"""The messaging core of a broker, by its configuration, on a store that was opened and loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.logger import Logger

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.administration.registrar import Registrar
from mqbroker.messaging.core import MessagingCore, MessagingOptions
from mqbroker.messaging.delivery.branches import xid_text
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Clock, Recovered, Store
from mqbroker.messaging.routing.grouping import Grouping
from mqbroker.node.parts import StartError
from mqbroker.server.security.kept_settings import restore_address_settings

BRANCHES_NAMED = 20
"""Branches in doubt that the log names at the start."""

log = Logger(namespace="mqbroker")


def messaging_of(
    configuration: Configuration,
    store: Store,
    recovered: Recovered,
    clock: Clock,
    random: Callable[[], float],
    *,
    memory_default: Callable[[], int] = lambda: -1,
    disk_space: Callable[[], Iterable[DiskSpace]] | None = None,
    registrar: Registrar | None = None,
    make_grouping: Callable[[MessagingCore], Grouping] | None = None,
) -> Messaging:
    """Messaging with the contents of the store and the addresses of the configuration; its periodic work has not begun.

    ``random``, ``memory_default``, ``disk_space`` and ``registrar`` are those of :class:`mqbroker.node.parts.Parts`; the disks below the
    folders of the broker are guarded when it has persistence, and ``disk_space`` is given.  ``make_grouping`` is called when the
    configuration has a grouping handler, and a cluster for it.  Raises StartError; every timer has ended then.
    """
    repository = configuration.address_settings_repository()
    restore_address_settings(recovered.settings, repository, _warn)
    messaging = Messaging(
        store,
        clock,
        repository,
        configuration.wildcards,
        _options(configuration, memory_default),
        random,
        lambda name: log.info("AMQ224113: {name} was not in use and has been removed", name=name),
        _inform,
        disk_space if configuration.persistence_enabled else None,
        registrar,
        make_grouping if configuration.cluster_connections and configuration.grouping_handler is not None else None,
    )
    try:
        store.write_at_end_of(messaging.core.turn)
        _restore(messaging, recovered)
        _deploy(messaging, configuration)
    except BaseException:
        messaging.stop()
        raise
    return messaging


def _options(configuration: Configuration, memory_default: Callable[[], int]) -> MessagingOptions:
    values = {name: getattr(configuration, name) for name in MessagingOptions.__slots__}
    if configuration.global_max_size < 0:
        values["global_max_size"] = memory_default()
    return MessagingOptions(**values)


def _restore(messaging: Messaging, recovered: Recovered) -> None:
    count = messaging.restore(recovered)
    if count:
        log.info("{count} messages were read from the journal", count=count)
    in_doubt = messaging.branches.prepared()
    if in_doubt:
        names = ", ".join(xid_text(branch.xid) for branch in in_doubt[:BRANCHES_NAMED])
        log.warn("{count} XA branches are in doubt and wait for their transaction manager: {names}", count=len(in_doubt), names=names)
    messaging.core.apply_settings()


def _deploy(messaging: Messaging, configuration: Configuration) -> None:
    messaging.deploy(configuration.addresses, _inform, _warn)
    try:
        messaging.deploy_diverts(configuration.diverts, _inform)
    except ValueError as error:
        raise StartError(str(error)) from error


def _warn(text: str) -> None:
    log.warn("{text}", text=text)


def _inform(text: str) -> None:
    log.info("{text}", text=text)
