"""The example that a new user runs first does what it says, and ends by itself."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.spark.support import ROOT, environment

SECONDS = 600.0  # on a busy machine; alone on two cores it takes less than a minute
ORDERS = 20_000


def test_orders_become_totals_in_a_queue_and_in_parquet() -> None:
    command = [sys.executable, str(ROOT / "examples" / "spark" / "orders.py")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    sent = re.findall(r"^2026-01-02T(?:08|09|10|11):[03]0  (apples|bread|cheese) +(\d+) orders +([\d.]+)$", done.stdout, re.M)
    assert len(sent) == 21, done.stdout
    assert sum(int(count) for _, count, _ in sent) == ORDERS
    assert "when both queries have committed them: 0\n" in done.stdout
    stored = re.findall(r"^\| *(apples|bread|cheese)\| *(\d+)\| *([\d.]+)\|$", done.stdout, re.M)
    for product, count, amount in stored:
        mine = [(int(each[1]), float(each[2])) for each in sent if each[0] == product]
        assert (int(count), float(amount)) == (sum(each[0] for each in mine), round(sum(each[1] for each in mine), 2))
    assert len(stored) == 3, done.stdout
