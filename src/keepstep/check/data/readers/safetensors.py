# SPDX-License-Identifier: Apache-2.0
"""safetensors: the header, and whether each tensor's bytes are where it says. The values have no checksum."""

from __future__ import annotations

from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.parse.formats.data.safetensors_header import LARGEST, NotSafetensors, Tensor, read_tensors, wrong_places

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "U8": "u1", "I8": "i1"}


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """All tensors."""
    looked = UnitRead("safetensors")
    length = int.from_bytes(source.head(8), "little")
    if source.size < 8 or length > LARGEST or length < 2:
        return looked.broken(Bad("corrupt", f"its header's length, {length:,}, is impossible", offset=0))
    if 8 + length > source.size:
        return looked.broken(Bad("truncated", "it ends inside its header", offset=8))
    source.stream.seek(8)
    try:
        tensors = read_tensors(source.stream.read(length))
    except NotSafetensors as error:
        return looked.broken(Bad("corrupt", str(error), offset=8))
    looked.records = len(tensors)
    looked.fields = [Field(each.name, each.dtype, str(list(each.shape[1:]))) for each in tensors[:1000]]
    for bad in wrong_places(tensors, 8 + length, source.size):
        looked.broken(bad)
    if not tensors:
        looked.broken(Bad("empty", "it has no tensors"))
    if asked.values and not len(looked.bad):
        _values(source, tensors, 8 + length, asked, looked)
    return looked


def _values(source: DataSource, tensors: list[Tensor], begin: int, asked: ReadRequest, looked: UnitRead) -> None:
    import numpy

    numbers = Numbers(asked)
    for number, each in enumerate(tensors):
        if each.dtype not in _NUMPY:
            continue
        source.stream.seek(begin + each.begin)
        left = each.end - each.begin
        while left:
            data = source.stream.read(min(left, 8 << 20))
            left -= len(data)
            numbers.array(each.name, number, numpy.frombuffer(data, dtype=_NUMPY[each.dtype]), rows=False)
            source.worked(len(data))
    looked.odd = numbers.odd()
