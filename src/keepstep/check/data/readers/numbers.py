# SPDX-License-Identifier: Apache-2.0
"""Values as they pass (``--values``): what is not finite, and the range of labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from keepstep.check.data.labels import LabelOrder
from keepstep.check.data.units import Odd, ReadRequest

LABELS = frozenset({"label", "labels", "target", "targets", "cls", "class", "class_id", "y", "input_ids", "tokens"})
"""Fields that usually hold class indices or tokens."""
LONGEST_NAME = 80


class Numbers:
    """The fields of one file whose values were looked at."""

    def __init__(self, asked: ReadRequest) -> None:
        self._asked = asked
        self._order = LabelOrder()
        self._found: dict[str, Odd] = {}

    def wants(self, field: str) -> bool:
        """Whether this field holds labels, as far as its name says."""
        names = self._asked.labels or LABELS
        return self._asked.values and (field.rpartition("/")[2].lower() in names or field in names)

    def floats(self, field: str, record: int, data: Any, dtype: str) -> None:
        """Packed floats of one record."""
        import numpy

        self.array(field, record, numpy.frombuffer(data, dtype=dtype), rows=False)

    def array(self, field: str, record: int, values: Any, *, rows: bool = True) -> None:
        """An array of a numpy type; ``rows``: its first axis counts records, from ``record`` on."""
        import numpy

        if values.dtype.kind in "fc" or values.dtype.name == "bfloat16":
            finite = numpy.isfinite(values)
            if finite.all():
                return
            nans = int(numpy.isnan(values).sum())
            first = record + (_first_row(~finite) if rows else 0)
            known = self._found.get(field, Odd(field, record=first))
            self._found[field] = replace(
                known, nans=known.nans + nans, infinities=known.infinities + int((~finite).sum()) - nans
            )
        elif values.dtype.kind in "iu" and values.size and self.wants(field):
            low, high = int(values.min()), int(values.max())
            outside = None
            if self._asked.classes is not None and (low < 0 or high >= self._asked.classes):
                outside = record + (_first_row((values < 0) | (values >= self._asked.classes)) if rows else 0)
            self._range(field, low, high, outside)
            if self._asked.order and rows and values.ndim == 1:
                self._order.add(field, record, values.tolist())

    def text(self, field: str, record: int, value: str) -> None:
        """A label in words."""
        if self._asked.order and len(value) <= LONGEST_NAME and self.wants(field):
            self._order.add(field, record, [value])

    def whole(self, field: str, record: int, values: Iterable[int]) -> None:
        """Whole numbers of one record."""
        every = list(values)
        if every and self.wants(field):
            low, high, most = min(every), max(every), self._asked.classes
            self._range(field, low, high, record if most is not None and (low < 0 or high >= most) else None)
            if self._asked.order and len(every) == 1:
                self._order.add(field, record, every)

    def _range(self, field: str, low: int, high: int, outside: int | None) -> None:
        known = self._found.get(field, Odd(field, low=low, high=high))
        assert known.low is not None and known.high is not None
        self._found[field] = replace(
            known,
            low=min(known.low, low),
            high=max(known.high, high),
            outside=outside if known.outside is None else known.outside,
        )

    def labels(self, records: int | None) -> str:
        """The label of each record, where they were asked for and one field holds classes."""
        return self._order.packed(records, self._asked.labels)

    def odd(self) -> list[Odd]:
        """Fields with values that are not finite, and the ranges of labels."""
        return list(self._found.values())


def _first_row(where: Any) -> int:
    """The first row of a mask in which anything is set."""
    rows = where.reshape(where.shape[0], -1).any(axis=1) if where.ndim else where.reshape(1)
    return int(rows.argmax())
