# SPDX-License-Identifier: Apache-2.0
"""Parquet: footer, then every column chunk decoded by pyarrow, with page checksums where the writer made them."""

from __future__ import annotations

from typing import Any

from keepstep.check.data.numbers import Numbers
from keepstep.check.data.source import Source
from keepstep.check.data.units import Asked, Field, Looked
from keepstep.core.wording import shorten
from keepstep.parse.formats.data.bad import Bad

ROWS = 64 << 10
"""Rows decoded at once: what a column chunk of any size needs in memory."""


def read(source: Source, asked: Asked) -> Looked:
    """Every column of every row group."""
    looked = Looked("parquet")
    import pyarrow as arrow
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
        size = int.from_bytes(source.tail(8)[:4], "little")
        return looked.broken(
            Bad("corrupt", f"the footer cannot be read: {_said(error)}", offset=source.size - 8 - size)
        )
    if about.num_rows == 0:
        return looked.broken(Bad("empty", "it has no rows"))
    numbers = Numbers(asked)
    before = 0
    for group in range(about.num_row_groups):
        rows = about.row_group(group)
        if _is_good(arrow, opened, group, before, numbers if asked.values else None, rows.num_rows):
            before += rows.num_rows
            source.worked()
            continue
        for column in range(rows.num_columns):
            chunk = rows.column(column)
            try:
                _decode(opened, group, [chunk.path_in_schema], before, None, rows.num_rows)
            except (arrow.ArrowException, OSError, ValueError, RuntimeError) as error:
                looked.broken(_bad(chunk, group, before, error))
            source.worked()
        before += rows.num_rows
    if before != about.num_rows:
        looked.broken(Bad("corrupt", f"the footer counts {about.num_rows:,} rows, its row groups {before:,}"))
    looked.odd, looked.labels = numbers.odd(), numbers.labels(looked.records)
    looked.protected = _is_protected(source, about)
    return looked


def _is_good(arrow: Any, opened: Any, group: int, before: int, numbers: Numbers | None, wanted: int) -> bool:
    """Whether all columns of a row group can be decoded together, which is faster than one by one."""
    try:
        _decode(opened, group, None, before, numbers, wanted)
    except (arrow.ArrowException, OSError, ValueError, RuntimeError):
        return False
    return True


def _decode(
    opened: Any, group: int, names: list[str] | None, before: int, numbers: Numbers | None, wanted: int
) -> None:
    """Decode some columns of one row group, or all. Raises whatever pyarrow does."""
    done = 0
    batches = opened.iter_batches(batch_size=ROWS, row_groups=[group], columns=names, use_threads=False)
    for batch in batches:
        batch.validate(full=True)
        if numbers is not None:
            for field, column in zip(batch.schema, batch.columns, strict=True):
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


def _is_protected(source: Source, about: Any) -> bool:
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
