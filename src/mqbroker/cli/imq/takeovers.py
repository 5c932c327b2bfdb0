"""``brokerd -reset takeover-then-exit``: a broker that has died in the middle of a takeover lets go of what it held [B10.8]."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqbroker.cli.imq.dbmgr import connected
from mqbroker.cli.imq.instances import stopped
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.config.imq.instance import ImqStart
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.imq.enhanced.own_row import Vacancy
    from mqbroker.storage.shared.brokers import BrokerRow, BrokerTable, Myself
    from mqbroker.storage.sql.database import Connection

ACTION = "-reset takeover-then-exit"
LOOK_SECONDS = 1.0


def end_takeovers(folder: Path, start: ImqStart) -> None:
    """Be the member for a moment, as a start and a stop would: takeovers that it had begun are anybody's then, and nobody takes it over.

    Raises CommandError while a broker of this id may run, or is being taken over itself.
    """
    from mqbroker import __version__
    from mqbroker.imq.enhanced.own_row import Vacancy
    from mqbroker.storage.shared.brokers import BrokerTable, Myself
    from mqbroker.storage.shared.tables import exist

    configuration = _configuration(folder, start)
    home, store = configuration.home_cluster, configuration.database_store
    if home is None or home.enhanced is None or store is None:
        raise CommandError(f"{ACTION}: the instance is in no enhanced cluster (imq.cluster.ha=true)")
    with stopped(folder, start.definitions, ACTION) as lock, connected(store, folder) as (database, connection):
        if not exist(connection):
            raise CommandError(f"{ACTION}: there are no tables in {database.name}")
        node_id = None if lock is None else lock.node_id()
        me = Myself(home.broker_id or "", home.cluster_id or "", home.address, __version__, os.urandom(16).hex(), node_id or "")
        taken = _join(BrokerTable(database), connection, me, Vacancy(me, home.enhanced, time.monotonic))
    for broker in taken:
        click.echo(
            f"The takeover of {broker} is given up: any other broker of the cluster takes it over, or {me.broker} after its next start."
        )
    if not taken:
        click.echo(f"{me.broker} was taking over nobody.")


def _configuration(folder: Path, start: ImqStart) -> Configuration:
    from mqbroker.config.problems import ConfigurationError
    from mqbroker.settings import settings_from_instance

    try:
        return settings_from_instance(folder, (), os.environ, start.definitions, imq=start).configuration
    except ConfigurationError as error:
        raise CommandError(str(error)) from error


def _join(table: BrokerTable, connection: Connection, me: Myself, vacancy: Vacancy) -> list[str]:
    """Become the member, and end as one that has stopped in order.  Returns the brokers whose takeover is given up by that."""
    from mqbroker.storage.shared.brokers import BEING_TAKEN, State

    while True:
        seen = table.row(connection, me.broker)
        if seen is None:
            raise CommandError(f"{ACTION}: {me.broker} is no member of the cluster {me.cluster}: it has never started there")
        rows = table.rows(connection, me.cluster)
        if vacancy.is_free(seen) and table.join(connection, me, seen):
            table.stamp(connection, me, State.SHUTDOWN_COMPLETE, seen.node_id)
            return [row.broker for row in rows if row.taker == me.broker and row.state in BEING_TAKEN]
        _wait(seen, vacancy)


def _wait(seen: BrokerRow, vacancy: Vacancy) -> None:
    """Look again a little later.  Raises CommandError where that does not help."""
    from mqbroker.storage.shared.brokers import BEING_TAKEN

    reason = vacancy.refusal(seen)
    if reason is None and seen.state in BEING_TAKEN:
        reason = f"{seen.taker} is taking {seen.broker} over, and gets what that was about to take over"
    if reason is not None:
        raise CommandError(f"{ACTION}: {reason}")
    if vacancy.watch(seen):
        click.echo(f"Waiting {vacancy.patience:g} s for a sign of life of {seen.broker} at {seen.url}", err=True)
    time.sleep(LOOK_SECONDS)
