# SPDX-License-Identifier: Apache-2.0
"""Who wrote something: a rank of the run, and its stream of text."""

from __future__ import annotations

from dataclasses import dataclass

MOST_RANKS = 1_000_000
"""No run has more. Logs may name any number, and per-rank data must fit into memory."""


def everyone(world: int) -> range:
    """The ranks of a world of this size, up to the limit."""
    return range(min(world, MOST_RANKS))


class HostPid(int):
    """A process number of one host among several: it reads as the number, but equals only the same one on its host."""

    host: str

    def __new__(cls, number: int, host: str) -> HostPid:
        made = super().__new__(cls, number)
        made.host = host
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostPid) and int(self) == int(other) and self.host == other.host

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((int(self), self.host))

    def __reduce__(self) -> tuple[type[HostPid], tuple[int, str]]:
        return HostPid, (int(self), self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One member of the run. ``index`` is its global rank; the rest is known or ``None``."""

    index: int
    node: str | None = None
    local: int | None = None
    role: str | None = None
    attempt: int = 0
