"""Operations that are repeated when their answer is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqspark.errors import (
    BrokerUnreachableError,
)
from tests.spark.support import (
    new_broker,
)
from tests.spark.test_broker import opened


def test_an_operation_whose_answer_is_lost_is_not_made_twice(tmp_path: Path) -> None:
    process = new_broker(tmp_path / "broker")
    process.start()
    try:
        with opened(process.url, reconnectTimeout="300") as connection:
            process.kill()
            with pytest.raises(BrokerUnreachableError, match="not known whether it was done"):
                connection.manage("broker", "createAddress", "a", "ANYCAST")
            with pytest.raises(BrokerUnreachableError, match="within 300 ms"):
                connection.queue_query("kept")
    finally:
        process.stop()
