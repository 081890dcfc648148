# SPDX-License-Identifier: Apache-2.0
"""Prefixes of a program's own making that number its processes: ``[lr0p5 task 0] ``, ``[rank 0/8] ``, ``proc-3 | ``.

Such a prefix is a habit of a file: one line proves nothing, since "[layer task 3]" may number anything. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from keepstep.base.lazy_pattern import lazy_pattern

REACH = 160
"""A prefix is at the beginning of a line."""
FEWEST = 3
SHARE = 0.6
_ROLES = r"rank|task|worker|process|proc|replica|host|shard|pod|member"
_WORDS = tuple(_ROLES.split("|"))
_OF_PIECES = frozenset({"task", "shard"})
"""What one process also works through, one after the other."""
_STAMP = (
    r"^(?:\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?[ ,]{1,2})?"
    r"(?:\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)\]?[ :|]{1,3})?"
)
_NUMBER = r"(?:[ _-]?(?:index|idx|id))?[ _=:#-]{0,2}(?P<rank>\d{1,5})(?P<of>(?:/| of )\d{1,6})?"
_IN_BRACKETS = (
    _STAMP
    + r"[\[(<](?P<before>(?:[\w.\-]{1,60}[ /:,|]{1,2}|[\w.\-]{1,60}[-_.])?)(?P<role>ROLES)"
    + _NUMBER
    + r"(?:[ /:,|@]{1,2}"
    r"(?!(?:rank|task|worker|step|epoch)\b)[A-Za-z][\w.\-]{0,60})?[\])>](?: ?[:|>]{1,2})? ?"
)
_BARE = (
    _STAMP
    + r"(?P<before>(?:[\w.\-]{1,60}[/:]|[\w.\-]{1,60}[-_.]|[\w.\-]{1,60} (?=[^|:\n]{1,30}\|))?)(?P<role>ROLES)"
    + _NUMBER
    + r" ?[:|>](?![\d/:]) ?"
)
_FORMS = {form: lazy_pattern(form.replace("ROLES", _ROLES), re.I) for form in (_IN_BRACKETS, _BARE)}
_MAYBE = lazy_pattern(rf"(?:{_ROLES})(?:[ _-]?(?:index|idx|id))?[ _=:#-]{{0,2}}\d", re.I)
_OF_SOMETHING_ELSE = lazy_pattern(
    r"(?:data|load|fetch|read|thread|save|check|eval|epoch|step|layer|stage|expert|batch|sub|http)\w*\W*$|(?:ing|ed)\W+$",
    re.I,
)
"""Before the number of a data loader's worker, of a part of the model, of what a process is doing."""


def numbered(lines: list[str], known: Callable[[str], bool]) -> re.Pattern[str] | None:
    """The pattern of the prefix that numbers the processes which wrote these lines, if there is such a habit.

    ``known``: whether a line has another prefix that says who wrote it.
    """
    text = "\n".join(lines).lower()
    if not any(word in text for word in _WORDS):
        return None
    families: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in lines:
        if not _MAYBE.search(line, 0, REACH) or known(line):
            continue
        for form, pattern in _FORMS.items():
            match = pattern.match(line)
            if match and _is_of_a_process(match):
                families[form, match["role"].lower()].append(int(match["rank"]))
                break
    found = max(families.items(), key=lambda item: len(item[1]), default=None)
    if found is None or not _is_habit(found[0][1], found[1], len(lines)):
        return None
    return _pattern(*found[0])


def _is_of_a_process(match: re.Match[str]) -> bool:
    of = match["of"]
    if of and (match["role"].lower() in _OF_PIECES or int(match["rank"]) >= int(of.strip("/ of"))):
        return False
    return _OF_SOMETHING_ELSE.search(match["before"]) is None


def _is_habit(role: str, numbers: list[int], lines: int) -> bool:
    """Processes write in any order; what is worked through comes in order, and each number once or in one go."""
    if len(numbers) < FEWEST:
        return False
    rising = all(one <= two for one, two in pairwise(numbers))
    if not rising:
        return True
    return role not in _OF_PIECES and len(numbers) > len(set(numbers)) and len(numbers) >= SHARE * lines


@lru_cache(maxsize=64)
def _pattern(form: str, role: str) -> re.Pattern[str]:
    return re.compile(form.replace("ROLES", role), re.I)
