"""Versions of TLS and cipher suites by their Java names."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.tls.policy import TlsPolicy, openssl_name, tls_policy

OLD = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
NEW = "TLS_AES_256_GCM_SHA384"


class VersionTests(SynchronousTestCase):
    def test_nothing_said_leaves_the_choice_to_the_library(self) -> None:
        self.assertEqual(tls_policy("", " , "), TlsPolicy())

    def test_versions_are_a_range(self) -> None:
        policy = tls_policy("TLSv1.3, TLSv1.2", "")
        self.assertEqual((policy.oldest, policy.newest), ("TLSv1.2", "TLSv1.3"))

    def test_a_version_between_others_cannot_be_left_out(self) -> None:
        self.assertIn("cannot be left out", str(self.assertRaises(ValueError, tls_policy, "TLSv1.1,TLSv1.3", "")))

    def test_a_version_that_nobody_knows_is_answered_with_the_nearest(self) -> None:
        self.assertIn("did you mean TLSv1.2?", str(self.assertRaises(ValueError, tls_policy, "TLSv12", "")))


class SuiteTests(SynchronousTestCase):
    def test_a_version_without_an_enabled_suite_is_not_used(self) -> None:
        old, new = tls_policy("", OLD), tls_policy("", NEW)
        self.assertEqual((old.newest, old.suites, old.suites_13), ("TLSv1.2", ("ECDHE-RSA-AES256-GCM-SHA384",), ()))
        self.assertEqual((new.oldest, new.suites, new.suites_13), ("TLSv1.3", (), (NEW,)))

    def test_versions_and_suites_that_exclude_each_other_are_refused(self) -> None:
        self.assertIn("none of them belongs", str(self.assertRaises(ValueError, tls_policy, "TLSv1.3", OLD)))
        self.assertIn("none of them belongs", str(self.assertRaises(ValueError, tls_policy, "TLSv1.2", NEW)))

    def test_a_suite_that_nobody_knows_is_refused(self) -> None:
        self.assertIn("enabledCipherSuites: TLS_X is not known", str(self.assertRaises(ValueError, tls_policy, "", "TLS_X")))

    def test_java_names_become_those_of_openssl(self) -> None:
        for java, openssl in {
            "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
            "SSL_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
            "AES128-SHA": "AES128-SHA",
        }.items():
            self.assertEqual(openssl_name(java), openssl)
