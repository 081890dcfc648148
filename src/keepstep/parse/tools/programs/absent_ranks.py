# SPDX-License-Identifier: Apache-2.0
"""Who did not come, in the words of programs, launchers and watchdogs: "7/8 ranks at the barrier, missing: rank 5"."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import RendezvousTimeout
from keepstep.model.facts.sync import RanksMissing
from keepstep.model.identity import MOST_RANKS
from keepstep.parse.scan.signature import by_hand, signature

MOST_NAMED = 64
LIKE_A_PID = 1000
"""From here on, the number after "process" is more likely the operating system's."""
_MEMBERS = r"(?:global )?(?:ranks?|workers?|process(?:es)?|procs?|tasks?|replicas?|hosts?)"
_LIST = r"\d{1,5}(?:(?:, ?| and |, and |-)\d{1,5})*"
_NAMED = rf"(?P<as>{_MEMBERS}[ =:#_-]{{0,2}}[\[({{]?|[\[({{])?(?P<ranks>{_LIST})\b(?![./:]\d)"
_COME = r"(?:arrived?|join(?:ed)?|reach(?:ed)?|enter(?:ed)?|respond(?:ed)?|check(?:ed)? in|register(?:ed)?|show(?:n|ed)? up)"
_NOT = r"(?:did not|didn't|do not|never|has not|have not|haven't|hasn't|not(?: yet)?|failed to)(?: yet)?"
_OF_RANKS = lazy_pattern(rf"(?<!local )(?<!local_)\b(?:global[ _])?ranks?[ =:#_-]{{0,2}}[\[({{]?(?P<ranks>{_LIST})")
_GAVE_UP = lazy_pattern(r"(?i)time[d-]? ?out|\b\w*Error\b|gave up|giving up|abort")
_KNOWN = lazy_pattern(
    r"(?i)horovod|monitoredBarrier|coordination|/job:|store[- ]based|clients joined|One or more tensors|torchfrtrace"
)
"""Framework's own messages, which have tables of their own."""


def _ranks(text: str) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", text):
        for rank in range(int(low), min(int(high or low), int(low) + MOST_NAMED) + 1):
            found[rank] = None
    return tuple(rank for rank in found if rank < MOST_RANKS)


def _absent(match: re.Match[str]) -> Fact | None:
    """The ranks that are named, by their rank where a place on a node is given as well."""
    text = match.string
    if _KNOWN.search(text) or _is_count(match):
        return None
    rest = text[match.start("ranks") - 12 if match.start("ranks") > 12 else 0 : match.end() + 80].partition("\n")[0]
    named = [each["ranks"] for each in _OF_RANKS.finditer(rest)]
    if not named and "local" in rest.lower():
        return None
    missing = _ranks(" ".join(named) or match["ranks"])
    if not named and "proc" in match[0] and max(missing, default=0) >= LIKE_A_PID:
        return None
    return RanksMissing(missing=missing, what="barrier", final=bool(_GAVE_UP.search(text))) if missing else None


def _is_count(match: re.Match[str]) -> bool:
    """Whether the number may be how many are missing, not which: ``7/8 ranks, missing: 1``."""
    said = match.groupdict()
    if said.get("as") or not said.get("here"):
        return False
    return said["ranks"] == str(int(said["all"]) - int(said["here"]))


def _not_all(match: re.Match[str]) -> Fact | None:
    said, expected = match.groupdict(), int(match["expected"])
    joined = expected - int(said["absent"]) if said.get("absent") else int(said.get("joined") or 0)
    if _KNOWN.search(match.string) or not 0 <= joined < expected:
        return None
    return RendezvousTimeout(joined=joined, expected=expected, where="rendezvous")


_DIGITS = tuple("0123456789")
_STARTS = ("rank", "worker", "proc", "task", "replica", "host", "global ", "the ", "[", "{", "(", *_DIGITS)
_ABSENT = tuple(
    f"{word}{start}" for word in ("missing: ", "missing ", "missing=", "absent: ", "absent ") for start in _STARTS
)
_AWAITED = tuple(f"aiting {to} {start}" for to in ("for", "on") for start in _STARTS)
_WORDS = ("arriv", "join", "reach", "enter", "respond", "check", "regist", "show", "call")
_NOT_COME = tuple(f"{no} {word}" for no in ("not", "n't", "never", "to", "yet") for word in _WORDS)
_MANY = ("nodes", "workers", "ranks", "processes", "hosts", "tasks", "members", "agents")

