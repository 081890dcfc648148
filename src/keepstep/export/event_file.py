# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's event file, written without TensorFlow: framed records, each a small protobuf message."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from keepstep.parse.formats.data.tfrecord import masked

_POLYNOMIAL = 0x82F63B78


class Scalar(NamedTuple):
    """One value of one curve."""

    tag: str
    at: float
    """Seconds since the epoch."""
    step: int
    value: float


def event_file(began: float, scalars: Iterable[Scalar]) -> Iterator[bytes]:
    """The file, record by record."""
    yield _record(_double(1, began) + _bytes(3, b"brain.Event:2"))
    for each in scalars:
        value = _bytes(1, each.tag.encode()) + bytes([2 << 3 | 5]) + struct.pack("<f", each.value)
        yield _record(_double(1, each.at) + _number(2, each.step) + _bytes(5, _bytes(1, value)))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _crc(length) + data + _crc(data)


def _crc(data: bytes) -> bytes:
    value, table = 0xFFFFFFFF, _table()
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return struct.pack("<I", masked(value ^ 0xFFFFFFFF))


@cache
def _table() -> tuple[int, ...]:
    """CRC-32C, byte by byte."""
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return tuple(found)


def _double(field: int, value: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
