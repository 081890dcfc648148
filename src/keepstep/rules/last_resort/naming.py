# SPDX-License-Identifier: Apache-2.0
"""What unrecognised errors suggest: their words, weighed by the table, and one cause if it is clearly ahead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from keepstep.rules.api import Cause, ErrorSaid, ExceptionRaised, Loudness, NativeAbort, lazy_pattern
from keepstep.rules.asking.exceptions import is_library_file, is_of_the_program, raised_on_purpose, short_type
from keepstep.rules.last_resort.row import LONGEST_TEXT
from keepstep.rules.last_resort.table import BEFORE, FALLOUT, table

CLEAR = 2.0
"""The total weight that a cause needs before it is named."""
AHEAD = 1.4
"""And its lead over the next cause, as a factor, unless one of the two is more specific."""
LONGEST = 700
_LOUD = {Loudness.FATAL: 1.1, Loudness.ERROR: 1.0, Loudness.COMPLAINED: 0.8, Loudness.WARNED: 0.7}
_COMMAND = lazy_pattern(
    r"with overrides: \[[^\]]*\]?|(?:['\", ]+--?[A-Za-z][\w.-]*(?:[= '\",]+(?![-= '\",])[^\s'\",]+)?){3,}",
    most=LONGEST_TEXT,
)
"""The options of a quoted command: they name what was requested, not what failed."""
_PATH = lazy_pattern(r"(?:\b[a-z][a-z0-9+.-]{1,9}:/)?/(?:[\w.+@=-]+/)+[\w.+@=-]*", most=LONGEST_TEXT)
"""The words of a path are names that somebody chose, ``/local_nvme/``: they say nothing about what failed."""
_ENDING = lazy_pattern(r"\.[A-Za-z]\w{1,15}", most=LONGEST_TEXT)
"""Its endings do say what kind of file it is."""
FAR = 12
"""An error this many lines above the end counts less."""


@dataclass(frozen=True, slots=True)
class Named:
    """A cause that errors suggest, what to call it, and the words that suggest it."""

    cause: Cause
    name: str
    words: tuple[str, ...]

    @property
    def quoted(self) -> str:
        return ", ".join(f'"{each}"' for each in self.words)


@dataclass
class _Weight:
    name: str
    by_row: dict[tuple[int, int], float] = field(default_factory=dict)
    words: dict[str, None] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.by_row.values())


def named_by(texts: Iterable[tuple[float, str]]) -> Named | None:
    """The cause that some texts suggest, each with its weight; None if no cause is clearly ahead."""
    weights: dict[Cause, _Weight] = {}
    loudest: dict[str, float] = {}
    for loud, written in texts:
        text = _PATH.sub(_kind_of_file, _COMMAND.sub(" ", " ".join(_ATTRIBUTES.sub("", written).split())))
        loudest[text] = max(loud, loudest.get(text, 0.0))
    for text, loud in loudest.items():
        for which, row in enumerate(table()):
            for number, (weight, pattern) in enumerate(row.words):
                match = pattern.search(text)
                if match is None:
                    continue
                mine = weights.setdefault(row.cause, _Weight(row.name))
                mine.by_row[which, number] = max(weight * loud, mine.by_row.get((which, number), 0.0))
                if weight >= CLEAR:
                    mine.words[" ".join(match[0].split())[:80]] = None
    clear = {cause: weight for cause, weight in weights.items() if weight.total >= CLEAR and weight.words}
    if any(cause not in FALLOUT for cause in clear):
        clear = {cause: weight for cause, weight in clear.items() if cause not in FALLOUT}
    most = max((weight.total for weight in clear.values()), default=0.0)
    near = {cause for cause, weight in clear.items() if weight.total * AHEAD > most}
    left = [cause for cause in near if not any(cause in BEFORE.get(other, ()) for other in near)]
    if len(left) != 1:
        return None
    best = clear[left[0]]
    return Named(left[0], best.name, tuple(best.words)[:3])


def _kind_of_file(path: re.Match[str]) -> str:
    return "file" + "".join(_ENDING.findall(path[0]))


def words_of(fact: ExceptionRaised) -> tuple[float, str]:
    """The text of an exception: its class, its message, and which library raised it."""
    last = fact.frames[-1] if fact.frames else None
    where = f" ({last.file})" if last and last.file and is_library_file(last.file) else ""
    return 1.1, f"{short_type(fact)}: {_without_stack(fact.message)[:LONGEST]}{where}"


def words_of_abort(fact: NativeAbort) -> tuple[float, str]:
    """What a process printed when it aborted."""
    return 1.1, _without_stack(fact.what)[:LONGEST]


def words_said(fact: ErrorSaid) -> tuple[float, str]:
    """The text of an error line, and its weight: by level, and less if it is far above the end."""
    return _LOUD[fact.loudness] * (1.0 if fact.below <= FAR else 0.8), fact.text[:LONGEST]


_STACK = lazy_pattern(
    r"\*{3} Begin stack trace|Exception raised from |C\+\+ CapturedTraceback|^\s*(?:frame #\d|#\d+ 0x|@ +0x)",
    re.MULTILINE,
)


def _without_stack(message: str) -> str:
    """A message without the native stack that some libraries append: function names suggest no cause."""
    stack = _STACK.search(message)
    return message[: stack.start()] if stack else message


_ATTRIBUTES = lazy_pattern(r" = \w+\[\w+=[^\n]*")
"""The attributes of a TensorFlow graph node, ``Mul[T=DT_FLOAT, _device=...](...)``: they describe no failure."""

_OF_PYTHON = {
    "KeyError",
    "AttributeError",
    "NameError",
    "UnboundLocalError",
    "SyntaxError",
    "IndentationError",
    "RecursionError",
}
_PYTHON_SAYS = lazy_pattern(
    r"^(?:list|tuple|string) (?:assignment )?index|^pop from|unexpected keyword|positional argument"
    r"|required (?:keyword|argument)|is not (?:callable|iterable|subscriptable|JSON serializable)|unsupported operand"
    r"|'NoneType'|has no attribute|not supported between"
    r"|unrecognized arguments?|arguments are required|invalid choice|expected (?:one|at least one) argument"
)


def named_in(fact: ExceptionRaised) -> Named | None:
    """The cause that an exception's own words suggest; None for Python's messages about mistakes in the program."""
    if (
        raised_on_purpose(fact)
        or is_of_the_program(fact)
        or short_type(fact) in _OF_PYTHON
        or _PYTHON_SAYS.search(fact.message[:LONGEST])
    ):
        return None
    return named_by([words_of(fact)])
