# SPDX-License-Identifier: Apache-2.0
"""The header of a ``.npy`` array: type, order and shape, without numpy and without evaluating anything."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

from keepstep.base.lazy_pattern import lazy_pattern

MAGIC = b"\x93NUMPY"
LONGEST = 1 << 20
MOST_AXES = 64
"""Of numpy."""
_TYPE = lazy_pattern(r"[<>|=]?([?bBiufcSUVOmM])(\d*)(\[.*\])?")
_SIZES = {"?": 1, "b": 1, "B": 1}


class NotNpy(ValueError):
    """The header is damaged."""


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """``length`` is where the data begins; ``item`` the bytes of one value, None for pickled objects."""

    dtype: str
    shape: tuple[int, ...]
    fortran: bool
    length: int
    item: int | None

    @property
    def values(self) -> int:
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int | None:
        return None if self.item is None else self.values * self.item


def read_header(head: bytes) -> NpyHeader:
    """The header, from the first bytes of an array. Raises :class:`NotNpy`."""
    if not head.startswith(MAGIC) or len(head) < 12:
        raise NotNpy("it does not begin like an array")
    version = head[6]
    width = 2 if version == 1 else 4
    length = int.from_bytes(head[8 : 8 + width], "little")
    begin = 8 + width
    if version not in (1, 2, 3) or length > LONGEST:
        raise NotNpy(f"its header (version {version}, {length:,} bytes) is damaged")
    text = head[begin : begin + length]
    if len(text) < length:
        raise NotNpy("it ends inside its header")
    try:
        found = ast.literal_eval(text.decode("utf-8" if version == 3 else "latin-1").strip())
        dtype, shape, fortran = found["descr"], found["shape"], found["fortran_order"]
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError, UnicodeDecodeError):
        raise NotNpy("its header cannot be read") from None
    fits = isinstance(shape, tuple) and len(shape) <= MOST_AXES
    if not fits or not all(isinstance(n, int) and 0 <= n < 1 << 60 for n in shape):
        raise NotNpy("its shape is damaged")
    return NpyHeader(_named(dtype), shape, bool(fortran), begin + length, _item(dtype))


def _named(dtype: object) -> str:
    return dtype if isinstance(dtype, str) else repr(dtype)[:500]


def _item(dtype: object) -> int | None:
    if isinstance(dtype, list):
        sizes = [_field(each) for each in dtype]
        return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
    if not isinstance(dtype, str):
        raise NotNpy("its type is damaged")
    found = _TYPE.fullmatch(dtype)
    if found is None:
        raise NotNpy(f"its type {dtype[:20]!r} is none")
    kind, width = found[1], found[2]
    if kind == "O":
        return None
    size = int(width[:9]) if width else _SIZES.get(kind, 8 if kind in "mM" else 0)
    return size * 4 if kind == "U" else size


def _field(field: object) -> int | None:
    """One field of a structured type: name, type and perhaps a shape."""
    if not isinstance(field, tuple) or len(field) not in (2, 3):
        raise NotNpy("its type is damaged")
    size = _item(field[1])
    shape = field[2] if len(field) == 3 else ()
    if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
        raise NotNpy("its type is damaged")
    return None if size is None else size * math.prod(shape)
