# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a run: the reports on its attempts as a list, the worst first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from keepstep.base.redact import redact
from keepstep.base.wording import count, duration, ranks_with_hosts
from keepstep.model.cause import Cause
from keepstep.model.identity import MOST_RANKS
from keepstep.signals.goodput import Bucket, Goodput
from keepstep.store.run_folders import AttemptSaid
from keepstep.watch.run_view import Problem

HANGS = ("stopped", "suspected")
MUCH, MOSTLY, LEAST_S = 0.15, 0.7, 5.0
"""A rank slows the others down if they wait for it during this share of their training, and during this share of all
that they wait, and for so many seconds each."""
MOST_PROBLEMS, MOST_FIXES, MOST_QUOTES, LONGEST = 40, 6, 12, 2000


def problems(
    reports: Mapping[int, Mapping[str, Any]], attempts: Sequence[AttemptSaid], *, world: int, costs: str
) -> tuple[Problem, ...]:
    """``reports``: documents ``keepstep.report/1`` by attempt. ``costs``: what the last attempt loses now."""
    found: list[Problem] = []
    for said in reversed(attempts):
        report = reports.get(said.number, {})
        hosts = {int(k): _text(v) for k, v in _items(report.get("hosts")) if k.isdecimal()}
        is_last = said is attempts[-1]
        findings = list(_dicts(report.get("findings")))
        if said.decision and said.status and not any(each.get("severity") == "fatal" for each in findings):
            findings.insert(0, _undecided(said))
        for place, each in enumerate(findings):
            cost = "" if place else costs if is_last and costs else _spent(said, world)
            decided = "" if place else _decided(said, again=not is_last)
            found.append(_problem(each, hosts, said, cost, decided))
    finished = bool(attempts) and attempts[-1].status == 0
    order = {"initiating": 0, "contributing": 1, "cascade": 2, "teardown": 3}
    found.sort(
        key=lambda each: (
            each.attempt != attempts[-1].number and not finished,
            {"fatal": 0, "warning": 1}.get(each.severity, 2),
            order.get(each.role, 4),
            -(each.attempt or 0),
        )
    )
    return tuple(found[:MOST_PROBLEMS])


def _problem(each: Mapping[str, Any], hosts: Mapping[int, str], said: AttemptSaid, cost: str, decided: str) -> Problem:
    ranks = tuple(rank for rank in _list(each.get("ranks")) if type(rank) is int and 0 <= rank < MOST_RANKS)
    evidence = list(_dicts(each.get("evidence")))
    seen = [at for piece in evidence if (at := _time(piece.get("at"))) is not None]
    return Problem(
        title=_text(each.get("title")) or "an unnamed problem",
        because=_text(each.get("because")),
        cause=_text(each.get("cause")),
        who=ranks_with_hosts(ranks, hosts) if ranks else "no rank in particular",
        ranks=ranks,
        sure=_text(each.get("confidence")),
        severity=_text(each.get("severity")),
        role=_text(each.get("role")),
        attempt=said.number,
        since=min(seen, default=said.told),
        cost=cost,
        decided=decided,
        fixes=tuple(
            (_text(fix.get("do")), _text(fix.get("command")) or _text(fix.get("code")))
            for fix in list(_dicts(each.get("fixes")))[:MOST_FIXES]
        ),
        quotes=tuple(
            (f"{_text(piece.get('source'))}{_line(piece.get('line'))}", _text(piece.get("quote")))
            for piece in evidence[:MOST_QUOTES]
        ),
    )


def slow_rank(found: Goodput, folder: str, *, live: bool, nodes: bool = False) -> Problem | None:
    """The rank that the others wait for during much of their training, if it is mostly one.

    ``nodes``: agents run it, and cannot ask ranks for a profile.
    """
    seconds = sum(found.waited_for.values())
    training = found.buckets.get(Bucket.PRODUCTIVE, 0.0) + seconds
    by_rank: dict[int, float] = {}
    for (rank, _), each in found.waited_for.items():
        by_rank[rank] = by_rank.get(rank, 0.0) + each
    if not by_rank:
        return None
    rank = max(by_rank, key=lambda each: by_rank[each])
    if by_rank[rank] < max(MUCH * training, MOSTLY * seconds, LEAST_S * found.ranks):
        return None
    _, words = max((each for each in found.waited_for if each[0] == rank), key=lambda each: found.waited_for[each])
    share = by_rank[rank] / training
    return Problem(
        title=f"rank {rank} {words}: the others waited for it in {share:.0%} of the training",
        because="that is how busy the ranks' threads were, and how long they were away from their steps, over time",
        cause=Cause.SLOW_STRAGGLER.value,
        who=f"rank {rank}",
        ranks=(rank,),
        sure="supported",
        severity="warning",
        role="initiating",
        attempt=None,
        since=None,
        cost=per_hour(found.ranks, share) if live else f"{duration(by_rank[rank])} of the ranks' time",
        decided="",
        fixes=(("see what it does in its steps", f"keepstep profile {folder} --ranks {rank} --steps 5"),)
        if live and not nodes
        else (),
        quotes=(),
    )


def _undecided(said: AttemptSaid) -> dict[str, Any]:
    """What `keepstep run` acted on, where the report on the end names no cause: a hang leaves little behind."""
    what = _first_words(said)
    ranks = [int(rank) for rank in re.findall(r"^rank (\d{1,7})\b", what)]
    cause = Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK if said.happened in HANGS else Cause.UNKNOWN_NOT_ESTABLISHED
    said_so = "`keepstep run` decided it while the attempt ran; the report on its end names no cause"
    return {"title": what, "because": said_so, "cause": cause.value, "ranks": ranks, "confidence": "hypothesis",
            "severity": "fatal", "role": "initiating"}  # fmt: skip


def _decided(said: AttemptSaid, *, again: bool) -> str:
    """Without the title, which stands above it."""
    if not said.decision:
        return ""
    why = redact(said.decision.removeprefix(said.title or _first_words(said)).lstrip(":;, ").removeprefix("but "))
    return f"restarted: {why}" if again else f"ended the run: {why}" if said.ended is not None else why


def _first_words(said: AttemptSaid) -> str:
    """What the decision is about; behind it stands why."""
    return re.split(r"[:;] ", said.decision or "", maxsplit=1)[0]


def _spent(said: AttemptSaid, world: int) -> str:
    if said.ended is None or said.status == 0:
        return ""
    return f"attempt {said.number}: {duration(max(0.0, said.ended - said.began))} of {count(world, 'rank')}"


def per_hour(world: int, share: float) -> str:
    """What is lost while it goes on."""
    lost = world * share
    return f"{lost:.1f} rank-hours an hour ({share:.0%} of {count(world, 'rank')})" if share > 0 else ""


def told(reports: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the user was told while the run was on, and what is worth knowing."""
    said = [_text(each) for report in reports for each in _list(report.get("during"))]
    said += [_text(each.get("says")) for report in reports for each in _dicts(report.get("notes"))]
    return tuple(dict.fromkeys(said))[:20]


def _text(value: object) -> str:
    return redact(value[:LONGEST]) if isinstance(value, str) else ""


def _line(value: object) -> str:
    return f":{value}" if type(value) is int else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    return (each for each in _list(value)[:200] if isinstance(each, dict))


def _items(value: object) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, dict) else ()


def _time(value: object) -> float | None:
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None
