"""The resource ``acceptor.NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.server.management.registry import Operation, Resource

if TYPE_CHECKING:
    from mqbroker.server.transport.acceptor import Acceptor


class AcceptorControl(Resource):
    """One acceptor.  Stopping it leaves the connections that are there."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor

    def start(self) -> None:
        if not self.acceptor.started:
            self.acceptor.start()

    def stop(self) -> None:
        self.acceptor.stop()


AcceptorControl.ATTRIBUTES = {
    "Name": lambda control: control.acceptor.name,
    "Started": lambda control: control.acceptor.started,
}
AcceptorControl.OPERATIONS = {
    "start": Operation(AcceptorControl.start),
    "stop": Operation(AcceptorControl.stop),
}
