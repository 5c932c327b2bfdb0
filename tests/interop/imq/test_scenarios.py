"""The scenarios of home brokers, on home brokers; `make interop-imq` plays them on a real Open Message Queue, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cluster.nodes import ReservedPort
from tests.interop.imq.clusters import COUNT, Answer, HomeBrokers
from tests.interop.imq.differences import BEGIN, END, PAGE, WHY, Difference, differences, write
from tests.interop.imq.scenarios import SCENARIOS, Played, chosen, play
from tests.interop.maven import java_classpath
from tests.interop.puppet import Puppet


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeBrokers]:
    ports = [ReservedPort() for _ in range(COUNT)]
    made = HomeBrokers(tmp_path_factory.mktemp("homes") / "cluster", [f"127.0.0.1:{port.number}" for port in ports])
    yield made
    made.close()
    for port in ports:
        port.close()


@pytest.fixture(scope="module")
def client(java: None) -> Iterator[Puppet]:
    with Puppet(classpath=java_classpath("jakarta-2.44.0")) as made:
        yield made


@pytest.mark.parametrize("name", SCENARIOS)
def test_home_brokers(name: str, cluster: HomeBrokers, client: Puppet) -> None:
    played = play(name, cluster, client)
    assert played.reason is None


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
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(found, page)
    text = page.read_text()
    assert "| a | done | refused | **not explained** |" in text
    assert text.startswith(f"before\n{BEGIN}\n| looked at") and text.endswith(f"{END}\nafter\n") and "old" not in text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="has no marks"):
        write(found, page)


def test_every_difference_has_a_reason_and_is_on_the_page() -> None:
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
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


def test_unknown_scenarios_are_named() -> None:
    with pytest.raises(ValueError, match="no scenario nothing"):
        chosen(["heart", "nothing"])
    assert chosen([]) == list(SCENARIOS)
