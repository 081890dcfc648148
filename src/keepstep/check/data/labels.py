# SPDX-License-Identifier: Apache-2.0
"""The label of each record of a file, in order: one byte each, packed. Sorted labels take next to nothing."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MOST_CLASSES = 250
"""A field with more different values is no class."""
MOST_RECORDS = 20_000_000
LONGEST = 2 << 20
"""Of one file, packed. Where it is longer, nothing is said about the labels."""
NO_LABEL = 255
_TOKENS = frozenset({"input_ids", "tokens"})


@dataclass(frozen=True, slots=True)
class Labels:
    """``codes``: for each record, the place of its label in ``names``, or ``NO_LABEL``."""

    names: tuple[str, ...]
    codes: bytes


class LabelOrder:
    """Collects the labels of one file, field by field."""

    def __init__(self) -> None:
        self._codes: dict[str, bytearray] = {}
        self._names: dict[str, dict[str, int]] = {}
        self._no_class: set[str] = set()

    def add(self, field: str, record: int, values: Iterable[Any]) -> None:
        """One label for each record, from ``record`` on."""
        if field in self._no_class or field.rpartition("/")[2].lower() in _TOKENS:
            return
        codes, names = self._codes.setdefault(field, bytearray()), self._names.setdefault(field, {})
        codes += bytes([NO_LABEL]) * (record - len(codes))
        for value in values:
            code = names.setdefault(str(value), len(names))
            if code >= MOST_CLASSES or len(codes) >= MOST_RECORDS:
                self._no_class.add(field)
                del self._codes[field], self._names[field]
                return
            codes.append(code)

    def packed(self, records: int | None, preferred: tuple[str, ...]) -> str:
        """The labels as one line; empty where there is no field of classes."""
        fields = sorted(self._codes, key=lambda name: (name not in preferred, name))
        if not fields or records is None or not self._codes[fields[0]]:
            return ""
        codes, names = self._codes[fields[0]], list(self._names[fields[0]])
        whole = bytes(codes[:records]) + bytes([NO_LABEL]) * (records - len(codes))
        text = json.dumps({"names": names, "codes": base64.b64encode(zlib.compress(whole, 6)).decode()})
        return text if len(text) <= LONGEST else ""


def labels_from(text: str, records: int) -> Labels | None:
    """The way back; None where there are none, or not as many as records."""
    try:
        found = json.loads(text)
        unpacked = zlib.decompressobj().decompress(base64.b64decode(found["codes"]), records + 1)
        names = tuple(str(name) for name in found["names"])
    except (ValueError, KeyError, TypeError, zlib.error, binascii.Error):
        return None
    if len(unpacked) != records or any(code >= len(names) and code != NO_LABEL for code in set(unpacked)):
        return None
    return Labels(names, unpacked)


def joined(every: Iterable[Labels]) -> Labels:
    """The labels of several files, one after the other."""
    names: dict[str, int] = {}
    codes = []
    for each in every:
        table = bytearray(range(256))
        for code, name in enumerate(each.names):
            table[code] = min(names.setdefault(name, len(names)), NO_LABEL)
        codes.append(each.codes.translate(bytes(table)))
    return Labels(tuple(names)[:NO_LABEL], b"".join(codes))
