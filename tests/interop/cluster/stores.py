"""Key and trust store for links over TLS, in the form that Java reads."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from tests.interop.instance import STORE_PASSWORD


@dataclass(frozen=True)
class Stores:
    """``keys`` holds the certificate that every broker shows, ``trusted`` the authority that vouches for it; both PKCS #12."""

    keys: Path
    trusted: Path

    @property
    def parameters(self) -> str:
        """Of a connector or acceptor, for its URI."""
        parameters = []
        for kind, path in (("key", self.keys), ("trust", self.trusted)):
            parameters += [f"{kind}StorePath={path}", f"{kind}StoreType=PKCS12", f"{kind}StorePassword={STORE_PASSWORD}"]
        return ";".join(["sslEnabled=true", *parameters])


def make_stores(folder: Path) -> Stores:
    """A new authority and one certificate of it, in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    stores = Stores(folder / "keys.p12", folder / "trusted.p12")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    issued = authority.issue_cert("127.0.0.1", "localhost")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    certificate = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    protection = BestAvailableEncryption(STORE_PASSWORD.encode())
    stores.keys.write_bytes(serialize_key_and_certificates(b"broker", key, certificate, None, protection))
    # Java trusts only entries that it marked as trusted when it wrote them.
    command = ["keytool", "-importcert", "-noprompt", "-alias", "authority", "-file", str(folder / "authority.pem")]
    command += ["-keystore", str(stores.trusted), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    return stores
