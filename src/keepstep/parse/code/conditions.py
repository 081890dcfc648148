# SPDX-License-Identifier: Apache-2.0
"""Conditions, and on which ranks they hold: on the first, and on another one that stands for the rest."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator

from keepstep.parse.code.unit import SOME, UNKNOWN, Test

_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.eq,
    "IsNot": operator.ne,
}
_TURNED = {"Lt": "Gt", "LtE": "GtE", "Gt": "Lt", "GtE": "LtE"}
FIRST_ONLY: Test = ("=", True, False)
ALWAYS: Test = ("=", True, True)
NEVER: Test = ("=", False, False)


def rank_compared(comparison: str, number: int) -> Test:
    """A rank compared with a number. The other rank is one for which it is not as for the first, if there is one."""
    compare = _OPERATORS.get(comparison)
    if compare is None:
        return SOME
    first = compare(0, number)
    others = [compare(rank, number) for rank in (1, number, number + 1) if rank > 0]
    return ("=", first, next((other for other in others if other != first), first))


def rank_among(numbers: list[int], inside: bool) -> Test:
    """``rank in [0, -1]``, or not in."""
    first = (0 in numbers) == inside
    return ("=", first, not first) if any(number >= 0 for number in numbers) else ("=", not inside, not inside)


def world_compared(comparison: str, number: int) -> Test:
    """The number of processes compared: there are several."""
    compare = _OPERATORS.get(comparison)
    if compare is None or number > 1:
        return UNKNOWN
    return ALWAYS if compare(2, number) else NEVER


def compared(comparison: str, number: int | str, with_what: int | str | tuple[int, ...]) -> Test:
    """A known number or word compared with another, or looked for among several."""
    if isinstance(with_what, tuple):
        return ALWAYS if (number in with_what) == (comparison == "In") else NEVER
    if isinstance(number, str) or isinstance(with_what, str):
        if comparison not in ("Eq", "NotEq"):
            return ALWAYS if not comparison and number else UNKNOWN
        return ALWAYS if (number == with_what) == (comparison == "Eq") else NEVER
    if not comparison:
        return ALWAYS if number else NEVER
    compare = _OPERATORS.get(comparison)
    return UNKNOWN if compare is None else ALWAYS if compare(number, with_what) else NEVER


def turned(comparison: str) -> str:
    """The comparison with its sides exchanged."""
    return _TURNED.get(comparison, comparison)


def negated(test: Test) -> Test:
    if test[0] == "=":
        return ("=", not test[1], not test[2])
    if test[0] == "not":
        inner: Test = test[1]
        return inner
    return test if test[0] in ("?", "some") else ("not", test)


def both(tests: list[Test]) -> Test:
    """All of them hold."""
    return _joined("and", tests)


def either(tests: list[Test]) -> Test:
    """One of them holds."""
    return _joined("or", tests)


def _joined(how: str, tests: list[Test]) -> Test:
    if all(test == UNKNOWN for test in tests):
        return UNKNOWN
    decides = ALWAYS if how == "or" else NEVER
    if decides in tests:
        return decides
    return tests[0] if len(tests) == 1 else (how, tuple(tests))


def is_ranked(test: Test) -> bool:
    """Whether it is known, from the test alone, to differ by rank."""
    if test[0] == "=":
        return bool(test[1] != test[2])
    if test[0] in ("and", "or"):
        return any(is_ranked(each) for each in test[1])
    return test[0] in ("some", "clock") or (test[0] == "not" and is_ranked(test[1]))


def functions_in(test: Test) -> tuple[str, ...]:
    """The functions of the project that decide it."""
    if test[0] == "call":
        return (test[1],)
    if test[0] in ("and", "or"):
        return tuple(name for each in test[1] for name in functions_in(each))
    return functions_in(test[1]) if test[0] == "not" else ()


def is_word(test: Test) -> bool:
    """A word that is given, or a parameter that is compared with one."""
    return (test[0] == "number" and isinstance(test[1], str)) or (test[0] == "param" and isinstance(test[3], str))


def parts_of(tests: Iterable[Test]) -> Iterator[Test]:
    """The tests, and those that they are made of."""
    for test in tests:
        yield test
        if test[0] in ("and", "or"):
            yield from parts_of(test[1])
        elif test[0] == "not":
            yield from parts_of((test[1],))
