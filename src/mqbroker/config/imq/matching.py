"""The properties that have to be the same on all brokers of a cluster; brokers compare them when a link comes up."""

from __future__ import annotations

from collections.abc import Mapping

from mqbroker.config.model.home_cluster import HomeCluster


def match_properties(home: HomeCluster) -> dict[str, str]:
    """The values that this broker tells others, by property."""
    found = {"imq.autocreate.queue": _flag(home.autocreate_queue), "imq.autocreate.topic": _flag(home.autocreate_topic)}
    if home.cluster_id is not None:
        found["imq.cluster.clusterid"] = home.cluster_id
    if home.enhanced is not None:
        found["imq.cluster.ha"] = _flag(True)
        found["imq.cluster.monitor.interval"] = f"{home.enhanced.monitor_interval:g}"
        found["imq.service.activelist"] = ",".join(sorted(home.services))
    elif home.record is not None:
        found["imq.cluster.nomasterbroker"] = _flag(True)
    if home.master is not None:
        found["imq.cluster.nowaitForMasterBroker"] = _flag(home.nowait_for_master)
        found["imq.cluster.dynamicChangeMasterBrokerEnabled"] = _flag(home.dynamic_change_master)
    return found


def differences(own: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """A sentence for each property that is not the same here and at another broker; none when the two may be linked."""
    return [
        f"{name} is {_shown(own.get(name))} here and {_shown(theirs.get(name))} there"
        for name in sorted(own.keys() | theirs.keys())
        if own.get(name) != theirs.get(name)
    ]


def _shown(value: str | None) -> str:
    return "not set" if value is None else value


def _flag(value: bool) -> str:
    return "true" if value else "false"
