# SPDX-License-Identifier: Apache-2.0
"""Long lists that are only gone through in order: in memory while they are short, then in a file without a name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import Any

from keepstep.check.data.units import DataUnit, UnitRead, looked_from, to_plain, unit_from, unit_to_list

MOST_IN_MEMORY = 8 << 20
_SOME = 1 << 16


class _Lines:
    """JSON documents, one per line."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=MOST_IN_MEMORY)  # noqa: SIM115 (it lives as long as this)

    def add(self, document: Any) -> None:
        self._file.seek(0, 2)
        self._file.write(json.dumps(document).encode() + b"\n")

    def end(self) -> int:
        return self._file.seek(0, 2)

    def cut(self, end: int) -> None:
        self._file.truncate(end)

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while True:
            self._file.seek(place)
            some = self._file.readlines(_SOME)
            if not some:
                return
            place = self._file.tell()
            for line in some:
                yield json.loads(line)


class Units:
    """All units that were found, in their order."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._count = self.size_bytes = 0

    def take(self, some: list[list[Any]]) -> None:
        """Units as :func:`unit_to_list` writes them."""
        self._lines.add(some)
        self._count += len(some)
        self.size_bytes += sum(each[2] for each in some)

    def mark(self) -> tuple[int, int, int]:
        return self._lines.end(), self._count, self.size_bytes

    def back_to(self, mark: tuple[int, int, int]) -> None:
        """Forget what was added since."""
        end, self._count, self.size_bytes = mark
        self._lines.cut(end)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[DataUnit]:
        number = 0
        for some in self._lines:
            for each in some:
                yield unit_from(each, number)
                number += 1


class Broken:
    """Files with bad parts, and what was found in them."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._count = 0

    def add(self, unit: DataUnit, looked: UnitRead) -> None:
        self._lines.add([unit_to_list(unit), unit.number, to_plain(looked)])
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[DataUnit, UnitRead]]:
        for unit, number, looked in self._lines:
            yield unit_from(unit, number), looked_from(looked)
