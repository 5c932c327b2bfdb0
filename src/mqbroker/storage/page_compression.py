"""lz4 for pages.  It is imported only where pages are compressed, or were."""

from __future__ import annotations

from mqclient.storageformat.frames import StorageFormatError

CONTENT_MAX = 1 << 30
"""Bytes that a compressed record may claim to unpack to."""


def compress(content: bytes) -> bytes:
    """An lz4 block without its size."""
    import lz4.block

    return bytes(lz4.block.compress(content, store_size=False))


def decompress(data: bytes, size: int) -> bytes:
    """What was compressed to ``data``, ``size`` bytes.  Raises :class:`StorageFormatError`."""
    import lz4.block

    if size > CONTENT_MAX:
        raise StorageFormatError(f"compressed content of {size} bytes")
    try:
        content = bytes(lz4.block.decompress(data, uncompressed_size=size))
    except (lz4.block.LZ4BlockError, ValueError, OverflowError, MemoryError) as error:
        raise StorageFormatError(f"compressed content cannot be read: {error}") from error
    if len(content) != size:
        raise StorageFormatError(f"compressed content has {len(content)} bytes instead of {size}")
    return content
