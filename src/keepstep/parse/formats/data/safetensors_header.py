# SPDX-License-Identifier: Apache-2.0
"""The header of a safetensors file: the tensors, and whether their bytes lie side by side and fit the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keepstep.base import foreign_json
from keepstep.parse.formats.data.bad import Bad

LARGEST = 100 << 20
_BITS = {
    **{"F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16},
    **{"I16": 16, "U16": 16, "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4},
    **{"F6_E2M3": 6, "F6_E3M2": 6},
}


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class NotSafetensors(ValueError):
    """The header is damaged."""


def read_tensors(header: bytes) -> list[Tensor]:
    """The tensors, in the order of their bytes. Raises :class:`NotSafetensors`."""
    try:
        found = foreign_json.loads(header.decode("utf-8"))
    except ValueError as error:
        raise NotSafetensors(f"its header is not JSON: {str(error)[:80]}") from None
    if not isinstance(found, dict):
        raise NotSafetensors("its header is not a table")
    tensors = [_tensor(name, each) for name, each in found.items() if name != "__metadata__"]
    return sorted(tensors, key=lambda each: (each.begin, each.end))


def _tensor(name: str, each: Any) -> Tensor:
    try:
        dtype, shape, (begin, end) = str(each["dtype"]), tuple(each["shape"]), each["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise NotSafetensors(f"tensor {name[:60]!r} has no type, shape or place") from None
    numbers = (*shape, begin, end)
    if not all(isinstance(number, int) and 0 <= number < 1 << 60 for number in numbers) or end < begin:
        raise NotSafetensors(f"the shape or the place of tensor {name[:60]!r} is impossible")
    return Tensor(name, dtype, shape, begin, end)


def wrong_places(tensors: list[Tensor], data_begin: int, file_size: int) -> Iterator[Bad]:
    """What does not fit: sizes, gaps, overlaps, and bytes beyond the end of the file."""
    expected = 0
    for number, each in enumerate(tensors):
        part, place = f"(tensor {each.name[:80]})", data_begin + each.begin
        bits = _BITS.get(each.dtype)
        if bits is not None and math.prod(each.shape) * bits != (each.end - each.begin) * 8:
            how = f"its shape {list(each.shape)} of {each.dtype} does not fit {each.end - each.begin:,} bytes"
            yield Bad("corrupt", how, number, place, part=part)
        if each.begin != expected:
            yield Bad("corrupt", "its bytes overlap those before it, or leave a gap", number, place, part=part)
        expected = max(expected, each.end)
        if data_begin + each.end > file_size:
            missing = data_begin + each.end - max(file_size, place)
            yield Bad("truncated", f"{missing:,} bytes of it are missing", number, place, part=part)
    if data_begin + expected < file_size:
        how = f"{file_size - data_begin - expected:,} bytes follow the last tensor"
        yield Bad("corrupt", how, offset=data_begin + expected)
