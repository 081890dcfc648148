# SPDX-License-Identifier: Apache-2.0
"""How many tokens a raw file should hold: Megatron's index, and the header that llm.c and its kin write."""

from __future__ import annotations

import array
import sys
from dataclasses import dataclass

_MEGATRON = b"MMIDIDX\x00\x00"
_DTYPES = {1: ("<u1", 1), 2: ("<i1", 1), 3: ("<i2", 2), 4: ("<i4", 4), 5: ("<i8", 8), 6: ("<f8", 8), 7: ("<f4", 4)}
_UNSIGNED = {8: ("<u2", 2)}
_LLM_C = {20240520: 2, 20240801: 4}
"""Magic numbers of 256-word headers: GPT-2's tokens are 16 bits wide, Llama 3's 32."""


@dataclass(frozen=True, slots=True)
class TokenIndex:
    documents: int
    dtype: str
    item: int
    size_bytes: int
    """Of the file that it describes."""
    longest: int = 0
    """Tokens of the longest sequence."""


def read_index(data: bytes) -> TokenIndex | None:
    """Megatron's index: version, type, number of sequences and of documents, then the length of each sequence."""
    if not data.startswith(_MEGATRON) or len(data) < 34:
        return None
    dtype, item = (_DTYPES | _UNSIGNED).get(data[17], ("", 0))
    sequences, documents = int.from_bytes(data[18:26], "little"), int.from_bytes(data[26:34], "little")
    lengths = data[34 : 34 + 4 * sequences]
    if not item or len(lengths) < 4 * sequences:
        return None
    numbers = array.array("i", lengths)
    if sys.byteorder == "big":
        numbers.byteswap()
    return TokenIndex(max(0, documents - 1), dtype, item, sum(numbers) * item, max(numbers, default=0))


def header_tokens(head: bytes) -> tuple[int, int] | None:
    """How many tokens the header states, and their width in bytes; None where there is no such header."""
    if len(head) < 1024:
        return None
    item = _LLM_C.get(int.from_bytes(head[:4], "little"))
    if item is None:
        return None
    version = int.from_bytes(head[4:8], "little")
    return int.from_bytes(head[8:12], "little"), 4 if version == 7 else item
