"""The Java program of the benchmark gets one workload after the other, and none while another one holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.bench.load_program import LoadProgram


def test_a_program_whose_workload_still_holds_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    ended: list[bool] = []
    monkeypatch.setattr(LoadProgram, "_tell", lambda _, line: told.append(line))
    monkeypatch.setattr(LoadProgram, "stop", lambda _: ended.append(True))
    program = LoadProgram()
    program._lines.put('{"event": "holding"}')

    def act(event: str, line: Mapping[str, Any]) -> None:
        raise RuntimeError("the broker does not start")

    with pytest.raises(RuntimeError, match="does not start"):
        program.run("tcp://127.0.0.1:1", "follow", {"size": 10}, 1.0, act)
    assert told == ["tcp://127.0.0.1:1 follow size=10"]
    assert ended == [True]
