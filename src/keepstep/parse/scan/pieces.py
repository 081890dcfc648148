# SPDX-License-Identifier: Apache-2.0
"""A stream of bytes in pieces of one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def pieces(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of one size; chunks of just that size are passed on as they are."""
    rest = b""
    for chunk in chunks:
        if rest:
            chunk = rest + chunk
        whole = len(chunk) - len(chunk) % size
        if whole == len(chunk) == size:
            yield chunk
        else:
            for start in range(0, whole, size):
                yield chunk[start : start + size]
        rest = chunk[whole:]
    if rest:
        yield rest


def with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each with whether it is the last one; one empty piece where there is none."""
    previous: bytes | None = None
    for chunk in chunks:
        if previous is not None:
            yield previous, False
        previous = chunk
    yield previous or b"", True