SIGNATURES = (
    # 703/704 processes at barrier X, missing: rank 48; only 7 of 8 ranks joined, still waiting for [5]
    signature(
        rf"\b(?P<here>\d{{1,6}}) ?(?:/|of|out of) ?(?P<all>\d{{1,6}}) {_MEMBERS}\b[^\n]{{0,120}}?\b(?:missing(?:: ?|=| )|absent:? |waiting (?:for|on) (?=[\[{{(a-z]))"
        rf"(?:the )?{_NAMED}",
        _absent,
        anchors=by_hand("counts of members are on many lines", *_ABSENT, *_AWAITED),
    ),
    # waiting for 1 of 8 ranks: [5]
    signature(
        rf"\b[Ww]aiting (?:for|on) \d{{1,6}} ?(?:/|of|out of) ?\d{{1,6}} {_MEMBERS}(?: to \w+)?[ :=(]{{1,3}}{_NAMED}",
        _absent,
        anchors=by_hand("its words are common", *_AWAITED),
    ),
    # 7 of 8 processes joined; process 3 is missing
    signature(
        rf"\b\d{{1,6}} ?(?:/|of|out of) ?\d{{1,6}} {_MEMBERS} [^\n]{{0,60}}?\b{_MEMBERS}[ =:#-]{{0,2}}(?P<ranks>{_LIST}) (?:is|are) (?:missing|absent)",
        _absent,
        anchors=by_hand("counts of members are on many lines", "is missing", "are missing", "is absent", "are absent"),
    ),
    # missing ranks: [3], Missing ranks at barrier 'save': 12; in braces and on lines below by torchfrtrace and Horovod
    signature(rf"\b[Mm]issing ranks?(?:(?: (?:at|in|from) [^\n:]{{1,60}})?[:=][ \t]?|[ \t](?=[\d\[(]))(?!\{{){_NAMED}", _absent),
    # Arrived: 0,1,2. Missing: 3
    signature(
        rf"\b(?:[Aa]rrived|[Jj]oined|[Pp]resent)[ :=]{{1,3}}[\[({{]?\d[\d, ]{{0,400}}[\])}}]?[.;,] ?[Mm]issing[ :=]{{1,3}}{_NAMED}",
        _absent,
    ),
    # rank 5 never reached the barrier, ranks [3, 7] did not arrive
    signature(
        rf"\b{_MEMBERS}[ =:#-]{{0,2}}[\[({{]?(?P<ranks>{_LIST})[\])}}]? {_NOT} {_COME}\b(?! (?:the )?(?:end|max|target|goal|limit)\b)",
        _absent,
        anchors=by_hand("its words are common", *_NOT_COME),
    ),
    # 1 out of 8 ranks did not respond: [6]; the following ranks have not arrived: 1, 2
    signature(
        rf"\b{_MEMBERS} {_NOT} (?:{_COME}|call(?:ed)?)\b[^\n:]{{0,60}}: {_NAMED}",
        _absent,
        anchors=by_hand("its words are common", *_NOT_COME),
    ),
    # still waiting for ranks 3 and 7; timed out waiting for processes {3, 5} at barrier
    signature(
        rf"(?:[Ss]till|[Tt]imed? ?out(?: after [\d.]{{1,9}} ?\w{{1,9}})?,?) waiting (?:for|on) {_MEMBERS}[ =:#-]{{0,2}}[\[({{]?(?P<ranks>{_LIST})\b",
        _absent,
        anchors=by_hand("its words are common", *_AWAITED),
    ),
    # Rendezvous timed out: 3/4 nodes joined
    signature(
        r"(?:[Tt]imed? ?out|[Tt]imeout|TIMEOUT)\b[^\n]{0,80}?\b(?P<joined>\d{1,6}) ?(?:/|of|out of) ?(?P<expected>\d{1,6}) "
        rf"(?:{'|'.join(_MANY)})(?: have| had)? (?:joined|arrived|registered|connected|reported in)",
        _not_all,
        anchors=by_hand(
            "time-outs are on many lines",
            *(f"{who} {came}" for who in _MANY for came in ("joined", "arrived", "registered", "connected", "reported", "have ", "had ")),
        ),
    ),
    # Timed out waiting for 1 of 4 nodes
    signature(
        rf"[Tt]imed? ?out waiting for (?P<absent>\d{{1,6}}) ?(?:/|of|out of) ?(?P<expected>\d{{1,6}}) (?:{'|'.join(_MANY)})",
        _not_all,
        anchors=by_hand("its words are common", *(f"out waiting for {digit}" for digit in _DIGITS)),
    ),
)  # fmt: skip
