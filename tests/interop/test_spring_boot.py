"""A Spring Boot application with spring-boot-starter-artemis, configured by properties only."""

from __future__ import annotations

import subprocess

from tests.interop import instance
from tests.interop.maven import built
from tests.interop.peers import Peer


def test_template_and_listeners(peer: Peer) -> None:
    target = built("springboot") / "target"
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{target / 'classes'}:{target / 'lib'}/*"]
    command += ["interop.Shop", "--spring.main.banner-mode=off", "--spring.artemis.mode=native", f"--spring.artemis.broker-url={peer.url}"]
    command += [f"--spring.artemis.user={instance.USER}", f"--spring.artemis.password={instance.PASSWORD}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    received = sorted(line for line in done.stdout.splitlines() if line.startswith("received: "))
    assert received == [*(f"received: confirmed order {i}" for i in range(5)), "received: plain"]
