# SPDX-License-Identifier: Apache-2.0
"""The training data on disk: points of ten classes, the label is the largest of the first ten coordinates.

TensorFlow's jobs read TFRecord files, the others NumPy archives; one shard per rank.
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import Any

ROWS = 512
WIDTH = 32


def write(framework: str, folder: Path, shards: int) -> list[Path]:
    """Write ``shards`` files for ``framework`` and return their paths."""
    paths = [path_of(framework, folder, shard) for shard in range(shards)]
    for shard, path in enumerate(paths):
        put(path, *points(shard))
    return paths


def path_of(framework: str, folder: Path, shard: int) -> Path:
    """Where a shard is."""
    return folder / f"points-{shard:02d}.{'tfrecord' if framework == 'tensorflow' else 'npz'}"


def points(shard: int) -> tuple[Any, Any]:
    """The inputs and labels of a shard; the same every time."""
    import numpy as np

    inputs = np.random.default_rng(shard).normal(size=(ROWS, WIDTH)).astype("float32")
    return inputs, inputs[:, :10].argmax(1)


def put(path: Path, inputs: Any, labels: Any) -> None:
    """Write one shard, in the format that its name tells."""
    import numpy as np

    if path.suffix == ".tfrecord":
        examples = zip(inputs, labels, strict=True)
        path.write_bytes(b"".join(record(example(x.astype("<f4").tobytes(), int(y))) for x, y in examples))
    else:
        np.savez(path, x=inputs, y=labels)


def record(payload: bytes) -> bytes:
    """One record of a TFRecord file: length, its checksum, the payload, its checksum."""
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + struct.pack("<I", masked_crc(payload))


def example(floats: bytes, label: int) -> bytes:
    """A ``tf.train.Example`` with the packed floats ``x`` and the integer ``y``, in protobuf's wire format."""
    x = _field(b"\x0a", b"x") + _field(b"\x12", _field(b"\x12", _field(b"\x0a", floats)))
    y = _field(b"\x0a", b"y") + _field(b"\x12", _field(b"\x1a", _field(b"\x0a", bytes([label]))))
    return _field(b"\x0a", _field(b"\x0a", x) + _field(b"\x0a", y))


def _field(tag: bytes, content: bytes) -> bytes:
    length, size = len(content), b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return tag + size + bytes([length]) + content


def masked_crc(content: bytes) -> int:
    """CRC-32C, rotated and offset as TFRecord files have it."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)
