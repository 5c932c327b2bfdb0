"""What valgrind tells is read, and put side by side."""

from __future__ import annotations

import pytest

from tests.bench.instructions import counted, line


def test_the_count_is_read() -> None:
    assert counted("==7== \n==7== I   refs:      1,234,567,890\n") == 1_234_567_890
    with pytest.raises(ValueError, match="counted nothing: valgrind: no such tool"):
        counted("valgrind: no such tool")


def test_two_states_side_by_side() -> None:
    assert line("durable", 200_000, 201_000) == "| durable | 200,000 | 201,000 | 1.005 |"
    assert line("durable", None, 201_000) == "| durable | | 201,000 | |"
