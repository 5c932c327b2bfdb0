"""What was sent, what has come out, and whether these are exactly the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

Numbers = Counter[tuple[str, int]]
"""How often each message was there, by its producer and number."""
NAMED_MAX = 10
"""Messages that a sentence names."""
LARGE_EVERY = 200


def body_of(producer: str, number: int) -> str:
    """Now and then a large message."""
    return f"{producer}-{number}" + "." * (150_000 if number % LARGE_EVERY == LARGE_EVERY // 2 else 0)


def judge(sent: Mapping[str, int], place: str, came: Numbers) -> list[str]:
    """Every violation as a sentence: the numbers from 0 on, so many of each producer, have to be there once each, and nothing else."""
    expected = {(producer, number) for producer, count in sent.items() for number in range(count)}
    found = {
        "are lost": expected - came.keys(),
        "were sent by nobody": came.keys() - expected,
        "came more than once": {key for key, times in came.items() if times > 1 and key in expected},
    }
    return [f"{place}: of {len(expected)} messages {len(keys)} {what}: {_named(keys)}" for what, keys in found.items() if keys]


def _named(keys: set[tuple[str, int]]) -> str:
    shown = ", ".join(f"{producer}-{number}" for producer, number in sorted(keys)[:NAMED_MAX])
    return shown + (", …" if len(keys) > NAMED_MAX else "")


def numbers_in_parquet(folder: Path) -> Numbers:
    """What a streaming query has written there, by Spark's own list of files; one that is not listed was left behind by a failed task.

    Raises ValueError for a body that is not that of its message.
    """
    import pyarrow.parquet as pq

    found: Numbers = Counter()
    for path in listed(folder):
        for row in pq.ParquetFile(path).read(columns=["producer", "number", "text"]).to_pylist():
            check_body(row["producer"], row["number"], row["text"])
            found[row["producer"], row["number"]] += 1
    return found


def check_body(producer: str, number: int, text: str) -> None:
    if text != body_of(producer, number):
        raise ValueError(f"{producer}-{number} has another body: {text[:100]!r}, {len(text)} characters")


def listed(folder: Path) -> Iterator[Path]:
    """The files of ``_spark_metadata``: all of the last compacted batch, and those of each batch after it."""
    log = {int(path.name.partition(".")[0]): path for path in (folder / "_spark_metadata").iterdir() if path.name[0].isdigit()}
    begin = max((number for number, path in log.items() if path.suffix == ".compact"), default=0)
    for number in sorted(number for number in log if number >= begin):
        version, *entries = log[number].read_text().splitlines()
        assert version == "v1", version
        for entry in map(json.loads, entries):
            assert entry["action"] == "add", entry
            yield Path(unquote(urlparse(entry["path"]).path))
