# SPDX-License-Identifier: Apache-2.0
"""The data formats, one row each. The row drives reading, `docs/check-data.md`, the fuzz targets and the tests.

To add a format, add a row here and ``readers/<kind>.py``, whose ``read(source, asked)`` returns a ``Looked``. The tests
then ask for a sample of it (``tests/check/data/samples.py``) and for its line in the docs (`make docs` writes it).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """What is known of a format before a file is opened, and what the docs say about it."""

    kind: str
    """What units call it; also its module in ``readers/``."""
    name: str
    """What reports call it."""
    endings: tuple[str, ...] = ()
    """File names that promise it."""
    magic: tuple[bytes | tuple[int, bytes], ...] = ()
    """Bytes that prove it, at the beginning of a file or at a place in it."""
    packed: bool = False
    """Read through gzip and the like: ``read(source, asked, packed)``."""
    is_text: bool = False
    """Recognised by its name, as long as the file begins like text."""
    is_store: bool = False
    """A folder that is read as one: ``read_store(unit, asked, told)``."""
    never_text: bool = False
    """A file of text under its name is something else."""
    any_bytes: bool = False
    """Any bytes are valid, so its name promises nothing."""
    empty_is_valid: bool = False
    """No bytes are no records; in the other formats a file without bytes is broken."""
    written: str = ""
    """How the docs write it, where that is not ``name``."""
    checked: str
    """For the docs: what is looked at."""
    flipped_bit: str
    """For the docs: whether a flipped bit in the payload is found."""


TFRECORD = Format(
    kind="tfrecord",
    name="TFRecord",
    endings=("tfrecord", "tfrecords", "tfrec"),
    packed=True,
    empty_is_valid=True,
    written="TFRecord, also gzip and zlib",
    checked="both CRCs of every record, lengths, the tail; after a bad header the next record is searched for",
    flipped_bit="found",
)
PARQUET = Format(
    kind="parquet",
    name="Parquet",
    endings=("parquet", "pq"),
    magic=(b"PAR1", b"PARE"),
    never_text=True,
    checked="footer, every column chunk decoded",
    flipped_bit="found if the writer made page checksums, else often when packed",
)
ARROW = Format(
    kind="arrow",
    name="Arrow",
    endings=("arrow", "feather", "ipc"),
    magic=(b"ARROW1\0\0", b"FEA1"),
    written="Arrow, Feather 2",
    never_text=True,
    checked="every message decoded and validated, footer",
    flipped_bit="found only when packed, and not always",
)
TAR = Format(
    kind="tar",
    name="tar",
    endings=("tar", "tgz"),
    magic=((257, b"ustar"),),
    packed=True,
    written="WebDataset tar, also packed",
    never_text=True,
    checked="every header's checksum, every sample complete, images, JSON, arrays and numbers inside",
    flipped_bit="found if packed",
)
MDS = Format(
    kind="mds",
    name="MDS",
    endings=("mds",),
    checked="sizes, hashes of the index, offsets, columns of every sample",
    flipped_bit="found if the index has hashes",
)
LITDATA = Format(
    kind="litdata",
    name="LitData",
    checked="sizes, offsets, parts of every item, frames unpacked",
    flipped_bit="not found",
)
NPZ = Format(
    kind="npz",
    name="NumPy .npz",
    endings=("npz",),
    written="`.npz`",
    never_text=True,
    checked="the zip's CRCs, every array's header",
    flipped_bit="found",
)
NPY = Format(
    kind="npy",
    name="NumPy .npy",
    endings=("npy",),
    magic=(b"\x93NUMPY",),
    written="`.npy`",
    never_text=True,
    checked="header, and whether the file has as many bytes as it says",
    flipped_bit="not found",
)
SAFETENSORS = Format(
    kind="safetensors",
    name="safetensors",
    endings=("safetensors",),
    checked="header, and whether the file has as many bytes as it says",
    flipped_bit="not found",
)
JSONL = Format(
    kind="jsonl",
    name="JSON lines",
    endings=("jsonl", "ndjson"),
    packed=True,
    is_text=True,
    empty_is_valid=True,
    written="JSON lines, also packed",
    checked="every line parsed; UTF-8",
    flipped_bit="found if packed, or if the text is no longer valid",
)
CSV = Format(
    kind="csv",
    name="CSV",
    endings=("csv", "tsv"),
    packed=True,
    is_text=True,
    empty_is_valid=True,
    written="CSV, also packed",
    checked="every line parsed; columns, quotes, UTF-8",
    flipped_bit="found if packed, or if the text is no longer valid",
)
IMAGE = Format(
    kind="image",
    name="image",
    endings=("jpg", "jpeg", "png", "gif", "bmp", "webp", "tif", "tiff"),
    magic=(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"),
    written="images",
    never_text=True,
    checked="structure, and decoding by Pillow",
    flipped_bit="PNG: found; others: sometimes",
)
_HDF5 = b"\x89HDF\r\n\x1a\n"
HDF5 = Format(
    kind="hdf5",
    name="HDF5",
    endings=("h5", "hdf5", "hdf"),
    magic=(_HDF5, (512, _HDF5), (1024, _HDF5), (2048, _HDF5)),
    never_text=True,
    checked="every chunk of every dataset read",
    flipped_bit="found with the Fletcher-32 filter, or often when packed",
)
ZARR = Format(
    kind="zarr",
    name="Zarr",
    is_store=True,
    written="Zarr 2 and 3",
    checked="every chunk that is there decoded",
    flipped_bit="found with the crc32c codec, or often when packed",
)
TOKENS = Format(
    kind="tokens",
    name="raw .bin",
    endings=("bin",),
    any_bytes=True,
    empty_is_valid=True,
    written="raw `.bin`",
    checked="size against Megatron's `.idx` or llm.c's header",
    flipped_bit="not found",
)

FORMATS = {
    each.kind: each
    for each in (
        TFRECORD, PARQUET, ARROW, TAR, MDS, LITDATA, NPZ, NPY, SAFETENSORS, JSONL, CSV, IMAGE, HDF5, ZARR, TOKENS,
    )
}  # fmt: skip
"""By kind, in the order of the docs."""


def format_name(kind: str) -> str:
    """What reports call it."""
    return FORMATS[kind].name if kind in FORMATS else "data"
