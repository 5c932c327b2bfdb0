"""The brokers of ``mqbroker demo failover``: a replicated pair and a voter, and what may happen to them."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from mqbroker.cli.demo.brokers import START_SECONDS, Brokers, Node, await_active, await_told
from mqbroker.cli.demo.proxy import Proxy, never, own_ports
from mqbroker.cli.status import CommandError

NOTICED_MS: Final = 2000
"""A broker or client that says nothing for so long counts as lost."""
SPARE_BYTES: Final = 16 * 1024
"""Of a full disk: what its broker can still write into each file beyond the size of its log."""
NOW_ACTIVE: Final = "is now active"
IN_SYNC: Final = "AMQ221024: this replica is in sync"
_STANDING: Final = {
    NOW_ACTIVE: "active",
    "AMQ221109: replica of": "copying",
    IN_SYNC: "in sync",
    "the active broker is lost": "seeking",
    "this broker is passive": "passive",
}
"""Of what a broker has written, the last one of these says where it stands."""
_CORE: Final = """      <connection-ttl-check-interval>250</connection-ttl-check-interval>
      <ha-policy>
         <replication>
            <{role}>
               <retry-replication-wait>500</retry-replication-wait>
{more}
            </{role}>
         </replication>
      </ha-policy>
"""
_STAYS: Final = "               <allow-failback>false</allow-failback>"
_NOTICE: Final = f"""            <check-period>{NOTICED_MS // 2}</check-period>
            <connection-ttl>{NOTICED_MS}</connection-ttl>"""


def standing(told: str) -> str:
    """The standing of the broker that has written this."""
    found = {told.rfind(line): state for line, state in _STANDING.items() if line in told}
    return found[max(found)] if found else "starting"


class Member(Node):
    """A broker of the pair.  Everybody reaches it through a proxy; ``silence_of`` is that of the proxy."""

    def __init__(self, name: str, folder: Path, silence_of: Callable[[int], Callable[[], bool]]) -> None:
        super().__init__(name, folder)
        self.proxy = Proxy(self.port, silence_of)
        self.paused = False
        self.full = False

    @property
    def announced(self) -> int:
        return self.proxy.port

    @property
    def state(self) -> str:
        if not self.running:
            return "killed"
        state = "paused" if self.paused else standing(self.told)
        return f"{state}, disk full" if self.full else state

    @property
    def active(self) -> bool:
        return self.running and not self.paused and standing(self.told) == "active"

    def start(self) -> None:
        if not self.running:
            self.full = False
            self.proxy.listen()
        super().start()

    def pause(self) -> None:
        """Let it do nothing until :meth:`go_on`."""
        self._signal(signal.SIGSTOP)
        self.paused = True

    def go_on(self) -> None:
        if self.paused:
            self._signal(signal.SIGCONT)
            self.paused = False

    def fill(self) -> None:
        """From now on it meets what a full disk is: no file may become larger than it can be here.  Needs no privileges."""
        self._limit_files(self.log.stat().st_size + SPARE_BYTES)
        self.full = True

    def make_room(self) -> None:
        if self.full and self.running:
            self._limit_files(None)
        self.full = False

    def kill(self) -> None:
        super().kill()
        self.proxy.refuse()
        self.paused = False

    def close(self) -> None:
        self.go_on()
        super().close()

    def closed(self, deadline: float) -> None:
        super().closed(deadline)
        self.proxy.close()

    def _signal(self, number: int) -> None:
        if self.process is not None and self.running:
            self.process.send_signal(number)

    def _limit_files(self, size: int | None) -> None:
        limit = getattr(resource, "prlimit", None)
        if limit is None:
            raise CommandError("this system does not limit the files of another process")
        assert self.process is not None
        most = limit(self.process.pid, resource.RLIMIT_FSIZE)[1]
        limit(self.process.pid, resource.RLIMIT_FSIZE, (most if size is None else size, most))


class Pair(Brokers):
    """A context with the running brokers.  Each thing that happens to them is told by the text that it returns."""

    name = "pair"

    def __init__(self) -> None:
        super().__init__()
        self.apart = False
        """Do the other brokers not reach those of the pair?  Clients do."""
        self.primary, self.backup = (Member(name, self.folder, self._silence_of) for name in ("primary", "backup"))
        self.members = (self.primary, self.backup)
        self.voter = Node("voter", self.folder)
        self.nodes = (self.voter, *self.members)
        for member, role, more in ((self.primary, "primary", ""), (self.backup, "backup", _STAYS)):
            member.configure(self.nodes, self.password, _CORE.format(role=role, more=more), _NOTICE)
        self.voter.configure(self.nodes, self.password, "", _NOTICE)

    @property
    def url(self) -> str:
        """For clients that follow to the active broker, and send exactly once."""
        places = ",".join(member.proxy.url for member in self.members)
        noticed = f"connectionTTL={NOTICED_MS}&clientFailureCheckPeriod={NOTICED_MS // 4}"
        return f"({places})?ha=true&exactlyOnce=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200&{noticed}"

    @property
    def active(self) -> Member | None:
        """The active broker; None while nobody is, or nobody that can do anything."""
        return next((member for member in self.members if member.active), None)

    def start(self) -> None:
        self.voter.start()
        self.primary.start()
        await_active([self.voter, self.primary])
        self.backup.start()
        await_told({self.backup: IN_SYNC})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.apart = False
        super().__exit__(kind, error, trace)

    # --- what may happen

    def kill(self) -> str:
        active = self.active
        if active is None:
            return ""
        active.kill()
        return f"{active.name} was killed"

    def pause(self) -> str:
        active = self.active
        if active is None:
            return ""
        active.pause()
        return f"{active.name} was paused"

    def cut(self) -> str:
        self.apart = True
        return "the network between the brokers was cut"

    def fill(self) -> str:
        """Raises CommandError where the system cannot do it."""
        active = self.active
        if active is None:
            return ""
        [replica] = [member for member in self.members if member is not active]
        if not replica.running:
            return ""
        replica.fill()
        return f"the disk of {replica.name} is full"

    def restart(self) -> str:
        """Mend everything: what was killed starts, what was paused goes on, disks have room, and the network is whole."""
        self.apart = False
        for member in self.members:
            member.go_on()
            member.make_room()
            member.start()
        return "everything is mended: brokers start, go on and copy"

    def await_active(self) -> None:
        """Wait until a broker of the pair serves clients.  Raises CommandError."""
        deadline = time.monotonic() + START_SECONDS
        while self.active is None:
            if time.monotonic() > deadline:
                told = "\n".join(f"{member.name}: {member.told[-1000:]}" for member in self.members)
                raise CommandError(f"no broker of the pair has become active within {START_SECONDS:g} s\n{told}")
            time.sleep(0.05)

    def _silence_of(self, port: int) -> Callable[[], bool]:
        """Clients, which are of this process, get through always."""
        return never if port in own_ports() else lambda: self.apart
