# SPDX-License-Identifier: Apache-2.0
"""The structure of images without decoding them: a PNG's chunks with their CRCs, a JPEG's segments and its end."""

from __future__ import annotations

import zlib

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_ALONE = {0x01, *range(0xD0, 0xD9)}
"""JPEG markers without a length."""


def wrong_with_image(data: bytes) -> tuple[str, str] | None:
    """``corrupt`` or ``truncated`` with the reason; None if nothing is wrong, or the format is another one."""
    if data.startswith(_PNG):
        return _png(data)
    if data.startswith(_JPEG):
        return _jpeg(data)
    if data.startswith((b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")):
        return None
    return "corrupt", "it does not begin like an image"


def _png(data: bytes) -> tuple[str, str] | None:
    place = 8
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        end = place + 12 + length
        if end > len(data):
            return "truncated", f"it ends inside a chunk that begins at byte {place:,}"
        name = data[place + 4 : place + 8]
        if zlib.crc32(data[place + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            return "corrupt", f"chunk {name.decode('latin-1')!r} at byte {place:,} is wrong (CRC)"
        if name == b"IEND":
            return None
        place = end
    return "truncated", "its last chunk is missing"


def _jpeg(data: bytes) -> tuple[str, str] | None:
    """Segment after segment to the first scan; then the end mark has to come, if only after other bytes."""
    place = 2
    while place + 4 <= len(data):
        if data[place] != 0xFF:
            return "corrupt", f"no segment begins at byte {place:,}"
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
            continue
        if marker in _ALONE:
            place += 2
            continue
        if marker == 0xD9:
            return "truncated", "it ends before its first scan"
        if marker == 0xDA:
            return None if data.rfind(b"\xff\xd9", place) >= 0 else ("truncated", "its end mark is missing")
        length = int.from_bytes(data[place + 2 : place + 4], "big")
        if length < 2:
            return "corrupt", f"the segment at byte {place:,} is damaged"
        place += 2 + length
    return "truncated", "it ends inside its header"
