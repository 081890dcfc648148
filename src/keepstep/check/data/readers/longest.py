# SPDX-License-Identifier: Apache-2.0
"""The longest value of each field, as records pass: characters of a text, values of a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from keepstep.check.data.units import Field


class Longest:
    """Of one file."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}

    def add(self, field: str, length: int) -> None:
        if length > self.most.get(field, 0):
            self.most[field] = length

    def column(self, field: str, column: Any) -> None:
        """The rows of an Arrow array, if they are texts or lists."""
        import pyarrow.compute as compute
        import pyarrow.types as types

        kind = column.type
        if types.is_string(kind) or types.is_large_string(kind):
            lengths = compute.utf8_length(column)
        elif types.is_list(kind) or types.is_large_list(kind):
            lengths = compute.list_value_length(column)
        else:
            return
        self.add(field, compute.max(lengths).as_py() or 0)

    def told(self, fields: Iterable[Field]) -> list[Field]:
        """The fields, with what was found of each."""
        return [replace(each, longest=self.most.get(each.name)) for each in fields]
