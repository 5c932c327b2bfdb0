"""The common state of the brokers of a home cluster, as one part of a broker: definitions, names, temporary destinations, the master."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.config.model.home_cluster import HomeCluster
from mqbroker.imq.definitions.application import Application
from mqbroker.imq.definitions.registrar import HomeRegistrar
from mqbroker.imq.definitions.reservations import Reservations
from mqbroker.imq.definitions.temporary import RECONNECT_SECONDS, TemporaryDestinations
from mqbroker.imq.links.operations import Answers, MemberOperations
from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.imq.master.backups import Backups
from mqbroker.imq.master.change_of_master import ChangeOfMaster
from mqbroker.imq.master.lives import Lives
from mqbroker.imq.master.own_record import OwnRecord
from mqbroker.imq.master.recording import Recording
from mqbroker.imq.master.standing import Mastership, Standing
from mqbroker.imq.record.changes import Definition
from mqbroker.server.security.kept_settings import KEPT_ADDRESS_SETTING_KIND
from mqclient.errors import DuplicateMetadataError

if TYPE_CHECKING:
    from mqbroker.server.server import Server

log = Logger(namespace="mqbroker.imq")


class SharedDefinitions:
    """Made when the links are; ``operations`` answers other members, and is to be registered under its name.

    ``registrar`` is the one that messaging was made with, ``kept`` the settings of the store; ``new_id`` gives unique texts.  ``leave``
    ends the broker when it may not join; ``answers`` are further operations of other members; ``make_table`` gives whoever keeps the record
    of a cluster of peers, which gets a function that gives the definitions of this broker.  Raises ValueError for a record in the store
    that cannot be used.
    """

    def __init__(
        self,
        server: Server,
        cluster: HomeCluster,
        peers: Peers,
        registrar: HomeRegistrar,
        kept: Mapping[tuple[str, str], str],
        new_id: Callable[[], str],
        leave: Callable[[str], object],
        answers: Answers,
        make_table: Callable[[Callable[[], list[Definition]]], Peer] | None = None,
    ) -> None:
        clock, turn, store, messaging = server.clock, server.turn, server.store, server.messaging
        addresses = server.configuration.addresses
        configured = {each.name for each in addresses} | {queue.name for each in addresses for queue in each.queues}
        settings = {match: text for (kind, match), text in kept.items() if kind == KEPT_ADDRESS_SETTING_KIND}
        standing = Standing(store, kept)
        application = Application(messaging, configured, settings, lambda text: log.warn("{text}", text=text), standing)
        own = OwnRecord(store, clock, cluster.address, new_id, kept)
        mastership = None if cluster.master is None else Mastership(store, kept, cluster.master)
        self._server = server
        self._registrar = registrar
        table = None if make_table is None else make_table(application.own_definitions)
        self.recording = Recording(server, cluster, peers, application, standing, mastership, own, registrar.deploy, leave, table)
        self.lives = Lives(standing, peers, messaging.core.queue_deleted)
        self.change_of_master = ChangeOfMaster(server, cluster, peers, self.recording, own, new_id)
        self.backups = Backups(self.recording, own, clock, new_id)
        self.reservations = Reservations(peers, server.node_id, cluster.address, clock, turn, cluster.lock_timeout_s, self._expel)
        reconnect_s = cluster.reconnect_interval_multiplier * RECONNECT_SECONDS
        self.temporary = TemporaryDestinations(server, peers, reconnect_s, kept)
        self.operations = MemberOperations(
            {
                **self.recording.answers,
                **self.change_of_master.answers,
                **self.reservations.answers,
                **self.temporary.answers,
                **answers,
            }
        )

    def forget(self) -> None:
        """Before :meth:`start`: what the record defines was removed here, and is to come back."""
        self.recording.standing.forget()

    def start(self) -> None:
        """Before the first client: ask for the record, and make what there was."""
        self.temporary.start()
        self._registrar.begin(self.recording, self.reservations, self.temporary.made)
        self.reservations.start()
        self.change_of_master.start()
        self.recording.start()

    def stop(self) -> None:
        """Before the connections end, so that what clients will come back to is kept."""
        self.temporary.stop()
        self.reservations.stop()
        self.change_of_master.stop()
        self.recording.stop()

    @property
    def master(self) -> str | None:
        """The present master (host:port); None in a cluster without one."""
        return self.recording.master

    def _expel(self, holder: str, reason: str) -> None:
        """A session's client id is used elsewhere: the client is told, and loses its connection."""
        session = self._server.sessions.by_name.get(holder)
        if session is not None:
            session.reply_error(DuplicateMetadataError(reason))
            session.connection.fail_soon(reason)
