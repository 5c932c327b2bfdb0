"""The broker under test: mqbroker, or the real Artemis when MQBROKER_TEST_PEER=artemis (the scenarios must hold for both)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from tests.interop.artemis import ArtemisBroker
from tests.interop.instance import Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.processes import ManagedProcess, free_port


class Peer(Protocol):
    """A broker process with the configuration of the suite."""

    @property
    def folder(self) -> Path: ...
    @property
    def tls_port(self) -> int | None:
        """Port of the acceptor with TLS; None without one."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> ManagedProcess | None: ...
    def start(self) -> None: ...
    def launch(self) -> None:
        """Start it without waiting until it listens."""

    def stop(self) -> None: ...
    def kill(self) -> None: ...


def restart(peer: Peer) -> None:
    """An orderly stop, then a start with the same files on the same port."""
    peer.stop()
    peer.start()


def kill_and_start(peer: Peer) -> None:
    """As after a power failure: the process ends at once, and is started with the same files on the same port."""
    peer.kill()
    peer.start()


def peer_name() -> str:
    return os.environ.get("MQBROKER_TEST_PEER", "mqbroker")


def new_peer(name: str, folder: Path, *, tls: bool = False) -> Peer:
    """A broker that is not started yet, with its files in `folder`; `tls`: with an acceptor that asks for TLS, too."""
    return make_peer(name, folder, Additions(tls_port=free_port() if tls else None))


def make_peer(name: str, folder: Path, additions: Additions, port: int | None = None) -> Peer:
    """As :func:`new_peer`, with further elements in broker.xml; `port`: where it listens (None: it finds one)."""
    if name == "mqbroker":
        return MqbrokerProcess(folder, additions, port or 0)
    if name == "artemis":
        return ArtemisBroker(folder, additions, port)
    raise ValueError(f"the peer is {name!r}, expected mqbroker or artemis (MQBROKER_TEST_PEER)")
