"""Assembly of a home cluster: its links, and the delivery over them.  Imported only by a broker that is a member of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.cluster.links.connectors import announced_form
from mqbroker.config.imq.made import CONNECTION, connector_to
from mqbroker.config.imq.matching import match_properties
from mqbroker.imq.administration.broker import read_members
from mqbroker.imq.administration.reloading import Reloading
from mqbroker.imq.administration.resets import reset
from mqbroker.imq.definitions.registrar import HomeRegistrar
from mqbroker.imq.delivery.delivery import Delivery
from mqbroker.imq.links.agreement import Agreement
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.link import HomeLoads
from mqbroker.imq.links.operations import RESOURCE
from mqbroker.imq.links.requests import LinkedPeers
from mqbroker.imq.master.shared import SharedDefinitions
from mqbroker.server.management.registry import ManagementError
from mqclient.core.runtime import new_uuid
from mqclient.errors import IllegalStateError

if TYPE_CHECKING:
    from mqbroker.cluster.connection import ClusterConnection
    from mqbroker.config.imq.instance import ImqInstance
    from mqbroker.config.imq.places import Place
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.management.registry import Registry
    from mqbroker.server.server import Server
    from mqclient.core.runtime import Runtime


log = Logger(namespace="mqbroker.imq")


@dataclass(frozen=True, slots=True)
class HomeFiles:
    """The properties of an instance, and how files are read and written."""

    instance: ImqInstance
    read_file: Callable[[str], bytes]
    write_file: Callable[[str, bytes], None]


class Homes:
    """The part of one broker in a home cluster; ``kept`` are the settings of its store, ``connection`` gives its cluster connection.

    Implements :class:`mqbroker.imq.administration.broker.ClusterActions`.  Raises ValueError for a change record in the store that cannot
    be used.
    """

    def __init__(
        self,
        server: Server,
        runtime: Runtime,
        settings: HomeCluster,
        kept: Mapping[tuple[str, str], str],
        connection: Callable[[], ClusterConnection],
        files: HomeFiles | None = None,
    ) -> None:
        self._server = server
        self._files = files
        self._connection = connection
        self.links = HomeLinks()
        peers = LinkedPeers(self.links, lambda: f"imq.{new_uuid(runtime)}", settings.wait_reply_s, server.turn)
        registrar = server.messaging.registrar
        assert isinstance(registrar, HomeRegistrar)  # of such a configuration
        agreement = Agreement(match_properties(settings), peers, lambda node_id: connection().part(node_id))
        self._reloading = Reloading(settings.brokers, self._read_places, self._change_members, peers)
        answers = {"matchProperties": agreement.answer, "reload": self._reloading.here}
        self.shared = SharedDefinitions(server, settings, peers, registrar, kept, lambda: new_uuid(runtime), server.store.fence, answers)
        self._turn = server.turn
        self.delivery = Delivery(server.messaging, self.links, server.node_id, runtime, settings, self.shared.lives)
        self.loads = HomeLoads(self.links, lambda node_id: sum(1 for _ in self.delivery.remote_consumers(node_id)))
        coordination = self.delivery.coordination
        self._hide = server.gauges.register(
            "imq.branches.undecided",
            "Branches at other members whose outcome is not decided here, or is not known there",
            {},
            lambda: coordination.undecided,
        )

    def register(self, registry: Registry) -> None:
        """Let other members ask."""
        registry.register(RESOURCE, self.shared.operations)

    def start(self) -> None:
        """Before there are links and clients: this broker looks for the change record, or has it.

        Raises ValueError for a file that cannot be restored.
        """
        if self._files is not None:
            for what in self._files.instance.start.resets:
                self._turn.run(reset, self._server.messaging, what)
                self.shared.forget()
        self._turn.run(self.shared.start)
        if self._files is not None:
            self._back_up_and_restore(self._files)

    def _back_up_and_restore(self, files: HomeFiles) -> None:
        """What the command line asks for.  A backup at another broker than the master is only told, as OpenMQ does."""
        start, backups = files.instance.start, self.shared.backups
        try:
            if start.restore is not None:
                count = backups.restore(files.read_file(start.restore))
                log.info("the change record was restored from {file}: {count} definitions", file=start.restore, count=count)
            if start.backup is not None:
                files.write_file(start.backup, backups.backup())
                log.info("the change record was backed up into {file}", file=start.backup)
        except IllegalStateError as error:
            if start.restore is not None:
                raise ValueError(f"-restore {start.restore}: {error}") from error
            log.warn("-backup {file}: {reason}", file=start.backup, reason=str(error))
        except OSError as error:
            raise ValueError(f"the change record: {error}") from error

    # --- for the commands of OpenMQ

    @property
    def master(self) -> str | None:
        return self.shared.master

    @property
    def brokers(self) -> Sequence[str]:
        return self._reloading.brokers

    def held(self, queue: Queue) -> int:
        return self.delivery.held(queue)

    def reload(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._reloading.everywhere())

    def change_master(self, place: str) -> Deferred[None]:
        return self.shared.change_of_master.change(place)

    def _read_places(self) -> Sequence[Place]:
        if self._files is None:
            raise ManagementError("the members of this broker are not in files")
        return read_members(self._files.instance, self._files.read_file).all

    def _change_members(self, places: Sequence[Place]) -> None:
        parameters = self._server.configuration.connectors[CONNECTION].parameters
        self._connection().change_static([announced_form(connector_to(place, parameters)) for place in places])

    def stop(self) -> None:
        """The links are closed, or are being closed."""
        self._turn.run(self.shared.stop)
        self.delivery.stop()
        self._hide()
