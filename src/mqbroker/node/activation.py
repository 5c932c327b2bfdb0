"""The decision whether a broker with its data may become active."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.config.model.configuration import Configuration
    from mqbroker.ha.shared_store.activation import Presence
    from mqbroker.messaging.ports import Clock
    from mqbroker.storage.disk.claim import Claim
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.disk.filesystem import FileSystem


class Candidate(Protocol):
    """A broker that wants to be active."""

    def granted(self) -> None:
        """It may be: it loads its store, and serves."""

    def lost(self, reason: str) -> None:
        """It may not be, now or any more: it writes nothing more."""

    def give_way(self, again: bool) -> None:
        """Another broker is to be active: it stops in order, and then seeks its activation once more if ``again``."""


class Activation(Protocol):
    """Decides when a broker becomes active; until then it is passive."""

    @property
    def role(self) -> str:
        """primary or backup, as configured."""

    @property
    def state(self) -> str:
        """What a passive broker waits as, in few words."""

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> Claim | None:
        """The claim of the next start to the folder of its store, which ``writer`` writes to; None = the folder is the broker's own."""

    def seek(self, candidate: Candidate) -> None:
        """Grant it once, now or later, unless :meth:`cease` comes first."""

    def hand_over(self) -> None:
        """The active broker is about to stop in order: another one is to go on, whatever the configuration says."""

    def cease(self) -> None:
        """The broker ends its request, or its activity."""


class ActiveAtOnce:
    """The activation of a broker without high availability."""

    role = "primary"
    state = ""

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> None:
        """Nobody else uses the folder."""

    def seek(self, candidate: Candidate) -> None:
        candidate.granted()

    def hand_over(self) -> None:
        """Nobody could go on."""

    def cease(self) -> None:
        pass


def make_activation(configuration: Configuration, clock: Clock, entropy: Callable[[int], bytes], presence: Presence) -> Activation:
    """The activation that the configuration asks for; ``presence`` shows a broker that is passive to its cluster."""
    policy = configuration.shared_store
    if policy is None:
        return ActiveAtOnce()
    from mqbroker.ha.shared_store.activation import SharedStoreActivation

    return SharedStoreActivation(policy, configuration.journal_lock_acquisition_timeout, clock, entropy, presence)
