"""Masked and hashed passwords.  The texts here were printed by ``artemis mask`` 2.44.0."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config import masking

MASKED = {
    "secret": "-41e444c3ed07d6dd",
    "bob": "-69b0f82ea52cd8ee",
    "a longer password ü": "7b43caeb9ceedf31540f7e47381c33d92425d46efb0992f6",
}
HASHED = (
    "ENC(1024:49E4753520C97326CB7D078D7908A31C3D77A6F7B57DB0C146FC8722864207DC:"
    "1D5C7D0F7775149C39D6C3AC6A0AB89DE80E7F435CA8A96B4CC08C6E36F3E098F82B0ACFC928E851AC7C6A9E1EB25251969B8C5BB7ADE72BE0E11DF6B46DC3F6)"
)


class MaskingTests(SynchronousTestCase):
    def test_as_artemis_masks(self) -> None:
        for plain, masked in MASKED.items():
            self.assertEqual(masking.encode_masked(plain), masked)
            self.assertEqual(masking.decode_masked(masked), plain)
        self.assertEqual(masking.encode_masked("secret", "fortyTwo"), "-6b1a20b785246e71")

    @given(st.text(max_size=40), st.sampled_from(["clusterpassword", "k" * 56, "a"]))
    def test_every_password_comes_back(self, password: str, key: str) -> None:
        self.assertEqual(masking.decode_masked(masking.encode_masked(password, key), key), password)

    def test_damaged(self) -> None:
        for text in ("", "xyz", "12", MASKED["bob"][:-1]):
            self.assertRaises(masking.MaskingError, masking.decode_masked, text)
        self.assertRaises(masking.MaskingError, masking.decode_masked, MASKED["secret"], "another key")
        for key in ("", "k" * 57):
            self.assertRaises(masking.MaskingError, masking.encode_masked, "x", key)

    def test_wrapping(self) -> None:
        self.assertEqual(masking.unwrap(" ENC(abc) "), "abc")
        self.assertIsNone(masking.unwrap("abc"))
        self.assertIsNone(masking.unwrap("ENC(abc"))
        self.assertEqual(masking.unwrap(masking.wrap("a)")), "a)")

    def test_keys(self) -> None:
        codec = masking.CODEC_CLASS
        found = {masking.KEY_PROPERTY: "p", masking.KEY_VARIABLE: "v"}
        self.assertEqual(masking.codec_key(None, dict[str, str]().get), masking.DEFAULT_KEY)
        self.assertEqual(masking.codec_key(None, found.get), "p")
        self.assertEqual(masking.codec_key(codec, {masking.KEY_VARIABLE: "v"}.get), "v")
        self.assertEqual(masking.codec_key(f"{codec};key=a=b", found.get), "a=b")
        for text in ("other.Codec;key=a", f"{codec};algorithm=one-way"):
            self.assertRaises(masking.MaskingError, masking.codec_key, text, found.get)


class HashingTests(SynchronousTestCase):
    def test_as_artemis_hashes(self) -> None:
        self.assertTrue(masking.verify_password("secret", HASHED))
        self.assertFalse(masking.verify_password("Secret", HASHED))
        salt = bytes.fromhex(HASHED.split(":")[1])
        self.assertEqual(masking.hash_password("secret", salt), HASHED)

    def test_plain(self) -> None:
        self.assertTrue(masking.verify_password("pä", "pä"))
        self.assertFalse(masking.verify_password("", "x"))

    def test_a_masked_password_is_no_hash(self) -> None:
        """The two meanings of ENC(…) are not interchangeable."""
        self.assertRaises(masking.MaskingError, masking.verify_password, "secret", "ENC(-41e444c3ed07d6dd)")

    def test_damaged(self) -> None:
        for stored in ("ENC(1024:zz:00)", "ENC(1024:00)", "ENC(x:00:00)", "ENC(0:00:00)", "ENC(99999999999:00:00)", "ENC(1024::)"):
            with self.subTest(stored=stored):
                self.assertRaises(masking.MaskingError, masking.verify_password, "x", stored)
        self.assertRaises(ValueError, masking.hash_password, "x", b"short")

    @settings(max_examples=20)
    @given(st.text(max_size=20), st.binary(min_size=32, max_size=32))
    def test_every_password_verifies(self, password: str, salt: bytes) -> None:
        self.assertTrue(masking.verify_password(password, masking.hash_password(password, salt)))
