"""The listeners of a factory and of a session, which hear of connection failures."""

from __future__ import annotations

from mqclient.core.listeners import FailoverEventListener, SessionFailureListener


class ListenerMethods:
    """Tells listeners of connection failures; ``remove_…`` gives False when the listener was not added."""

    def __init__(self) -> None:
        self.failure_listeners: list[SessionFailureListener] = []
        self.failover_listeners: list[FailoverEventListener] = []

    def add_failure_listener(self, listener: SessionFailureListener) -> None:
        self.failure_listeners.append(listener)

    def remove_failure_listener(self, listener: SessionFailureListener) -> bool:
        if listener in self.failure_listeners:
            self.failure_listeners.remove(listener)
            return True
        return False

    def add_failover_listener(self, listener: FailoverEventListener) -> None:
        self.failover_listeners.append(listener)

    def remove_failover_listener(self, listener: FailoverEventListener) -> bool:
        if listener in self.failover_listeners:
            self.failover_listeners.remove(listener)
            return True
        return False
