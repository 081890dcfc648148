# SPDX-License-Identifier: Apache-2.0
"""One header block of a tar, with its checksum. Python's own reader ends silently at a damaged one."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK = 512
ZEROS = bytes(BLOCK)


class NotAHeader(ValueError):
    """The block is damaged."""


@dataclass(frozen=True, slots=True)
class TarHeader:
    name: str
    size: int
    kind: str
    """One letter: ``0`` a file, ``5`` a folder, ``x`` and ``g`` further fields, ``L`` and ``K`` long names."""

    @property
    def padded(self) -> int:
        """The bytes of its content, filled up to whole blocks."""
        return -(-self.size // BLOCK) * BLOCK


def read_header(block: bytes) -> TarHeader:
    """The header in a block. Raises :class:`NotAHeader`."""
    stated = _number(block[148:156])
    counted = sum(block) - sum(block[148:156]) + 8 * 32
    signed = counted - 256 * sum(byte > 127 for byte in block[:148] + block[156:])
    if stated not in (counted, signed):
        raise NotAHeader("its header is wrong (checksum)")
    size = _number(block[124:136])
    if size < 0:
        raise NotAHeader("its size is negative")
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345] and block[156:157] not in (b"L", b"K"):
        name = f"{_text(block[345:500])}/{name}"
    kind = block[156:157].decode("latin-1").replace("\0", "0")
    return TarHeader(name, size if kind not in "12346" or kind == "" else 0, kind)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def _number(field: bytes) -> int:
    """Octal digits, or, for large files, a number in base 256."""
    if field[:1] and field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] != 0xFF else -1
    digits = field.partition(b"\0")[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise NotAHeader("a number in its header is damaged") from None


def pax_fields(content: bytes) -> dict[str, str]:
    """``length key=value`` lines."""
    found = {}
    place = 0
    while place < len(content):
        length, _, _ = content[place : place + 20].partition(b" ")
        if not length.isdigit() or not 3 < int(length) <= len(content) - place:  # bytes
            break
        line = content[place + len(length) + 1 : place + int(length)]
        key, _, value = line.rstrip(b"\n").partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        place += int(length)
    return found
