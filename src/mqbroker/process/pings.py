"""Pings by a command of the system, and the addresses of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address

from mqbroker.config.imq.files import GIVEN_PROPERTIES

REASON_SIZE = 300
"""Bytes of the error output that are looked at."""


def ping(words: Sequence[str], seconds: float) -> None:
    """Run a command without a shell, and without the secrets in the environment; for a thread.  Returns when it has ended with status 0.

    Raises OSError with the reason otherwise; after ``seconds`` it is killed, with all that it has started.
    """
    environment = {name: value for name, value in os.environ.items() if name != GIVEN_PROPERTIES}
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        close_fds=True,
    )
    assert process.stderr is not None
    with process.stderr as errors:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise TimeoutError(f"{words[0]} gave no answer within {seconds:g} s") from error
        if status:
            os.set_blocking(errors.fileno(), False)
            text = (errors.read(REASON_SIZE) or b"").decode(errors="replace").strip().partition("\n")[0]
            raise OSError(f"{words[0]} ended with status {status}" + (f": {text}" if text else ""))


def is_own_address(host: str) -> bool:
    """Is this a name or an address of this machine?  Names are compared with that of the machine and never looked up."""
    if host.lower().rstrip(".") in ("localhost", socket.gethostname().lower()):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True
