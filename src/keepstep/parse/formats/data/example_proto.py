# SPDX-License-Identifier: Apache-2.0
"""``tf.train.Example``, read from its bytes without TensorFlow: names, types and numbers of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MOST_FEATURES = 10_000
_KINDS = {1: "bytes", 2: "float32", 3: "int64"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class NotAnExample(ValueError):
    """The record holds something else."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a record. ``values`` are the packed floats (4 bytes each), or the integers' varints."""

    kind: str
    count: int
    values: bytes


def features(data: bytes) -> dict[str, Feature]:
    """The features of a record. Raises :class:`NotAnExample`."""
    found: dict[str, Feature] = {}
    try:
        for number, _, value in fields(memoryview(data)):
            if number != 1 or not isinstance(value, memoryview):
                raise NotAnExample
            for _, _, entry in fields(value):
                name, feature = _entry(entry)
                found[name] = feature
                if len(found) > MOST_FEATURES:
                    raise NotAnExample
    except (IndexError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise NotAnExample(str(error)) from None
    return found


def whole_numbers(feature: Feature) -> list[int]:
    """The values of an int64 feature."""
    found = []
    view, position = memoryview(feature.values), 0
    while position < len(view):
        value, position = varint(view, position)
        found.append(value - (1 << 64) if value >= 1 << 63 else value)
    return found


def _entry(entry: int | memoryview) -> tuple[str, Feature]:
    if not isinstance(entry, memoryview):
        raise NotAnExample
    name, feature = "", Feature("nothing", 0, b"")
    for number, _, value in fields(entry):
        if not isinstance(value, memoryview):
            raise NotAnExample
        if number == 1:
            name = bytes(value).decode("utf-8")
        elif number == 2:
            feature = _feature(value)
    return name, feature


def _feature(data: memoryview) -> Feature:
    feature = Feature("nothing", 0, b"")
    for number, _, value in fields(data):
        if number not in _KINDS or not isinstance(value, memoryview):
            raise NotAnExample
        feature = _values(_KINDS[number], value)
    return feature


def _values(kind: str, data: memoryview) -> Feature:
    count, parts = 0, []
    for _, wire, value in fields(data):
        if kind == "bytes":
            count += 1
        elif isinstance(value, memoryview):  # packed, or one float
            parts.append(bytes(value))
            if kind == "float32":
                count += len(value) // 4
            else:
                count += sum(byte < 0x80 for byte in value)
        elif wire == _VARINT:
            parts.append(_as_varint(value))
            count += 1
    return Feature(kind, count, b"".join(parts))


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field of a message."""
    position, end = 0, len(data)
    while position < end:
        key, position = varint(data, position)
        wire = key & 7
        if wire == _VARINT:
            number, position = varint(data, position)
            yield key >> 3, wire, number
            continue
        if wire == _BYTES:
            length, position = varint(data, position)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise NotAnExample
        if position + length > end:
            raise NotAnExample
        yield key >> 3, wire, data[position : position + length]
        position += length


def varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number, and the place after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise NotAnExample


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
