"""Run Java scenarios by hand: `python -m tests.interop GENERATION PEER [SCENARIO…]` (PEER: mqbroker, artemis or a tcp:// URL)."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.java_driver import Harness, run_scenarios
from tests.interop.peers import Peer, kill_and_start, new_peer, restart


def main(generation: str, where: str, *names: str) -> int:
    peer: Peer | None = None
    with tempfile.TemporaryDirectory() as folder:
        if where.startswith("tcp://"):
            url = where
        else:
            peer = new_peer(where, Path(folder) / "broker")
            peer.start()
            url = peer.url
        proxy = CuttingProxy(int(url.rsplit(":", 1)[1]))
        try:
            actions = [partial(act, peer) if peer is not None else (lambda: None) for act in (restart, kill_and_start)]
            harness = Harness(url, proxy, *actions)
            results = run_scenarios(generation, harness, list(names) or ["all"])
        finally:
            proxy.close()
            if peer is not None:
                peer.stop()
    for result in results.values():
        print(f"{'ok  ' if result.ok else 'FAIL'} {result.ms:6d} ms  {result.name} {dict(result.reported) or ''}")
        if result.error:
            print("     " + "\n     ".join(result.error.splitlines()[:12]))
    failed = sum(not result.ok for result in results.values())
    print(f"{len(results)} scenarios, {failed} failed, {sum(result.ms for result in results.values())} ms")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
