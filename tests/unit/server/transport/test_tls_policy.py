"""Cipher suites by their Java names, and parameters that cannot be used."""

from __future__ import annotations

from OpenSSL.SSL import TLS_METHOD, Connection, Context
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.transport.tls_policy import TlsConfigurationError, openssl_cipher, restrict


class CipherNameTests(SynchronousTestCase):
    def test_java_names(self) -> None:
        for java, name in (
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
            ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
            ("TLS_DHE_RSA_WITH_AES_256_CCM_8", "DHE-RSA-AES256-CCM8"),
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
            ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ):
            self.assertEqual(openssl_cipher(java), name)

    def test_openssl_knows_them(self) -> None:
        context = Context(TLS_METHOD)
        restrict(context, {"enabledCipherSuites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256"})
        ciphers = Connection(context).get_cipher_list()
        self.assertEqual(set(ciphers), {"ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"})


class ParameterTests(SynchronousTestCase):
    def refused(self, **parameters: str) -> str:
        return str(self.assertRaises(TlsConfigurationError, restrict, Context(TLS_METHOD), parameters))

    def test_versions(self) -> None:
        self.assertIn("TLSv1.3", self.refused(enabledProtocols="TLSv1.33"))
        self.assertIn("safe", self.refused(enabledProtocols="SSLv3,TLSv1"))
        restrict(Context(TLS_METHOD), {"enabledProtocols": "TLSv1,TLSv1.2"})

    def test_ciphers(self) -> None:
        self.assertIn("OpenSSL knows none", self.refused(enabledCipherSuites="TLS_NO_SUCH"))
        self.assertIn("enabledProtocols", self.refused(enabledCipherSuites="TLS_AES_128_GCM_SHA256", enabledProtocols="TLSv1.2"))
