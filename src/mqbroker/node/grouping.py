"""The grouping handler of a broker: made with messaging, which routes by it, and subscribed to notifications by :func:`follow`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mqbroker.cluster.grouping.grouping import GroupingHandler, Place, Properties
from mqbroker.cluster.grouping.local_grouping import KEPT_KIND, LocalGrouping
from mqbroker.cluster.grouping.remote_grouping import RemoteGrouping
from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqbroker.messaging.core import MessagingCore
from mqbroker.server.server import Server


def make_grouping(
    configuration: GroupingHandlerConfiguration, core: MessagingCore, kept: Mapping[tuple[str, str], str], server: Callable[[], Server]
) -> GroupingHandler:
    """``kept`` are the settings in the store, by kind and key; ``server`` gives the server, which is made after the handler."""

    def tell(kind: str, headers: Properties) -> None:
        server().notifications.send(kind, headers)

    def warn(text: str) -> None:
        server().reasons.warn("grouping:", f"grouping-handler {configuration.name}: {text}")

    place = Place(core, core.store.node_id, tell, warn)
    if configuration.local:
        return LocalGrouping(configuration, place, {key: text for (kind, key), text in kept.items() if kind == KEPT_KIND})
    return RemoteGrouping(configuration, place)


def follow(handler: GroupingHandler, server: Server) -> list[Callable[[], None]]:
    """Subscribe the handler to notifications, and show its gauges.  Returns the functions that end both."""
    configuration = handler.configuration
    labels = {"handler": configuration.name, "type": "LOCAL" if configuration.local else "REMOTE"}
    return [
        server.notifications.told.subscribe(handler.notified),
        server.notifications.queue_info.sent.subscribe(handler.repeat),
        server.gauges.register_all(
            labels,
            ("grouping.decisions", "Groups whose queue is decided, as far as known here", lambda: handler.decisions),
            ("grouping.waiting", "Groups whose messages wait for a decision or its queue", lambda: handler.waiting),
            ("grouping.messages.ungrouped", "Messages that were routed without a decision", lambda: handler.messages_ungrouped),
        ),
    ]
