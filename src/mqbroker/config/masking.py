"""Masked and hashed passwords.

``ENC(…)`` in broker.xml is a password that can be read back: Blowfish with a key that the operator may choose.  ``ENC(1024:…:…)`` in a
users file is a hash that cannot: PBKDF2.  The two are not interchangeable (Artemis manual, chapter on masking passwords).

Every function here computes for some milliseconds; hashing is slow on purpose.  Off the start-up path, call them in a thread.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

DEFAULT_KEY = "clusterpassword"
CODEC_CLASS = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec"
KEY_PROPERTY = "artemis.default.sensitive.string.codec.key"
KEY_VARIABLE = "ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY"

ITERATIONS = 1024
ITERATIONS_MAX = 10_000_000
"""Rounds of a password hash: a users file must not be able to stop the broker."""

SALT_SIZE = 32  # bytes
HASH_SIZE = 64  # bytes

_BLOCK = 8  # bytes of a Blowfish block


class MaskingError(ValueError):
    """A masked text that cannot be read."""


def unwrap(text: str) -> str | None:
    """The text between ``ENC(`` and ``)``; None when ``text`` is not masked."""
    stripped = text.strip()
    return stripped[4:-1] if stripped.startswith("ENC(") and stripped.endswith(")") else None


def wrap(masked: str) -> str:
    """``masked`` as it is written into a file."""
    return f"ENC({masked})"


def encode_masked(text: str, key: str = DEFAULT_KEY) -> str:
    """Mask ``text``: the cipher bytes as one signed number in hexadecimal, as ``artemis mask`` prints it."""
    data = text.encode()
    padding = _BLOCK - len(data) % _BLOCK
    encrypted = _blowfish(key, data + bytes([padding]) * padding, encrypt=True)
    return format(int.from_bytes(encrypted, "big", signed=True), "x")


def decode_masked(text: str, key: str = DEFAULT_KEY) -> str:
    """The password that :func:`encode_masked` or ``artemis mask`` masked.  Raises :class:`MaskingError`."""
    try:
        number = int(text, 16)
    except ValueError:
        raise MaskingError("a masked password holds only hexadecimal digits") from None
    size = _BLOCK
    while not -(1 << (8 * size - 1)) <= number < 1 << (8 * size - 1):
        size += _BLOCK
    decrypted = _blowfish(key, number.to_bytes(size, "big", signed=True), encrypt=False)
    padding = decrypted[-1]
    if not 1 <= padding <= _BLOCK or decrypted[-padding:] != bytes([padding]) * padding:
        raise MaskingError("the masked password does not fit the key: was it masked with another one?")
    try:
        return decrypted[:-padding].decode()
    except UnicodeDecodeError:
        raise MaskingError("the masked password does not fit the key: was it masked with another one?") from None


def codec_key(password_codec: str | None, find: Callable[[str], str | None]) -> str:
    """The key by the text of ``password-codec`` (``class[;key=…]``), else by the property or the variable for it.

    ``find`` looks up a property or an environment variable.  Raises :class:`MaskingError` for another codec class.
    """
    if password_codec:
        name, *options = (part.strip() for part in password_codec.split(";"))
        if name and name != CODEC_CLASS:
            raise MaskingError(f"the codec {name} is a Java class and cannot be loaded: expected {CODEC_CLASS}")
        for option in options:
            key, _, value = option.partition("=")
            if key.strip() == "key" and value:
                return value
            if key.strip() == "algorithm" and value.strip() == "one-way":
                raise MaskingError("a one-way codec cannot give back the passwords of this file: expected algorithm=two-way")
    return find(KEY_PROPERTY) or find(KEY_VARIABLE) or DEFAULT_KEY


def hash_password(password: str, salt: bytes) -> str:
    """The text for a users file; ``salt`` is 32 random bytes."""
    if len(salt) != SALT_SIZE:
        raise ValueError(f"the salt has {len(salt)} bytes: expected {SALT_SIZE}")
    digest = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, ITERATIONS, HASH_SIZE)
    return wrap(f"{ITERATIONS}:{salt.hex().upper()}:{digest.hex().upper()}")


def verify_password(password: str, stored: str) -> bool:
    """Is ``password`` the password that a users file has ``stored``, hashed or plain?  Raises :class:`MaskingError` for a damaged hash."""
    hashed = unwrap(stored)
    if hashed is None:
        return hmac.compare_digest(password.encode(), stored.encode())
    try:
        iterations_text, salt_text, digest_text = hashed.split(":")
        iterations, salt, digest = int(iterations_text), bytes.fromhex(salt_text), bytes.fromhex(digest_text)
    except ValueError:
        raise MaskingError("expected ENC(iterations:salt:hash), as 'mqbroker mask --hash' writes it") from None
    if not 0 < iterations <= ITERATIONS_MAX or not salt or not digest:
        raise MaskingError(f"expected 1 to {ITERATIONS_MAX} iterations, a salt and a hash")
    return hmac.compare_digest(hashlib.pbkdf2_hmac("sha1", password.encode(), salt, iterations, len(digest)), digest)


def _blowfish(key: str, data: bytes, encrypt: bool) -> bytes:
    from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish  # only brokers with masked passwords pay for the import
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    try:
        secret = key.encode()
        # Blowfish repeats its key, so a short one repeated is the same key, in a length that the library takes.
        cipher = Cipher(Blowfish(secret * 4 if 0 < len(secret) < 4 else secret), modes.ECB())
    except ValueError:
        raise MaskingError("the key for masked passwords must have 1 to 56 bytes") from None
    context = cipher.encryptor() if encrypt else cipher.decryptor()
    return context.update(data) + context.finalize()
