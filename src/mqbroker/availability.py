"""The time that a takeover takes with given settings on this machine, as a start and ``mqbroker check ha`` tell it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mqbroker.process.mounts import NfsMount, nfs_mount, read_mounts

if TYPE_CHECKING:
    from mqbroker.config.instance.broker_settings import BrokerSettings
    from mqbroker.ha.detection import Detection


def settings_detection(settings: BrokerSettings, mounts: str) -> Detection | None:
    """None for a broker without anybody that could go on."""
    from mqbroker.ha.detection import Share, detection

    mount = _shared_mount(settings, mounts)
    wait = None if mount is None else mount.wait
    return detection(settings.configuration, None if wait is None else Share(*wait))


def _shared_mount(settings: BrokerSettings, mounts: str) -> NfsMount | None:
    """The NFS mount of the folder that several brokers share."""
    if settings.configuration.shared_store is None:
        return None
    return nfs_mount(os.path.realpath(settings.base / settings.configuration.journal_directory), mounts)


def start_warnings(settings: BrokerSettings) -> list[str]:
    """Sentences for the log of a broker that starts with ``settings``."""
    configuration = settings.configuration
    if configuration.shared_store is None and configuration.replication is None:
        return []  # and nothing is imported for it
    mounts = read_mounts()
    mount, found = _shared_mount(settings, mounts), settings_detection(settings, mounts)
    told = [] if mount is None else mount.remarks()
    return told if found is None else [*told, *(f"{text}; see 'mqbroker check ha'" for text in found.warnings)]
