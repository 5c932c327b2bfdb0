"""Queues and addresses that deliver nothing for a while, because management wants it; such a pause may outlast a restart."""

from __future__ import annotations

from collections.abc import Mapping

from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.queue import Queue

QUEUE_KIND = "paused-queue"
ADDRESS_KIND = "paused-address"


class Pauses:
    """Pauses and resumes queues and addresses.

    A kept pause has the id of the queue or address, so that it does not hold for a later one with the same name.
    """

    def __init__(self, core: MessagingCore) -> None:
        self._core = core
        self._kept: dict[tuple[str, str], str] = {}

    def pause(self, target: Queue | Address, persist: bool) -> None:
        """Deliver nothing any more; with ``persist`` also after a restart, where the target itself outlasts one."""
        target.paused = True
        if persist:
            key = _key(target)
            self._kept[key] = str(_id(target))
            batch = self._core.store.begin()
            batch.put_setting(*key, self._kept[key])
            self._core.store.commit(batch)

    def resume(self, target: Queue | Address) -> None:
        """Deliver again."""
        target.paused = False
        self._forget(_key(target))
        for queue in [target] if isinstance(target, Queue) else target.queues:
            self._core.turn.mark_queue(queue)

    def is_kept(self, target: Queue | Address) -> bool:
        """Will the target be paused after a restart?"""
        return target.paused and self._kept.get(_key(target)) == str(_id(target))

    def restore(self, settings: Mapping[tuple[str, str], str]) -> None:
        """Pause the kept queues and addresses again, and forget the pauses of deleted ones."""
        found: Mapping[str, Mapping[str, Queue | Address]] = {QUEUE_KIND: self._core.queues, ADDRESS_KIND: self._core.addresses}
        for (kind, name), text in settings.items():
            if kind not in found:
                continue
            self._kept[kind, name] = text
            target = found[kind].get(name)
            if target is not None and str(_id(target)) == text:
                target.paused = True
            else:
                self._forget((kind, name))

    def _forget(self, key: tuple[str, str]) -> None:
        if self._kept.pop(key, None) is not None:
            batch = self._core.store.begin()
            batch.delete_setting(*key)
            self._core.store.commit(batch)


def _key(target: Queue | Address) -> tuple[str, str]:
    return QUEUE_KIND if isinstance(target, Queue) else ADDRESS_KIND, target.name


def _id(target: Queue | Address) -> int:
    return target.queue_id if isinstance(target, Queue) else target.address_id
