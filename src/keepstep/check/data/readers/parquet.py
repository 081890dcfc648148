# SPDX-License-Identifier: Apache-2.0
"""Parquet: footer, then every column chunk decoded by pyarrow, with page checksums where the writer made them."""

from __future__ import annotations

import contextlib
from typing import Any

from keepstep.base.wording import shorten
from keepstep.check.data.readers.longest import Longest
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import TooMuch

ROWS = 64 << 10
"""Rows decoded at once: what a column chunk of any size needs in memory."""


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """Every column of every row group."""
    looked = UnitRead("parquet")
    arrow = without_pickles()
    import pyarrow.parquet as parquet

    if source.head(4) == b"PARE" or source.tail(4) == b"PARE":
        looked.unread = "it is encrypted"
        return looked
    if source.tail(4) != b"PAR1":
        return looked.broken(Bad("truncated", "the footer is missing: the file does not end with PAR1"))
    try:
        opened = parquet.ParquetFile(source.place(), page_checksum_verification=True, memory_map=False)
        about = opened.metadata
        looked.records = about.num_rows
        looked.fields = [Field(each.name, str(each.type)) for each in opened.schema_arrow]
    except (arrow.ArrowException, OSError, ValueError) as error:
        length = int.from_bytes(source.tail(8)[:4], "little")
        return looked.broken(
            Bad("corrupt", f"the footer cannot be read: {_said(error)}", offset=source.size - 8 - length)
        )
    if about.num_rows == 0:
        return looked.broken(Bad("empty", "it has no rows"))
    numbers = Numbers(asked)
    before = 0
    columns = _Columns(opened, source)
    try:
        for group in range(about.num_row_groups):
            columns.read(arrow, looked, about.row_group(group), group, before, numbers if asked.values else None)
            before += about.row_group(group).num_rows
    except TooMuch as error:
        looked.unread = str(error)
        return looked
    if before != about.num_rows:
        looked.broken(Bad("corrupt", f"the footer counts {about.num_rows:,} rows, its row groups {before:,}"))
    looked.odd, looked.labels = numbers.odd(), numbers.labels(looked.records)
    looked.fields = columns.longest.told(looked.fields)
    looked.protected = _is_protected(source, about)
    return looked


def without_pickles() -> Any:
    """pyarrow, without the type that a file may give as a pickle. From 14.0.1 on it is not opened anyway."""
    import pyarrow

    with contextlib.suppress(pyarrow.ArrowException):  # there is none
        pyarrow.unregister_extension_type("arrow.py_extension_type")
    return pyarrow


class _Columns:
    """The columns of an open file; ``before`` is the number of rows in earlier row groups."""

    def __init__(self, opened: Any, source: DataSource) -> None:
        self._opened, self._source = opened, source
        self.longest = Longest()

    def read(self, arrow: Any, looked: UnitRead, rows: Any, group: int, before: int, numbers: Numbers | None) -> None:
        """One row group: all columns together, which is faster; one by one only to name the bad ones."""
        bad = (arrow.ArrowException, OSError, ValueError, RuntimeError)
        try:
            self._decode(group, None, before, numbers, rows.num_rows)
        except bad:
            for column in range(rows.num_columns):
                chunk = rows.column(column)
                try:
                    self._decode(group, [chunk.path_in_schema], before, None, rows.num_rows)
                except bad as error:
                    looked.broken(_bad(chunk, group, before, error))

    def _decode(self, group: int, names: list[str] | None, before: int, numbers: Numbers | None, wanted: int) -> None:
        """Decode some columns of one row group, or all. Raises whatever pyarrow does, or :class:`TooMuch`."""
        done = 0
        for batch in self._opened.iter_batches(batch_size=ROWS, row_groups=[group], columns=names, use_threads=False):
            batch.validate(full=True)
            self._source.worked()
            self._source.decoded(batch.nbytes)
            for field, column in zip(batch.schema, batch.columns, strict=True):
                self.longest.column(field.name, column)
                if numbers is not None:
                    arrow_values(numbers, field.name, before + done, column)
            done += batch.num_rows
        if done != wanted:
            raise ValueError(f"it has {done:,} rows instead of {wanted:,}")


def arrow_values(numbers: Numbers, name: str, record: int, column: Any) -> None:
    """The values of an Arrow array, where they are numbers; nulls are not values."""
    import pyarrow.types as types

    kind = column.type
    if types.is_dictionary(kind):
        return
    if types.is_floating(kind) or types.is_integer(kind):
        numbers.array(name, record, column.drop_null().to_numpy(zero_copy_only=False), rows=not column.null_count)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = column.flatten()
        if types.is_floating(inner.type) or types.is_integer(inner.type):
            numbers.array(name, record, inner.drop_null().to_numpy(zero_copy_only=False), rows=False)


def _bad(chunk: Any, group: int, before: int, error: Exception) -> Bad:
    begin = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    return Bad(
        "corrupt",
        f"cannot be decoded: {_said(error)}",
        record=before,
        offset=begin,
        length=chunk.total_compressed_size,
        part=f"(row group {group}, column {chunk.path_in_schema})",
    )


def _said(error: Exception) -> str:
    return shorten(str(error), 120)


def _is_protected(source: DataSource, about: Any) -> bool:
    """Whether the first page states a CRC: field 4 of its header, in Thrift's compact form."""
    if about.num_row_groups == 0 or about.num_columns == 0:
        return False
    chunk = about.row_group(0).column(0)
    begin = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    source.stream.seek(begin)
    return _has_crc(source.stream.read(64))


def _has_crc(header: bytes) -> bool:
    """Fields 1 to 3 are numbers; each is a byte (type, step) and a varint. Then comes field 4, if there is one."""
    field, place = 0, 0
    while place < len(header):
        step, kind = header[place] >> 4, header[place] & 15
        field += step
        if kind != 5 or step == 0:
            return False
        if field == 4:
            return True
        place += 1
        while place < len(header) and header[place] & 0x80:
            place += 1
        place += 1
    return False
