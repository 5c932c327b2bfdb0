"""What the parts of the resource ``broker`` have in common: the server that they show and change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.server.management.registry import Resource

if TYPE_CHECKING:
    from mqbroker.server.server import Server


class ServerResource(Resource):
    """A resource about the whole server."""

    def __init__(self, server: Server) -> None:
        self.server = server
