"""The programs and settings of docs/java.md do what the page says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.interop import instance
from tests.interop.maven import HERE, built
from tests.interop.peers import Peer
from tests.unit.docs.pages import blocks, read

PAGE = read("docs", "java.md")
CLIENT = "jakarta-2.44.0"
TIMEOUT = 60  # s: for a busy machine


def run_java(program: str, folder: Path, class_path: str, *arguments: str) -> str:
    """What a program of one source file prints, on a class path whose first entry is ``folder``."""
    name = re.search(r"public class (\w+)", program)
    assert name is not None
    source = folder / f"{name[1]}.java"
    source.write_text(program)
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{folder}:{class_path}", str(source), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def client_libraries() -> str:
    return f"{built('java') / CLIENT / 'target' / 'lib'}/*"


def test_the_programs(peer: Peer, tmp_path: Path) -> None:
    first, lookup = blocks(PAGE, "java")
    _spring, names = blocks(PAGE, "properties")
    assert run_java(first, tmp_path, client_libraries(), peer.url) == "Hello from Java\n"
    (tmp_path / "jndi.properties").write_text(names.replace("tcp://127.0.0.1:61616", peer.url))
    assert run_java(lookup, tmp_path, client_libraries()) == "a job\n"


def test_the_login_of_the_page_is_the_one_of_the_tests() -> None:
    assert f'createContext("{instance.USER}", "{instance.PASSWORD}")' in PAGE


def test_the_settings_of_spring(peer: Peer, tmp_path: Path) -> None:
    settings, _names = blocks(PAGE, "properties")
    (tmp_path / "application.properties").write_text(settings.replace("tcp://127.0.0.1:61616", peer.url))
    target = built("springboot") / "target"
    class_path = f"{tmp_path}:{target / 'classes'}:{target / 'lib'}/*"
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path, "interop.Shop"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "received: confirmed order 4" in done.stdout


def test_the_dependency_is_the_one_of_the_tests() -> None:
    (dependency,) = (block for block in blocks(PAGE, "xml") if "<dependency>" in block)
    pom = (HERE / "java" / CLIENT / "pom.xml").read_text()
    assert re.sub(r"\s", "", dependency) in re.sub(r"\s", "", pom)
