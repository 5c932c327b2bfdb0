"""What the context of a TLS connection allows."""

from __future__ import annotations

from tests.integration.mqclient.tls.test_tls import TlsCase


class ContextTests(TlsCase):
    async def test_client_certificate(self) -> None:
        await self.serve(mutual=True)
        trust = f"trustStorePath={self.trust}"
        self.assertEqual(await self.attempt(f"{trust}&keyStorePath={self.client_store}&keyStorePassword=pw"), ["3 messages"] * 3)
        self.assertEqual(await self.attempt(f"{trust}&keyStorePath={self.client_pem}"), ["3 messages"] * 3)
        self.assertNotIn("3 messages", await self.attempt(trust))

    async def test_protocols_and_suites(self) -> None:
        await self.serve()
        trust = f"trustStorePath={self.trust}&"
        negotiated = []
        for parameters in (
            "enabledProtocols=TLSv1.2",
            "enabledProtocols=TLSv1.2,TLSv1.3",
            "enabledCipherSuites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "enabledCipherSuites=ECDHE-ECDSA-AES128-GCM-SHA256,TLS_AES_128_GCM_SHA256&enabledProtocols=TLSv1.2",
        ):
            self.assertEqual(await self.attempt(trust + parameters), ["3 messages"] * 3, parameters)
            negotiated.append(self.broker.negotiated[-3:])
        self.assertEqual([version for version, _ in negotiated[0]], ["TLSv1.2"] * 3)
        self.assertEqual([version for version, _ in negotiated[1]], ["TLSv1.3"] * 3)
        self.assertEqual(negotiated[2], [("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")] * 3)
        self.assertEqual(negotiated[3], [("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")] * 3)
        for parameters in (
            "enabledProtocols=TLSv1.4",
            "enabledProtocols=TLSv1.1,TLSv1.3",
            "enabledCipherSuites=TLS_NOBODY_KNOWS",
            "enabledCipherSuites=TLS_AES_128_GCM_SHA256&enabledProtocols=TLSv1.2",
        ):
            self.assertEqual(await self.attempt(trust + parameters), ["NotConnectedError"] * 3, parameters)

    async def test_one_suite_of_the_newest_version(self) -> None:
        """Among those only OpenSSL's own interface can choose."""
        await self.serve()
        results = await self.attempt(f"trustStorePath={self.trust}&enabledCipherSuites=TLS_AES_128_GCM_SHA256")
        self.assertEqual(results, ["3 messages", "NotConnectedError", "NotConnectedError"])
        self.assertEqual(self.broker.negotiated, [("TLSv1.3", "TLS_AES_128_GCM_SHA256")])

    async def test_revoked_certificate(self) -> None:
        await self.serve()
        nothing, all_revoked = self.revocations(), self.revocations(self.server_serial)
        for kind in ("", "&verifyHost=false"):
            trust = f"trustStorePath={self.trust}{kind}&crlPath="
            self.assertEqual(await self.attempt(f"{trust}{nothing}"), ["3 messages"] * 3)
            self.assertEqual(await self.attempt(f"{trust}{all_revoked}"), ["NotConnectedError"] * 3)
            self.assertEqual(await self.attempt(f"{trust}{self.trust}"), ["NotConnectedError"] * 3)
