# SPDX-License-Identifier: Apache-2.0
"""Which codecs of a Zarr array are let near its bytes: an array names them itself, and one of them unpickles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_OF_NUMCODECS = frozenset(
    """
    adler32 astype base64 bitround blosc bz2 categorize crc32 crc32c delta fixedscaleoffset fletcher32 gzip
    jenkins_lookup3 json2 lz4 lzma msgpack2 packbits pcodec quantize shuffle vlen-array vlen-bytes vlen-utf8 zfpy zlib
    zstd
    """.split()
)
_OF_ZARR_3 = frozenset("bytes endian transpose sharding_indexed blosc gzip zstd crc32c vlen-bytes vlen-utf8".split())
_ALLOWED = _OF_NUMCODECS | _OF_ZARR_3 | {f"numcodecs.{name}" for name in _OF_NUMCODECS}
"""Each only computes. ``pickle``, and what another package registers, is not among them."""
_FOR_OBJECTS = frozenset("categorize json2 msgpack2 vlen-array vlen-bytes vlen-utf8".split())


def refused(about: dict[str, Any]) -> str:
    """Why an array with this metadata (``.zarray``, ``zarr.json``) is not opened; empty: it may be."""
    names = list(_named(about))
    for name in names:
        if not isinstance(name, str) or name not in _ALLOWED:
            return f"its codec {str(name)[:40]!r} is not one of those that are opened"
    if _holds_objects(dtype := about.get("dtype")) and (dtype != "|O" or not _FOR_OBJECTS.intersection(names)):
        return "it holds Python objects, which are not made"
    return ""


def _named(about: dict[str, Any]) -> Iterator[Any]:
    """The names of all codecs, those within codecs too. What is no codec is named as it is, and so refused."""
    waiting = [about.get("compressor"), about.get("filters"), about.get("codecs"), about.get("storage_transformers")]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            yield each.get("id", each.get("name"))
            inner = each.get("configuration")
            for settings in (each, inner if isinstance(inner, dict) else {}):
                yield from (settings[key] for key in ("id", "name") if key in settings)
                waiting += [settings.get("codecs"), settings.get("index_codecs")]
        elif each is not None:
            yield each


def _holds_objects(dtype: Any) -> bool:
    if isinstance(dtype, list):  # of a structured type: [name, type, shape]
        return any(_holds_objects(each) for each in dtype)
    return isinstance(dtype, str) and dtype.lstrip("|<>=")[:1] == "O"


def forbid_pickles() -> None:
    """From now on numcodecs cannot unpickle in this process, whatever its version and its settings."""
    from numcodecs import pickles, registry

    def refuse(self: object, buf: object, out: object = None) -> None:
        raise ValueError("objects are not made")

    pickles.Pickle.decode = refuse
    with contextlib.suppress(KeyError):
        del registry.codec_registry["pickle"]
