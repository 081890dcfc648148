# SPDX-License-Identifier: Apache-2.0
"""Arrow files and streams (Feather): message by message, each with the byte it begins at, checked by pyarrow."""

from __future__ import annotations

from typing import Any

from keepstep.base.wording import shorten
from keepstep.check.data.readers.longest import Longest
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.parquet import arrow_values, without_pickles
from keepstep.check.data.readers.source import ALWAYS_VALUES, DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad

MAGIC = b"ARROW1"


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """All record batches."""
    arrow = without_pickles()
    looked = UnitRead("arrow")
    is_file = source.head(8).startswith(MAGIC)
    if source.head(4) == b"FEA1":
        looked.unread = "Feather version 1 is not read; write it anew as version 2"
        return looked
    if is_file and source.tail(6) != MAGIC:
        looked.broken(Bad("truncated", "the footer is missing: the file does not end with ARROW1"))
    try:
        _messages(arrow, source, asked, looked, 8 if is_file else 0)
    except (arrow.ArrowException, OSError, ValueError, EOFError) as error:
        looked.broken(Bad("corrupt", f"cannot be read: {shorten(str(error), 120)}"))
    if is_file and not len(looked.bad):
        _compare_with_footer(arrow, source, looked)
    if looked.records == 0 and not len(looked.bad):
        looked.broken(Bad("empty", "it has no rows"))
    return looked


def _messages(arrow: Any, source: DataSource, asked: ReadRequest, looked: UnitRead, begin: int) -> None:
    """The schema, then batch after batch, until the end mark."""
    ipc = arrow.ipc
    stream = source.stream
    stream.seek(begin)
    head = ipc.read_message(arrow.PythonFile(stream, mode="r"))
    schema = ipc.read_schema(head)
    looked.fields = [Field(each.name, str(each.type)) for each in schema]
    numbers, longest = Numbers(asked), Longest()
    memo = ipc.DictionaryMemo() if hasattr(ipc, "DictionaryMemo") else None
    records = number = 0
    has_dictionaries = any(arrow.types.is_dictionary(each.type) for each in schema)
    while True:
        place = stream.tell()
        message, why = _next(arrow, source, place)
        if why:
            looked.broken(Bad("truncated", why, records, place, part=f"(batch {number})"))
            break
        if message is None:
            break
        if message.type == "record batch" and not has_dictionaries:
            try:
                batch = ipc.read_record_batch(message, schema, memo) if memo else ipc.read_record_batch(message, schema)
                batch.validate(full=True)
                source.decoded(batch.nbytes, ALWAYS_VALUES)
                for field, column in zip(batch.schema, batch.columns, strict=True):
                    longest.column(field.name, column)
                    if asked.values:
                        arrow_values(numbers, field.name, records, column)
                records += batch.num_rows
            except (arrow.ArrowException, OSError, ValueError) as error:
                how = f"cannot be decoded: {shorten(str(error), 120)}"
                length = stream.tell() - place
                looked.broken(Bad("corrupt", how, records, place, length, part=f"(batch {number})"))
            number += 1
        source.worked(stream.tell() - place)
    looked.records, looked.odd = (None if has_dictionaries else records), numbers.odd()
    looked.labels, looked.fields = numbers.labels(looked.records), longest.told(looked.fields)
    if has_dictionaries:
        _whole(arrow, source, looked, begin)


def _next(arrow: Any, source: DataSource, place: int) -> tuple[Any, str]:
    """The next message, or why there is none: an end mark is no reason."""
    stream = source.stream
    head = stream.read(8)
    if head[:4] == b"\xff\xff\xff\xff" and head[4:8] == bytes(4):
        return None, ""
    if len(head) == 0:
        return None, "" if place == source.size else "the file ends here"
    if len(head) < 8 or head[:4] != b"\xff\xff\xff\xff":
        return None, "the file ends inside a message" if len(head) < 8 else "no message begins here"
    if int.from_bytes(head[4:8], "little") > source.size - place:
        return None, "the file ends inside this message"
    stream.seek(place)
    try:
        return arrow.ipc.read_message(arrow.PythonFile(stream, mode="r")), ""
    except (arrow.ArrowException, OSError, ValueError) as error:
        return None, shorten(str(error), 120)


def _whole(arrow: Any, source: DataSource, looked: UnitRead, begin: int) -> None:
    """Batches with dictionaries need the reader that keeps them."""
    source.stream.seek(0)
    records = number = 0
    opened = arrow.ipc.open_file(source.stream) if begin else arrow.ipc.open_stream(source.stream)
    total = opened.num_record_batches if begin else None
    while total is None or number < total:
        try:
            batch = opened.get_batch(number) if begin else opened.read_next_batch()
            batch.validate(full=True)
            source.decoded(batch.nbytes, ALWAYS_VALUES)
            records += batch.num_rows
        except StopIteration:
            break
        except (arrow.ArrowException, OSError, ValueError, IndexError) as error:
            looked.broken(
                Bad("corrupt", f"cannot be decoded: {shorten(str(error), 120)}", records, part=f"(batch {number})")
            )
            if not begin:
                break
        number += 1
        source.worked()
    looked.records = records


def _compare_with_footer(arrow: Any, source: DataSource, looked: UnitRead) -> None:
    """Readers of files go by the footer, so it has to fit."""
    source.stream.seek(0)
    try:
        opened = arrow.ipc.open_file(source.stream)
        rows = 0
        for number in range(opened.num_record_batches):
            batch = opened.get_batch(number)
            source.decoded(batch.nbytes, ALWAYS_VALUES)
            rows += batch.num_rows
    except (arrow.ArrowException, OSError, ValueError) as error:
        looked.broken(Bad("corrupt", f"the footer does not fit: {shorten(str(error), 120)}"))
        return
    if rows != looked.records:
        looked.broken(Bad("corrupt", f"the footer leads to {rows:,} rows, the batches have {looked.records:,}"))
