# SPDX-License-Identifier: Apache-2.0
"""Raw tokens in ``.bin``: with Megatron's index beside it, with llm.c's header, or with nothing at all."""

from __future__ import annotations

import os

from keepstep.check.data.inside import open_inside
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.parse.formats.data.token_headers import TokenIndex, header_tokens, read_index
from keepstep.sources.files.unpack import TooMuch

INDEX_HEAD = 34
MOST_SEQUENCES = 1 << 27


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """One file of tokens."""
    looked = UnitRead("tokens")
    dtype, begin = "<u2", 0
    if (index := _index(source)) is not None:
        looked.records = index.documents
        dtype = index.dtype
        looked.fields = [Field("tokens", dtype.lstrip("<"), longest=index.longest)]
        _compare(looked, index.size_bytes, source.size, "its index (.idx)", index.item)
    elif (stated := header_tokens(source.head(1024))) is not None:
        tokens, item = stated
        begin, dtype = 1024, f"<u{item}"
        looked.records = tokens
        looked.fields = [Field("tokens", dtype.lstrip("<"))]
        _compare(looked, begin + tokens * item, source.size, "its header", item)
    elif source.size % 2:
        looked.broken(
            Bad("truncated", "it has an odd number of bytes, so the last token is cut", offset=source.size - 1)
        )
    if asked.values and not len(looked.bad):
        import numpy

        numbers = Numbers(asked)
        source.stream.seek(begin)
        while data := source.stream.read(8 << 20):
            numbers.array("tokens", 0, numpy.frombuffer(data, dtype=dtype), rows=False)
            source.worked(len(data))
        looked.odd = numbers.odd()
    return looked


def _compare(looked: UnitRead, wanted: int, there: int, who: str, item: int) -> None:
    if there < wanted:
        how = f"{there:,} of the {wanted:,} bytes that {who} states are there"
        looked.broken(Bad("truncated", how, offset=there - there % item))
    elif there > wanted:
        looked.broken(Bad("index", f"it has {there - wanted:,} bytes more than {who} states", offset=wanted))


def _index(source: DataSource) -> TokenIndex | None:
    """Megatron's ``NAME.idx`` beside ``NAME.bin``."""
    beside = source.path.removesuffix(".bin") + ".idx"
    if source.remote or not os.path.isfile(beside):
        return None
    with open_inside(beside, source.unit) as stream:
        head = stream.read(INDEX_HEAD)
        sequences = int.from_bytes(head[18:26], "little")
        if 4 * sequences > os.fstat(stream.fileno()).st_size:
            return read_index(head)
        if sequences > MOST_SEQUENCES:
            raise TooMuch(f"its index (.idx) lists {sequences:,} sequences, too many to be read")
        return read_index(head + stream.read(4 * sequences))
