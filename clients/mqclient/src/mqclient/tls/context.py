"""TLS with Python's ``ssl`` module, for the shells of asyncio and of plain sockets."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Iterator

from mqclient.tls.policy import TlsPolicy
from mqclient.tls.tls import TlsSettings


def ssl_context(settings: TlsSettings) -> ssl.SSLContext:
    """The TLS context that ``settings`` describe."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verify_host and not settings.trust_all
    if settings.trust_all:
        context.verify_mode = ssl.CERT_NONE
    elif settings.trusted:
        context.load_verify_locations(cadata=b"".join(settings.trusted).decode("ascii"))
    else:
        context.load_default_certs()
    # The ssl module reads keys and revocations from files only.
    if settings.private_key is not None:
        with _file(settings.private_key + b"".join(settings.certificates)) as path:
            context.load_cert_chain(path)
    if settings.revoked and not settings.trust_all:
        with _file(b"".join(settings.revoked)) as path:
            context.load_verify_locations(path)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
    _apply_policy(context, settings.policy)
    return context


def _apply_policy(context: ssl.SSLContext, policy: TlsPolicy) -> None:
    newest = policy.newest
    if policy.suites_13:
        usual = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.3"}
        if not usual <= set(policy.suites_13):
            # The ssl module cannot choose among the suites of TLS 1.3.
            if not policy.suites:
                raise ValueError(
                    f"enabledCipherSuites: with Python's ssl module the suites of TLS 1.3 can be chosen together only: {sorted(usual)}"
                )
            newest = "TLSv1.2"
    if policy.suites:
        context.set_ciphers(":".join(policy.suites))
    if policy.oldest is not None:
        context.minimum_version = _TLS_VERSIONS[policy.oldest]
    if newest is not None:
        context.maximum_version = _TLS_VERSIONS[newest]


_TLS_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """The name of a file with ``content`` that only this process's user can read."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(content)
        file.flush()
        yield file.name
