# SPDX-License-Identifier: Apache-2.0
"""Reports and evidence as plain dictionaries, ready for JSON, and evidence back again.

:func:`report_to_dict` is the public document ``keepstep.report/1``; keys may be added, never
changed. :func:`to_dict` and :func:`from_dict` carry evidence without loss, by the fact's class name
and fields. Nothing is redacted here: see :func:`keepstep.base.redact.redacted`.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import types
import typing
from collections.abc import Iterable
from datetime import datetime, timezone
from enum import Enum
from functools import cache
from typing import Any

import keepstep.model.facts
from keepstep.model.code_place import CodePlace
from keepstep.model.evidence import Coverage, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Finding, Fix
from keepstep.model.identity import MOST_RANKS, Rank
from keepstep.model.report import SCHEMA, ClockOffset, RanksEnd, Report

LONGEST_S = 1e9
"""JSON has no infinity."""
MOST_EVIDENCE = 20
LONGEST_QUOTE = 4000
NOT_FINITE = ("nan", "inf", "-inf")
"""How these numbers are written, which JSON does not have."""


def report_to_dict(report: Report) -> dict[str, Any]:
    """The public document of a report."""
    return {
        "schema": SCHEMA,
        "verdict": report.verdict.value,
        "findings": [_finding(finding) for finding in report.findings],
        "coverage": [_coverage(each) for each in report.coverage],
        "skipped": [{"rule": crash.rule, "error": crash.error} for crash in report.crashed],
        "ranks": list(report.ranks),
        "world_size": report.world_size,
        "alive": list(report.alive),
        "ended": [_end(each) for each in report.ended],
        "hosts": {str(rank): host for rank, host in report.hosts},
        "story": list(report.story),
        "during": list(report.during),
        "earlier_runs": list(report.earlier),
        "clocks": [_clock(each) for each in report.clocks],
        **({"notes": [{"says": n.says, "command": n.command} for n in report.notes]} if report.notes else {}),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "cause": finding.cause.value,
        "role": finding.role.value,
        "confidence": finding.confidence.value,
        "severity": finding.severity.value,
        "ranks": list(finding.ranks),
        "placed": list(finding.placed),
        "attempt": finding.attempt,
        "title": finding.title,
        "because": finding.because,
        "evidence": [_shown(each) for each in representative(finding.evidence)],
        "evidence_total": len(finding.evidence),
        "fixes": [_fix(fix) for fix in finding.fixes],
    }


def _shown(evidence: Evidence[Fact]) -> dict[str, Any]:
    return {
        "source": evidence.origin.source,
        "line": evidence.origin.line,
        "quote": evidence.quote[:LONGEST_QUOTE],
        "rank": evidence.who,
        "at": moment(evidence.known_at),
        **(_columns(evidence.fact) if isinstance(evidence.fact, CodePlace) else {}),
    }


def _columns(place: CodePlace) -> dict[str, Any]:
    return {
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "path": [{"source": source, "line": line, "quote": quote} for source, line, quote in place.path],
    }


def _fix(fix: Fix) -> dict[str, Any]:
    plain = {"do": fix.do, "command": fix.command, "code": fix.code, "safety": fix.safety.value}
    return {**plain, "edit": _fields(fix.edit)} if fix.edit is not None else plain


def _coverage(each: Coverage) -> dict[str, Any]:
    return {"what": each.what, "state": each.state.value, "why": each.why}


def _end(each: RanksEnd) -> dict[str, Any]:
    return {
        "ranks": list(each.ranks),
        "log": each.log,
        "proof": each.proof,
        "step": each.step,
        "of": each.of,
        "at": moment(each.at),
        "silent_s": each.silent_s,
        "usual_s": each.usual_s,
    }


def _clock(each: ClockOffset) -> dict[str, Any]:
    return {
        "logs": list(each.logs[:MOST_EVIDENCE]),
        "ranks": list(each.ranks),
        "node": each.node,
        "ahead_s": each.offset_s,
        "within_s": each.within_s,
        "events": each.events,
        "by": each.by,
        "against": list(each.against),
        "time_zone": each.zone,
    }


def representative(evidence: Iterable[Evidence[Fact]], most: int = MOST_EVIDENCE) -> list[Evidence[Fact]]:
    """The first piece from each rank and of each kind of fact, in order, bounded. Never empty if there is any.

    Of a program, each line is a piece of its own."""
    known: set[tuple[int | None, str, type[Fact], int | None]] = set()
    chosen: list[Evidence[Fact]] = []
    for each in evidence:
        writer = "" if each.who is not None else f"{each.origin.source}\n{each.origin.stream}"
        place = each.origin.line if isinstance(each.fact, CodePlace) else None
        key = (each.who, writer, type(each.fact), place)
        if key not in known:
            known.add(key)
            chosen.append(each)
            if len(chosen) == most:
                break
    return chosen


def moment(at: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC; None for an impossible time."""
    if at is None or not math.isfinite(at):
        return None
    try:
        when = datetime.fromtimestamp(at, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_dict(evidence: Evidence[Fact]) -> dict[str, Any]:
    """Evidence as a dictionary that :func:`from_dict` understands. Defaults are left out."""
    found: dict[str, Any] = {
        "fact": type(evidence.fact).__name__,
        "fields": _fields(evidence.fact),
        "origin": _fields(evidence.origin),
    }
    if evidence.rank is not None:
        found["rank"] = _fields(evidence.rank)
    if evidence.at is not None:
        found["at"] = _plain(evidence.at)
    if evidence.quote:
        found["quote"] = evidence.quote
    if evidence.within_s:
        found["within_s"] = _plain(evidence.within_s)
    if evidence.later_s:
        found["later_s"] = min(evidence.later_s, LONGEST_S)
    return found


def from_dict(found: dict[str, Any]) -> Evidence[Fact]:
    """Evidence from its dictionary. Raises ``ValueError`` for anything else.

    Fields that this version does not know are ignored, so older readers still work.
    """
    try:
        kind = fact_types()[found["fact"]]
        read: Evidence[Fact] = Evidence(
            fact=build(kind, found["fields"]),
            origin=build(Origin, found["origin"]),
            rank=build(Rank, found["rank"]) if found.get("rank") is not None else None,
            at=_typed(found.get("at"), float | None),
            quote=_typed(found.get("quote", ""), str),
            within_s=_typed(found.get("within_s", 0.0), float),
            later_s=_typed(found.get("later_s", 0.0), float),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not evidence: {type(error).__name__}: {error}") from error
    if read.rank is not None and not 0 <= read.rank.index < MOST_RANKS:
        raise ValueError(f"not evidence: there is no rank {read.rank.index}")
    if read.at is not None and not math.isfinite(read.at):
        raise ValueError(f"not evidence: {read.at} is not a time")
    if not read.within_s >= 0:
        raise ValueError(f"not evidence: {read.within_s} is not a length of time")
    return read


@cache
def fact_types() -> dict[str, type[Fact]]:
    """Every kind of fact by its name, found by walking the package."""
    package = keepstep.model.facts
    modules = [importlib.import_module(i.name) for i in pkgutil.iter_modules(package.__path__, package.__name__ + ".")]
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Fact) and kind.__module__ == module.__name__
    }


