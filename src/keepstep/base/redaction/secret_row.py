# SPDX-License-Identifier: Apache-2.0
"""One row of a table of secrets: a pattern, and cheap tests that save most of its searches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keepstep.base.lazy_pattern import lazy_pattern

MARK = "[redacted]"
NOT_YET = r"(?!\[redacted\])"

Put = str | Callable[[re.Match[str]], str]


@dataclass(frozen=True, slots=True)
class SecretRow:
    """``hints``: one of them is in every text that the pattern matches; ``gate`` matches the line that it is in.

    Both are asked of the text in lower case.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    put: Put
    gate: re.Pattern[str] | None = None

    def lines(self, folded: str) -> Iterator[int]:
        """Where the lines begin that it may match, some of them twice."""
        for hint in self.hints:
            at = folded.find(hint)
            while at >= 0:
                begin = folded.rfind("\n", 0, at) + 1
                end = folded.find("\n", at)
                if self.gate is None or self.gate.search(folded, begin, len(folded) if end < 0 else end + 1):
                    yield begin
                at = folded.find(hint, end) if end >= 0 else -1


def vocabulary(text: str) -> str:
    """Each word of the text once, in lower case: it holds every hint the text holds, and logs repeat themselves."""
    folded = text.lower()
    return folded if len(folded) < 2000 else "\n".join(set(folded.split()))


def row(hints: str, pattern: str, put: Put = MARK, flags: int = 0, gate: str | None = None) -> SecretRow:
    return SecretRow(
        tuple(hints.split()), lazy_pattern(pattern, flags), put, None if gate is None else lazy_pattern(gate)
    )


def after(hints: str, pattern: str, flags: int = 0, gate: str | None = None) -> SecretRow:
    """A row whose pattern has the lead, which stays, in its first group, followed by the secret."""
    return row(hints, pattern, rf"\g<1>{MARK}", flags, gate)
