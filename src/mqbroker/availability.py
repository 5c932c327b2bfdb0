"""The time that a takeover takes with given settings on this machine, as a start and ``mqbroker check ha`` tell it."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from mqbroker.process.mounts import NfsMount, nfs_mount, read_mounts

if TYPE_CHECKING:
    from mqbroker.config.instance.broker_settings import BrokerSettings
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.ha.detection import Detection, Share


def settings_detection(settings: BrokerSettings, mounts: str) -> Detection | None:
    """None for a broker without anybody that could go on."""
    from mqbroker.ha.detection import Share, detection

    session = _session(settings.configuration)
    waits = [mount.wait for mount in _shared_mounts(settings, mounts) if mount.wait is not None]
    return detection(settings.configuration, max(itertools.starmap(Share, waits), key=lambda share: share.seconds, default=None), session)


def _session(configuration: Configuration) -> Share | None:
    policy = configuration.replication
    if policy is None or policy.manager is None:
        return None
    from mqbroker.ha.detection import Share
    from mqbroker.lock_managers import session_seconds

    seconds = session_seconds(policy.manager)
    return None if seconds is None else Share("session-ms of the lock manager", seconds)


def _shared_mounts(settings: BrokerSettings, mounts: str) -> list[NfsMount]:
    """The NFS mounts of the folders that several brokers share, each once."""
    configuration = settings.configuration
    if not _shares_folders(configuration):
        return []
    folders = (
        _lock_folder(configuration),
        configuration.journal_directory,
        configuration.bindings_directory,
        configuration.large_messages_directory,
        configuration.paging_directory,
    )
    found = (_mount(settings, folder, mounts) for folder in folders)
    return list(dict.fromkeys(mount for mount in found if mount is not None))


def _shares_folders(configuration: Configuration) -> bool:
    return configuration.shared_store is not None and configuration.database_store is None


def _lock_folder(configuration: Configuration) -> str:
    return configuration.node_manager_lock_directory or configuration.journal_directory


def _mount(settings: BrokerSettings, folder: str, mounts: str) -> NfsMount | None:
    return nfs_mount(os.path.realpath(settings.base / folder), mounts)


def refusal(settings: BrokerSettings, mounts: str) -> str | None:
    """Why a broker must not start with these mounts: its locks would hold on this machine only, which no attempt shows.  None = it may."""
    configuration = settings.configuration
    if not _shares_folders(configuration):
        return None
    mount = _mount(settings, _lock_folder(configuration), mounts)
    return None if mount is None else mount.refusal()


def start_warnings(settings: BrokerSettings) -> list[str]:
    """Sentences for the log of a broker that starts with ``settings``."""
    configuration = settings.configuration
    if configuration.shared_store is None and configuration.replication is None:
        return []  # and nothing is imported for it
    mounts = read_mounts()
    found = settings_detection(settings, mounts)
    told = [remark for mount in _shared_mounts(settings, mounts) for remark in mount.remarks()]
    return told if found is None else [*told, *(f"{text}; see 'mqbroker check ha'" for text in found.warnings)]
