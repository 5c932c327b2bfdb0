"""Our own Java program (`tests/bench/java`): the workloads that the load client of the distribution does not have."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.bench.results import Load, LoadFailed
from tests.interop.maven import compiled

HERE = Path(__file__).resolve().parent
GRACE_SECONDS = 75.0  # for connecting, and for emptying the queue after the measured time
JAVA_OPTIONS = ("-Xms256m", "-Xmx1g", "-XX:+UseParallelGC")


def classes(generation: str) -> Path:
    """Folder of a Maven module: `javax` or `jakarta`, by the JMS interfaces that the program is compiled with."""
    return compiled(HERE / "java") / generation / "target"


class LoadProgram:
    """One Java process for all runs against both brokers. A workload that hangs or fails costs that process; the next gets a new one.

    `classpath`: with another client library than that of Artemis.
    """

    def __init__(self, classpath: str | None = None) -> None:
        self._classpath = classpath
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            target = classes("javax")
            path = self._classpath or f"{target / 'classes'}:{target / 'lib'}/*"
            command = ["java", *JAVA_OPTIONS, "-cp", path, "bench.Program"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
            )
            self._lines = queue.Queue()
            threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        return self._process

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                lines.put(line)
        lines.put(None)

    def _tell(self, line: str) -> None:
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()

    def run(
        self, url: str, workload: str, options: Mapping[str, int | str], limit: float, on_event: Callable[[str, Mapping[str, Any]], None]
    ) -> dict[str, Any]:
        """The result of one workload, within `limit` seconds plus a grace; `on_event` hears of its events when they come.

        Raises LoadFailed with what the workload said, or when nothing came in time.
        """
        self._tell(" ".join([url, workload, *(f"{name}={value}" for name, value in options.items())]))
        try:
            return self._result(workload, limit, on_event)
        except BaseException:
            # A workload that holds would take the next one for the line that it waits for.
            self.stop()
            raise

    def _result(self, workload: str, limit: float, on_event: Callable[[str, Mapping[str, Any]], None]) -> dict[str, Any]:
        while True:
            try:
                text = self._lines.get(timeout=limit + GRACE_SECONDS)
            except queue.Empty:
                raise LoadFailed(f"{workload}: nothing came for {limit + GRACE_SECONDS:.0f} s") from None
            if text is None:
                raise LoadFailed(f"{workload}: the load program ended")
            line = json.loads(text)
            if "error" in line:
                raise LoadFailed(f"{workload}: {line['error']}")
            if "result" in line:
                return dict(line["result"])
            on_event(line["event"], line)
            if line["event"] == "holding":
                self._tell("")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def load_of(result: Mapping[str, Any]) -> Load:
    """The numbers of a workload that ran for a time; raises LoadFailed when nothing was measured."""
    if not result["messages"] or "p50_ms" not in result:
        raise LoadFailed("nothing was measured")
    count = int(result["messages"])
    return Load(count, count, count / result["seconds"], result["p50_ms"], result["p99_ms"], result["p999_ms"])
