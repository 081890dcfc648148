# SPDX-License-Identifier: Apache-2.0
"""Evidence of one file that is made when a rule asks for it: of the calls of a program, few are ever looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from keepstep.model.evidence import Evidence

F = TypeVar("F")
Columns = Mapping[str, Callable[[], Sequence[Any]]]
"""By name, what fills a column, see :class:`MadeLater`."""


class MadeTogether:
    """Evidence that is made all at once, when it is first asked for."""

    def __init__(self, make: Callable[[], Sequence[Evidence[Any]]]) -> None:
        self._make = make
        self._made: Sequence[Evidence[Any]] | None = None

    def _all(self) -> Sequence[Evidence[Any]]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Evidence[Any]]:
        return iter(self._all())


class MadeLater(Generic[F]):
    """The evidence of one kind in one file, in order.

    A *column* is what can be told of each of them without making it, such as the name of each call. ``text`` is the
    file's: what it does not contain, no fact of it contains.
    """

    def __init__(
        self, path: str, text: bytes, count: int, make: Callable[[int], Evidence[Any]], columns: Columns
    ) -> None:
        self.path, self.text = path, text
        self._make = make
        self._made: list[Evidence[Any] | None] = [None] * count
        self._columns: dict[str, Sequence[Any]] = {}
        self._places: dict[str, dict[str, list[int]]] = {}
        self._how = columns

    def column(self, name: str) -> Sequence[Any]:
        """One thing for each piece of evidence."""
        if name not in self._columns:
            self._columns[name] = self._how[name]()
        return self._columns[name]

    def where(self, column: str, value: str) -> Sequence[int]:
        """The places at which a column has that value."""
        if column not in self._places:
            found: dict[str, list[int]] = {}
            for number, each in enumerate(self.column(column)):
                found.setdefault(each, []).append(number)
            self._places[column] = found
        return self._places[column].get(value, ())

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, number: int) -> Evidence[Any]:
        found = self._made[number]
        if found is None:
            found = self._made[number] = self._make(number)
        return found

    def __iter__(self) -> Iterator[Evidence[Any]]:
        return (self[number] for number in range(len(self._made)))
