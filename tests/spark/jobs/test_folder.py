"""Files beside an archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mqspark.jobs import JobError
from mqspark.jobs.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_files_beside_an_archive_are_whole_or_not_there(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path / "new"))
    assert folder.names() == [] and not folder.has("plan")
    folder.write("plan", "größer")
    assert (folder.names(), folder.read("plan").decode()) == (["plan"], "größer")
    with pytest.raises(JobError, match="there is one already"):
        folder.write("plan", "other")
    assert folder.read("plan").decode() == "größer"
    folder.remove("plan")
    folder.remove("plan")
    assert folder.names() == []
