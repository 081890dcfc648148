# SPDX-License-Identifier: Apache-2.0
"""Texts without regard to their numbers: lines of a log by the million differ in nothing else. Pure."""

from __future__ import annotations

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_ONES = bytes.maketrans(b"023456789", b"111111111")


def zeros(text: str) -> str:
    """With 0 for every digit."""
    return text.encode("utf-8", "surrogatepass").translate(_ZEROS).decode("utf-8", "surrogatepass")


def numberless(text: str) -> str:
    """With a single 0 for every number, of text in ASCII."""
    between = f"\n{text}\n".encode().translate(_ZEROS).split(b"0")
    return b"0".join(filter(None, between)).decode()


def ones(text: str) -> str:
    """With 1 for every digit."""
    return text.encode("utf-8", "surrogatepass").translate(_ONES).decode("utf-8", "surrogatepass")
