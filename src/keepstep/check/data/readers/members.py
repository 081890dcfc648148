# SPDX-License-Identifier: Apache-2.0
"""Members of archives and columns of shards, whose endings say what they are: only damage that is certain counts."""

from __future__ import annotations

import json

from keepstep.parse.formats.data.image_structure import wrong_with_image
from keepstep.parse.formats.data.npy_header import NotNpy, read_header

_IMAGES = ("jpg", "jpeg", "png")


def wrong_with(name: str, content: bytes) -> tuple[str, str] | None:
    """``corrupt`` or ``truncated`` with the reason, or None."""
    ending = name.rpartition(".")[2].lower()
    if ending in _IMAGES:
        return wrong_with_image(content) if content else ("empty", "the image has no bytes")
    if ending == "json":
        try:
            json.loads(content)
        except (ValueError, RecursionError) as error:
            return "corrupt", f"it is not JSON: {str(error)[:80]}"
    elif ending == "npy":
        return _array(content)
    elif ending in ("cls", "index"):
        if not content.strip().lstrip(b"-").isdigit():  # bytes
            return "corrupt", "it is not a number"
    elif ending in ("txt", "text"):
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            return "corrupt", f"it is not UTF-8 (byte {error.start:,})"
    return None


def _array(content: bytes) -> tuple[str, str] | None:
    try:
        header = read_header(content)
    except NotNpy as error:
        return "corrupt", str(error)
    if header.size_bytes is not None and header.length + header.size_bytes != len(content):
        return "truncated", f"its header needs {header.length + header.size_bytes:,} bytes, {len(content):,} are there"
    return None