def _fields(thing: Any) -> dict[str, Any]:
    found = {}
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            found[field.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # NOT_FINITE
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return _fields(value)
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@cache
def _known(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind))


def build(kind: Any, found: dict[str, Any]) -> Any:
    """A dataclass from the fields in ``found`` that it knows, each of the right type.

    Raises ``TypeError``, ``ValueError`` or ``AttributeError`` if one has the wrong type or is missing.
    """
    known = _known(kind)
    return kind(**typed_fields(kind, {name: value for name, value in found.items() if name in known}))


def typed_fields(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Fields of a dataclass as it has them, from plain values. Raises as :func:`build` does."""
    hints = _hints(kind)
    return {name: _typed(value, hints[name]) for name, value in found.items()}


def _typed(value: Any, hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _typed(value, next(h for h in typing.get_args(hint) if h is not type(None)))
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{_shortly(value)} is not a list")
        inner = typing.get_args(hint)
        if origin is list or (len(inner) == 2 and inner[1] is Ellipsis):
            return origin(_typed(each, inner[0]) for each in value)
        return tuple(_typed(each, one) for each, one in zip(value, inner, strict=True))
    if dataclasses.is_dataclass(hint):
        return build(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if hint is float and (_is_number(value) or value in NOT_FINITE):
        return float(value)
    if not isinstance(value, hint) or (hint is int and not _is_number(value)):
        raise TypeError(f"{_shortly(value)} is not {getattr(hint, '__name__', hint)}")
    return value


def _is_number(value: Any) -> bool:
    """A number of bounded size: arithmetic with hundreds of digits is not safe."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64)


def _shortly(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, str) else type(value).__name__
