# SPDX-License-Identifier: Apache-2.0
"""``.npz``: a zip of arrays. The zip has a CRC for every member, and each member is an array with its own header."""

from __future__ import annotations

import contextlib
import zipfile
import zlib

from keepstep.base.wording import shorten, size
from keepstep.check.data.readers.npy import field_of
from keepstep.check.data.readers.numbers import Numbers
from keepstep.check.data.readers.source import LARGEST_WHOLE, MORE, DataSource
from keepstep.check.data.units import ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.parse.formats.data.npy_header import NotNpy, NpyHeader, read_header
from keepstep.sources.files.unpack import MOST_BYTES, TooMuch

PIECE = 1 << 20
MOST_MEMBERS = 1_000_000
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """All members."""
    looked = UnitRead("npz", protected=True)
    source.stream.seek(0)
    try:
        archive = zipfile.ZipFile(source.stream)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        return looked.broken(
            Bad("truncated", f"the zip's directory, at its end, is missing: {shorten(str(error), 80)}")
        )
    most, done = min(MOST_BYTES, source.most_decoded()), 0
    numbers = Numbers(asked)
    lengths = []
    with archive:
        members = archive.infolist()
        for number, member in enumerate(members[:MOST_MEMBERS]):
            try:
                header, read_bytes = _member(archive, member, source, most - done, numbers if asked.values else None)
                done += read_bytes
                if header is not None:
                    looked.fields.append(field_of(member.filename.removesuffix(".npy"), header))
                    lengths.append(header.shape[0] if header.shape else 1)
            except TooMuch:
                looked.unread = f"{size(source.written)} unpack to more than {size(most)}{MORE}"
                break
            except _DAMAGE as error:
                part = f"(member {member.filename})"
                looked.broken(Bad("corrupt", shorten(str(error), 120), number, member.header_offset, part=part))
    looked.fields.sort(key=lambda field: field.name)
    looked.records = lengths[0] if lengths and len(set(lengths)) == 1 else None
    looked.odd, looked.labels = numbers.odd(), numbers.labels(looked.records)
    if not members:
        looked.broken(Bad("empty", "it has no arrays"))
    return looked


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: DataSource, most: int, numbers: Numbers | None
) -> tuple[NpyHeader | None, int]:
    """Read one member to its end, which checks its CRC. Raises :class:`TooMuch`, or one of the damages."""
    done, head, kept = 0, b"", []
    with archive.open(member) as stream:
        while piece := stream.read(PIECE):
            if done < 1 << 17:
                head += piece
            if numbers is not None and member.file_size <= LARGEST_WHOLE:
                kept.append(piece)
            done += len(piece)
            source.worked(0)
            if done > most:
                raise TooMuch
    if not member.filename.endswith(".npy"):
        return None, done
    try:
        header = read_header(head)
    except NotNpy as error:
        raise ValueError(str(error)) from None
    if header.size_bytes is not None and header.length + header.size_bytes != done:
        raise ValueError(f"its header needs {header.length + header.size_bytes:,} bytes, {done:,} are there")
    if numbers is not None and kept and header.size_bytes:
        import numpy

        data = b"".join(kept)[header.length :]
        with contextlib.suppress(TypeError):  # a structured type
            array = numpy.frombuffer(data, dtype=header.dtype)
            array = array.reshape(header.shape, order="F" if header.fortran else "C")
            numbers.array(member.filename.removesuffix(".npy"), 0, array, rows=bool(header.shape))
    return header, done
