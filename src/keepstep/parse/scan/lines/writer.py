# SPDX-License-Identifier: Apache-2.0
"""Who wrote a line, and what the name of a file, pod or actor says about its rank and role."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keepstep.base.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who wrote a line, as far as its prefix tells. ``key`` names the stream.

    ``own``: the process itself wrote the number of its rank; a launcher or viewer may number hosts instead.
    ``by_words``: the rank is that of the only process of a log that stated its rank, somewhere in it.
    """

    key: str = ""
    rank: int | None = None
    local: int | None = None
    role: str | None = None
    node: str | None = None
    name: str | None = None
    pid: int | None = None
    own: bool = False
    by_words: bool = False


NOBODY = Writer()


def as_rank(text: str) -> int | None:
    """A rank, or what may be one: no run has ten million."""
    return int(text) if len(text) < 8 else None


_ROLE_WORDS = r"(?P<role>rank|worker|chief|master|ps|parameter[-_]?server|evaluator|task|proc(?:ess)?|trainer|node|host|replica|launcher|stdout|stderr|out|err|log)"
_NAMED = (
    # torchrun --log-dir: .../attempt_0/3/stderr.log
    lazy_pattern(r"attempt_(?P<attempt>\d+)/(?P<rank>\d+)(?:/|$)"),
    # MPI: 1/rank.3/stdout
    lazy_pattern(r"rank[._\-]?0*(?P<rank>\d+)(?!\d)", re.I),
    lazy_pattern(r"(?<![a-z])" + _ROLE_WORDS + r"[._\-]?0*(?P<rank>\d+)(?![\d.]*\d)", re.I),
    lazy_pattern(r"(?<![a-z])(?P<role>chief|master|evaluator)(?![a-z])", re.I),
    # a TPU's machines: t1v-n-6c21d0ab-w-3
    lazy_pattern(r"-n-[0-9a-f]{6,}-w-(?P<rank>\d+)(?!\d)"),
)


def identify(name: str) -> Writer:
    """The rank and role that a file, pod or actor name gives away: ``worker-1``, ``ps_0``, ``rank3.log``."""
    for pattern in _NAMED:
        match = pattern.search(name)
        if match:
            groups = match.groupdict()
            role = (groups.get("role") or "").lower() or None
            if role in ("stdout", "stderr", "out", "err", "log", "task", "proc", "process", "rank"):
                role = None
            if role in ("parameter_server", "parameter-server", "parameterserver"):
                role = "ps"
            if role in ("node", "host") or role == "launcher":
                return Writer(key=name, node=match.group(0), role=None, name=name)
            rank = groups.get("rank")
            index = as_rank(rank) if rank is not None else 0
            return Writer(key=name, rank=index, role=role, name=name)
    return NOBODY
