"""A ZooKeeper in memory, and sessions on it whose answers get lost and whose requests arrive late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mqbroker.ha.locks.contract import UnavailableError
from mqbroker.ha.locks.zookeeper.properties import ZooKeeperProperties
from mqbroker.ha.locks.zookeeper.session import NodeExistsError, NoNodeError, VersionError


@dataclass
class Node:
    content: bytes = b""
    version: int = 0
    owner: int = 0
    contenders: int = 0
    """So many have been made below it."""


@dataclass
class MemoryZooKeeper:
    """The ensemble, which answers everybody alike."""

    nodes: dict[str, Node] = field(default_factory=dict)
    sessions: dict[int, MemorySession] = field(default_factory=dict)
    made: int = 0
    timeout_ms: int | None = None
    """What it makes of the timeout of a session; None: what was asked for."""
    down: bool = False

    def connect(self, properties: ZooKeeperProperties, lost: Callable[[str], object]) -> MemorySession:
        if self.down:
            raise UnavailableError("no server answers")
        self.made += 1
        session = MemorySession(self, self.made, self.timeout_ms or properties.session_ms, lost)
        self.sessions[self.made] = session
        return session

    def expire(self, session: MemorySession) -> None:
        """The session is over, and its client does not know yet."""
        self.sessions.pop(session.session_id, None)
        self.nodes = {path: node for path, node in self.nodes.items() if node.owner != session.session_id}

    def below(self, path: str) -> list[str]:
        return [each.rpartition("/")[2] for each in self.nodes if each.rpartition("/")[0] == path]

    def parent(self, path: str) -> Node | None:
        """The node above; None for one of the first level.  Raises NoNodeError."""
        above = path.rpartition("/")[0]
        if above and above not in self.nodes:
            raise NoNodeError(above)
        return self.nodes[above] if above else None


class MemorySession:
    """See :class:`mqbroker.ha.locks.zookeeper.session.Session`."""

    def __init__(self, service: MemoryZooKeeper, session_id: int, timeout_ms: int, lost: Callable[[str], object]) -> None:
        self.service = service
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.lost_answers = 0
        """So many of the next requests that change something take effect, and nobody hears of it."""
        self.late = 0
        """So many of the next ones get no answer, and take effect when :meth:`arrive` is called."""
        self.closes = 0
        self._late: list[Callable[[], object]] = []
        self._lost = lost

    def lose(self) -> None:
        """The client hears that its session is over."""
        self.service.expire(self)
        self._lost("its session has expired")

    def arrive(self) -> None:
        """What was held up reaches the ensemble now."""
        late, self._late = self._late, []
        for request in late:
            try:
                request()
            except (NodeExistsError, NoNodeError, VersionError):
                pass

    @property
    def is_over(self) -> bool:
        return self.session_id not in self.service.sessions

    def sync(self, path: str) -> None:
        self._check()

    def children(self, path: str) -> Sequence[str]:
        self._check()
        if path not in self.service.nodes:
            raise NoNodeError(path)
        return self.service.below(path)

    def owner(self, path: str) -> int | None:
        self._check()
        node = self.service.nodes.get(path)
        return None if node is None else node.owner

    def read(self, path: str) -> tuple[bytes, int]:
        self._check()
        if path not in self.service.nodes:
            raise NoNodeError(path)
        node = self.service.nodes[path]
        return node.content, node.version

    def create(self, path: str) -> None:
        self._change(lambda: self._make(path, b""))

    def create_contender(self, path: str, content: bytes) -> None:
        def make() -> None:
            parent = self.service.parent(path)
            assert parent is not None
            self.service.nodes[f"{path}{parent.contenders:010}"] = Node(content, owner=self.session_id)
            parent.contenders += 1

        self._change(make)

    def delete(self, path: str) -> None:
        self._change(lambda: self.service.nodes.pop(path, None))

    def write(self, path: str, content: bytes, version: int | None, while_exists: str) -> None:
        def write() -> None:
            if while_exists not in self.service.nodes:
                raise NoNodeError(while_exists)
            if version is None:
                self._make(path, content)
                return
            node = self.service.nodes.get(path)
            if node is None:
                raise NoNodeError(path)
            if node.version != version:
                raise VersionError(path)
            node.content, node.version = content, version + 1

        self._change(write)

    def close(self) -> None:
        self.closes += 1
        self.service.expire(self)

    def _make(self, path: str, content: bytes) -> None:
        self.service.parent(path)
        if path in self.service.nodes:
            raise NodeExistsError(path)
        self.service.nodes[path] = Node(content)

    def _check(self) -> None:
        if self.service.down or self.is_over:
            raise UnavailableError("no server answers" if self.service.down else "the session is over")

    def _change(self, change: Callable[[], object]) -> None:
        self._check()
        if self.late:
            self.late -= 1
            self._late.append(change)
            raise UnavailableError("no answer")
        change()
        if self.lost_answers:
            self.lost_answers -= 1
            raise UnavailableError("the answer is lost")
