"""The scenarios of clusters with a master, on home brokers; `make interop-imq` plays them on a real Open Message Queue, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.imq.clusters import Answer, HomeBrokers, Member
from tests.interop.imq.conftest import home_brokers
from tests.interop.imq.differences import PAGE, WHY, Difference, differences, marks, write
from tests.interop.imq.models import with_master
from tests.interop.imq.scenarios import ENHANCED, MASTER, PEERS, SCENARIOS, Played, chosen, play
from tests.interop.puppet import Puppet


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeBrokers]:
    with home_brokers(tmp_path_factory.mktemp("master"), with_master) as made:
        yield made


@pytest.mark.parametrize("name", SCENARIOS[MASTER])
def test_master(name: str, cluster: HomeBrokers, client: Puppet) -> None:
    assert play(SCENARIOS[MASTER][name], cluster, client).reason is None


def test_what_differs_is_shown_without_what_both_have(tmp_path: Path) -> None:
    real = Played({"a": "done", "b": ("x", "y"), "c": "same", "d": "there"})
    ours = Played({"a": "refused", "b": ("y",), "c": "same", "e": "here"})
    found = differences(real, ours)
    assert [(each.what, each.real, each.ours) for each in found] == [
        ("a", "done", "refused"),
        ("b", "x", "–"),
        ("d", "there", "not seen"),
        ("e", "not seen", "here"),
    ]
    page = tmp_path / "page.md"
    begin, end = marks(MASTER)
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    write(MASTER, found, page)
    text = page.read_text()
    assert "| a | done | refused | **not explained** |" in text
    assert text.startswith(f"before\n{begin}\n| looked at") and text.endswith(f"{end}\nafter\n") and "old" not in text
    write(MASTER, [], page)
    assert page.read_text() == f"before\n{begin}\nNothing else.\n{end}\nafter\n"
    with pytest.raises(ValueError, match="has no marks"):
        write(PEERS, found, page)


def test_every_difference_has_a_reason_and_is_on_the_page() -> None:
    text = PAGE.read_text()
    table = ""
    for kind in SCENARIOS:
        begin, end = marks(kind)
        assert begin in text and end in text
        table += text.partition(begin)[2].partition(end)[0]
    for what, why in WHY.items():
        assert f"| {what} | " in table
        assert f" | {why} |" in table
    assert "not explained" not in table
    assert Difference("unheard of", "1", "2").why is None


def test_answers_of_commands() -> None:
    shown = Answer(
        0,
        "Address  State\n10.77.0.1:7676   OPERATING\n10.77.0.2:7676   BROKER_DOWN\n"
        "orders      Queue  RUNNING  0\ntemporary_destination://queue/1  Queue (temporary)  RUNNING  0\n"
        "Max Number of Messages    7\nCluster ID\n    Actual     0\n",
    )
    assert shown.brokers == {"10.77.0.1:7676": "OPERATING", "10.77.0.2:7676": "BROKER_DOWN"}
    assert shown.destinations == ["orders", "temporary_destination://queue/1"]
    assert (shown.values["Max Number of Messages"], shown.values["Cluster ID"], shown.values["Actual"]) == ("7", "", "0")


def test_members_of_an_enhanced_cluster() -> None:
    shown = Answer(
        0,
        "b0   10.77.1.1:7676   TAKEOVER_COMPLETE   0   b2   2 minutes\nb1   10.77.1.2:7676   BROKER_DOWN   7      1 minute\n"
        "b2   10.77.1.3:7676   OPERATING   50      0 seconds\n",
    )
    assert shown.members == {
        "b0": Member("TAKEOVER_COMPLETE", 0, "b2"),
        "b1": Member("BROKER_DOWN", 7, ""),
        "b2": Member("OPERATING", 50, ""),
    }
    assert list(shown.brokers.values()) == ["TAKEOVER_COMPLETE", "BROKER_DOWN", "OPERATING"]


def test_scenarios_are_chosen_by_their_kind_and_unknown_ones_are_named() -> None:
    with pytest.raises(ValueError, match="no scenario nothing"):
        chosen([f"{MASTER}/heart", "nothing"])
    with pytest.raises(ValueError, match=f"no scenario {PEERS}/takeover"):
        chosen([f"{PEERS}/takeover"])
    assert chosen([]) == {kind: list(names) for kind, names in SCENARIOS.items()}
    assert chosen([f"{ENHANCED}/load", PEERS, f"{ENHANCED}/heart"]) == {ENHANCED: ["load", "heart"], PEERS: list(SCENARIOS[PEERS])}
