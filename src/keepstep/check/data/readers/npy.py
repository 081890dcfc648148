# SPDX-License-Identifier: Apache-2.0
"""``.npy``: the header, and whether the file has as many bytes as the header says. The values have no checksum."""

from __future__ import annotations

import contextlib

from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.parse.formats.data.npy_header import NotNpy, NpyHeader, read_header


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """One array."""
    looked = UnitRead("npy")
    try:
        header = read_header(source.head(1 << 17))
    except NotNpy as error:
        return looked.broken(Bad("corrupt", str(error), offset=0))
    looked.records = header.shape[0] if header.shape else 1
    looked.fields = [field_of("values", header)]
    if header.size_bytes is None:
        looked.unread = "it holds pickled objects, which are not opened"
        return looked
    wanted = header.length + header.size_bytes
    row = header.size_bytes // looked.records if looked.records else 0
    if source.size < wanted:
        number = (source.size - header.length) // row if row and source.size > header.length else 0
        how = f"{source.size:,} of its {wanted:,} bytes are there"
        looked.broken(Bad("truncated", how, record=number, offset=header.length + number * row))
    elif source.size > wanted:
        looked.broken(Bad("corrupt", f"{source.size - wanted:,} bytes follow the array", offset=wanted))
    elif not header.values:
        looked.broken(Bad("empty", f"its shape is {_shape(header.shape)}"))
    if asked.values and not len(looked.bad):
        _values(source, header, asked, looked)
    return looked


def field_of(name: str, header: NpyHeader) -> Field:
    """Type and shape, without the first axis, which counts records."""
    return Field(name, header.dtype.lstrip("|<="), _shape(header.shape[1:]))


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _values(source: DataSource, header: NpyHeader, asked: ReadRequest, looked: UnitRead) -> None:
    """All values, in pieces of whole rows."""
    import numpy

    numbers = Numbers(asked)
    with contextlib.suppress(TypeError):  # a structured type
        dtype = numpy.dtype(header.dtype)
        per_row = header.values // looked.records if looked.records else 0
        step = max(1, (8 << 20) // max(1, per_row * dtype.itemsize))
        source.stream.seek(header.length)
        for begin in range(0, 0 if header.fortran else looked.records or 0, step):
            rows = min(step, (looked.records or 0) - begin)
            data = source.stream.read(rows * per_row * dtype.itemsize)
            numbers.array("values", begin, numpy.frombuffer(data, dtype=dtype).reshape(rows, per_row))
            source.worked(len(data))
        if header.fortran:
            _any_order(source, numbers, dtype)
    looked.odd = numbers.odd()


def _any_order(source: DataSource, numbers: Numbers, dtype: object) -> None:
    """Column by column: values are looked at, but their rows are not known."""
    import numpy

    while data := source.stream.read((8 << 20) // numpy.dtype(dtype).itemsize * numpy.dtype(dtype).itemsize):  # type: ignore[call-overload]
        numbers.array("values", 0, numpy.frombuffer(data, dtype=dtype), rows=False)  # type: ignore[call-overload]
