"""The verdict of the failure tests finds each kind of fault in made-up numbers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.failures.verdict import body_of, check_body, judge, listed

SENT = {"p0": 2, "p1": 1}
GOOD = [("p0", 0), ("p0", 1), ("p1", 0)]


def test_numbers_that_agree() -> None:
    assert judge(SENT, "q", Counter(GOOD)) == []


def test_each_violation_is_a_sentence() -> None:
    assert judge(SENT, "q", Counter(GOOD[1:])) == ["q: of 3 messages 1 are lost: p0-0"]
    assert judge(SENT, "q", Counter([*GOOD, ("p1", 0)])) == ["q: of 3 messages 1 came more than once: p1-0"]
    assert judge(SENT, "q", Counter([*GOOD, ("p1", 1)])) == ["q: of 3 messages 1 were sent by nobody: p1-1"]


def test_a_body_of_another_message() -> None:
    check_body("p0", 100, body_of("p0", 100))
    with pytest.raises(ValueError, match="p0-1 has another body: 'p0-2'"):
        check_body("p0", 1, body_of("p0", 2))


def test_files_that_spark_lists(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    lists = {"8": ["old"], "9.compact": ["a b", "c"], "10": ["d"], "11": []}
    for name, files in lists.items():
        entries = [json.dumps({"path": (tmp_path / file).as_uri(), "action": "add"}) for file in files]
        (log / name).write_text("\n".join(["v1", *entries]))
    (log / ".10.crc").touch()
    assert list(listed(tmp_path)) == [tmp_path / "a b", tmp_path / "c", tmp_path / "d"]
