# SPDX-License-Identifier: Apache-2.0
"""HDF5: every dataset, chunk by chunk, read by h5py. Only chunks with the Fletcher-32 filter have a checksum."""

from __future__ import annotations

import math
from typing import Any

from keepstep.base.wording import shorten
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import ALWAYS_VALUES, DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad

MOST_DATASETS = 100_000
DEEPEST = 200
PIECE = 32 << 20
LARGEST_CHUNK = 1 << 30
_DAMAGE = (OSError, RuntimeError, ValueError, KeyError)


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """All datasets."""
    import h5py

    looked = UnitRead("hdf5")
    try:
        place = source.place()
        opened = h5py.File(place, "r", locking=False) if isinstance(place, str) else h5py.File(place, "r")
    except _DAMAGE as error:
        kind = "truncated" if "truncated" in str(error) else "corrupt"
        return looked.broken(Bad(kind, f"it cannot be opened: {shorten(_said(error), 120)}", offset=0))
    numbers = Numbers(asked)
    lengths: list[int] = []
    checked: list[bool] = []
    with opened:
        names: list[str] = []
        try:
            opened.id.links.visit(lambda name, link: _left_links(h5py, looked, name, link), info=True)
            if "nested" not in looked.unread:
                opened.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        except _DAMAGE as error:
            looked.broken(Bad("corrupt", f"its groups cannot be listed: {shorten(_said(error), 120)}"))
        if len(names) > MOST_DATASETS:
            looked.unread = f"only the first {MOST_DATASETS:,} of its {len(names):,} datasets were read"
        for name in names[:MOST_DATASETS]:
            try:
                dataset = opened[name]
                if dataset.is_virtual or dataset.external:  # before its shape is asked: that opens the other files
                    looked.unread = f"the values of {name} are in other files, which are not opened"
                    continue
                looked.fields.append(Field(name, str(dataset.dtype), str(list((dataset.shape or ())[1:]))))
                lengths.append(dataset.shape[0] if dataset.shape else 1)
                checked.append(bool(dataset.fletcher32))
                _dataset(dataset, looked, source, numbers if asked.values else None)
            except _DAMAGE as error:
                looked.broken(Bad("corrupt", shorten(_said(error), 120), part=f"(dataset {name})"))
    looked.records = lengths[0] if lengths and len(set(lengths)) == 1 else None
    looked.protected = bool(checked) and all(checked)
    looked.odd = numbers.odd()
    if not names and not len(looked.bad) and not looked.unread:
        looked.broken(Bad("empty", "it has no datasets"))
    return looked


def _left_links(h5py: Any, looked: UnitRead, name: bytes, link: Any) -> bool | None:
    """Note links that are not followed. True, which ends the search, where groups are too deep: each costs depth."""
    if link.type == h5py.h5l.TYPE_EXTERNAL:
        shown = shorten(name.decode("utf-8", "replace"), 80)
        looked.unread = f"its link {shown} leads into another file, which is not opened"
    if name.count(b"/") >= DEEPEST:
        looked.unread = f"its groups are nested more than {DEEPEST} deep"
        return True
    return None


def _said(error: Exception) -> str:
    return str(error).strip("'\"")


def _dataset(dataset: Any, looked: UnitRead, source: DataSource, numbers: Numbers | None) -> None:
    if dataset.shape is None or dataset.size == 0 or not dataset.id.get_storage_size():
        return  # what was never written holds the fill value
    if missing := _missing_filter(dataset):
        looked.unread = f"{dataset.name.lstrip('/')} needs the filter {missing}, which is not part of HDF5"
        return
    if dataset.chunks is None or not dataset.shape:
        _rows(dataset, looked, source, numbers)
        return
    if math.prod(dataset.chunks) * dataset.dtype.itemsize > LARGEST_CHUNK:
        looked.unread = f"a chunk of {dataset.name} is too large to be read"
        return
    for number in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(number)
        where = tuple(
            slice(begin, min(begin + step, end))
            for begin, step, end in zip(info.chunk_offset, dataset.chunks, dataset.shape, strict=True)
        )
        try:
            values = dataset[where]
            done = values.nbytes
            if numbers is not None:
                numbers.array(dataset.name.lstrip("/"), info.chunk_offset[0], values)
        except _DAMAGE as error:
            part = f"(dataset {dataset.name.lstrip('/')}, chunk {list(info.chunk_offset)})"
            how = shorten(_said(error), 120)
            looked.broken(Bad("corrupt", how, info.chunk_offset[0], info.byte_offset, info.size, part=part))
            done = 0
        source.worked(info.size)
        source.decoded(done, ALWAYS_VALUES)


def _missing_filter(dataset: Any) -> str:
    """The first filter of its chunks that is not here. Plug-ins are not looked for (see ``process.start``)."""
    import h5py

    settings = dataset.id.get_create_plist()
    for number in range(settings.get_nfilters()):
        code, _, _, name = settings.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            return f"{code} ({shorten(name.decode('utf-8', 'replace'), 40)})" if name else str(code)
    return ""


def _rows(dataset: Any, looked: UnitRead, source: DataSource, numbers: Numbers | None) -> None:
    """A dataset without chunks, in pieces of whole rows."""
    name, begin = dataset.name.lstrip("/"), dataset.id.get_offset()
    row = dataset.dtype.itemsize * math.prod(dataset.shape[1:]) if dataset.shape else dataset.dtype.itemsize
    rows = dataset.shape[0] if dataset.shape else 1
    if begin is not None and begin + rows * row > source.size:
        number = max(0, (source.size - begin) // row) if row else 0
        how = "the file ends inside this dataset"
        looked.broken(Bad("truncated", how, number, begin + number * row, part=f"(dataset {name})"))
        return
    if row > LARGEST_CHUNK:
        looked.unread = f"a row of {name} is too large to be read"
        return
    step = max(1, PIECE // max(1, row))
    for first in range(0, rows, step):
        values = dataset[first : first + step] if dataset.shape else dataset[()]
        if numbers is not None and dataset.shape:
            numbers.array(name, first, values)
        source.worked(values.nbytes if dataset.shape else row)
