"""The resource ``acceptor.NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.server.management.registry import Operation, Resource, without_result

if TYPE_CHECKING:
    from mqbroker.server.transport.acceptor import Acceptor


class AcceptorControl(Resource):
    """One acceptor.  Open connections survive when the acceptor is stopped."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor

    def start(self) -> None:
        if not self.acceptor.started:
            self.acceptor.start()


AcceptorControl.ATTRIBUTES = {
    "Name": lambda control: control.acceptor.name,
    "Started": lambda control: control.acceptor.started,
}
AcceptorControl.OPERATIONS = {
    "start": Operation(AcceptorControl.start),
    "stop": without_result(lambda control: control.acceptor.stop()),
}
