"""The members of a home cluster: this broker, the others, and the master."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqbroker.config.imq.checked import Checked
from mqbroker.config.imq.places import LOOPBACK, Place, parse_place, parse_places
from mqbroker.config.problems import Findings

LISTS = ("imq.cluster.brokerlist", "imq.cluster.brokerlist.manual")
MASTER = "imq.cluster.masterbroker"
PEERS = "imq.cluster.nomasterbroker"
ENHANCED = "imq.cluster.ha"
PORT = "imq.portmapper.port"


@dataclass(frozen=True, slots=True)
class Members:
    """All members in the order of the list, ``own`` among them, each named as in the list."""

    own: Place
    all: tuple[Place, ...]
    master: Place | None

    @property
    def others(self) -> tuple[Place, ...]:
        return tuple(place for place in self.all if not place.same(self.own))

    @property
    def loopback(self) -> bool:
        """Are all members on the loopback?"""
        return all(place.is_loopback for place in self.all)


def find_members(checked: Checked, host_names: Sequence[str], findings: Findings) -> Members | None:
    """The members; None after an error.  ``host_names`` are names of this machine, the best first."""
    if checked[ENHANCED]:
        return _itself(checked, host_names, findings)
    errors = len(findings.errors)
    listed = [place for name in LISTS for place in _places(checked, name, findings)]
    master = next(iter(_places(checked, MASTER, findings)), None)
    if master is not None and checked[PEERS]:
        findings.warn(*checked.place(MASTER), f"{MASTER}={master} has no effect: with {PEERS}=true no broker keeps the change record")
        master = None
    if len(findings.errors) > errors:
        return None
    if master is not None:
        known = next((place for place in listed if place.same(master)), None)
        if known is None:
            if listed:
                findings.warn(*checked.place(MASTER), f"{MASTER}={master} is not in the broker list: it is added")
            listed.append(master)
        master = known or master
    own = _own(checked, host_names, listed)
    if not any(place.same(own) for place in listed):
        if listed:
            text = (
                f"{own}, this broker, is not in the broker list: it joins the others. If it is one of them, set imq.hostname as it is there"
            )
            findings.warn(*checked.place(LISTS[0]), text)
        listed.append(own)
    unique: list[Place] = []
    for place in listed:
        if not any(place.same(other) for other in unique):
            unique.append(place)
    if len({place.is_loopback for place in unique}) > 1:
        named = ", ".join(str(place) for place in unique if place.is_loopback)
        text = f"{named}: a loopback address leads each broker to itself; loopback addresses are allowed if all members have one"
        findings.error(*checked.place(LISTS[0]), text)
        return None
    return Members(own, tuple(unique), master)


def _itself(checked: Checked, host_names: Sequence[str], findings: Findings) -> Members:
    """The members of an enhanced cluster are those that the database knows."""
    for name in (*LISTS, MASTER, PEERS):
        if checked.layers.given(name) and checked.get(name):
            findings.warn(*checked.place(name), f"{name} has no effect: with {ENHANCED}=true the members are those in the database")
    own = _own(checked, host_names, ())
    return Members(own, (own,), None)


def _places(checked: Checked, name: str, findings: Findings) -> tuple[Place, ...]:
    text = checked.get(name, "")
    try:
        if name == MASTER:
            return (parse_place(text),) if text else ()
        return parse_places(text)
    except ValueError as error:
        findings.error(*checked.place(name), f"{name}: {str(error).strip()!r} is no broker: expected host:port")
        return ()


def _own(checked: Checked, host_names: Sequence[str], listed: Sequence[Place]) -> Place:
    """This broker as the list names it, if it does."""
    port = int(checked[PORT])
    given = checked.get("imq.cluster.hostname") or checked.get("imq.hostname") or checked.get("imq.portmapper.hostname")
    if given == "0.0.0.0":
        given = None
    names = [given] if given else [*host_names, *([LOOPBACK] if listed and all(place.is_loopback for place in listed) else [])]
    candidates = [Place(name, port) for name in names]
    found = next((place for place in listed if any(place.same(each) for each in candidates)), None)
    if found is not None:
        return found
    return candidates[-1] if listed and all(place.is_loopback for place in listed) else candidates[0]
