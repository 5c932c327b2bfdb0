"""Listeners of factories and sessions come and go."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.connection.listeners import ListenerMethods


class ListenerTests(SynchronousTestCase):
    def test_a_listener_is_removed_as_often_as_it_was_added(self) -> None:
        methods = ListenerMethods()
        for add, remove, listed in (
            (methods.add_failure_listener, methods.remove_failure_listener, methods.failure_listeners),
            (methods.add_failover_listener, methods.remove_failover_listener, methods.failover_listeners),
        ):
            listener: Any = object()
            add(listener)
            add(listener)
            self.assertEqual([remove(listener), remove(listener), remove(listener)], [True, True, False])
            self.assertEqual(listed, [])

    def test_the_two_kinds_are_kept_apart(self) -> None:
        methods = ListenerMethods()
        listener: Any = object()
        methods.add_failure_listener(listener)
        self.assertFalse(methods.remove_failover_listener(listener))
        self.assertEqual((methods.failure_listeners, methods.failover_listeners), ([listener], []))
