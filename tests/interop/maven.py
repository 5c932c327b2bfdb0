"""Maven for the suite: artifacts, and our Java programs compiled once per state of their sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
DOWNLOAD_SECONDS = 580.0
GENERATIONS = ("jms-2.44.0", "jms-2.19.1", "jms-2.6.4", "jakarta-2.44.0")


class MavenFailed(Exception):
    """Maven ended with an error; the message carries its output."""


def java_missing() -> str | None:
    """What is missing for the Java part of the suite, or None."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    text = subprocess.run(["javac", "-version"], capture_output=True, text=True, timeout=30, check=True)
    version = (text.stdout or text.stderr).split()[-1].split(".")[0]
    return None if int(version) >= 17 else f"Java 17 or later is needed, found {version}"


def maven(*arguments: str, folder: Path = HERE) -> None:
    """Run Maven, first offline (fast, and works without a network once all is there), then with downloads."""
    command = ["mvn", "-q", "-B", *arguments]
    offline = subprocess.run([*command, "-o"], cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    if offline.returncode == 0:
        return
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    if done.returncode != 0:
        raise MavenFailed(f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}")


def local_repository() -> Path:
    return Path(os.environ.get("MAVEN_LOCAL_REPOSITORY", Path.home() / ".m2" / "repository"))


def maven_artifact(group: str, name: str, version: str, packaging: str, classifier: str = "") -> Path:
    """Path of one file of Maven Central in the local repository, downloaded if need be."""
    file = "-".join(part for part in (name, version, classifier) if part)
    path = local_repository() / group.replace(".", "/") / name / version / f"{file}.{packaging}"
    if not path.exists():
        artifact = ":".join(part for part in (group, name, version, packaging, classifier) if part)
        maven("dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false")
    return path


def postgresql_driver() -> Path:
    """The JDBC driver that Java brokers are given."""
    return maven_artifact("org.postgresql", "postgresql", "42.7.4", "jar")


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Two test runs at the same time must not compile into the same folder."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _source_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "target" not in path.relative_to(folder).parts:
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def built(project: str, goal: str = "package") -> Path:
    """Folder of the Maven project tests/interop/`project`, compiled unless the last build saw the same sources."""
    return compiled(HERE / project, goal)


def compiled(folder: Path, goal: str = "package") -> Path:
    """The folder of a Maven project below `tests`, compiled unless the last build saw the same sources."""
    name = folder.name if folder.parent == HERE else f"{folder.parent.name}-{folder.name}"
    stamp = CACHE / f"{name}.sha256"
    with locked(name):
        wanted = _source_hash(folder)
        if not stamp.exists() or stamp.read_text() != wanted:
            maven(goal, folder=folder)
            stamp.write_text(wanted)
    return folder


def java_classpath(generation: str) -> str:
    """Class path with our scenario driver and the client library of one generation."""
    target = built("java") / generation / "target"
    return f"{target / 'classes'}:{target / 'lib'}/*"
