"""lz4 for pages.  It is imported only where pages are compressed."""

from __future__ import annotations


def compress(content: bytes) -> bytes:
    """An lz4 block without its size."""
    import lz4.block

    return bytes(lz4.block.compress(content, store_size=False))
