# SPDX-License-Identifier: Apache-2.0
"""Whether a trial failed as the original did, by keepstep's own report and by what the failing rank held."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from keepstep.guard.record.trial_record import SAME_NUMBERS
from keepstep.shrink.program import Place, Program, Rendered, own_parts

NUMBER = re.compile(r"(?:(?<![A-Za-z_\d])|(?<=\dx))[-+]?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)", re.IGNORECASE)
LISTS = re.compile(r"#(?:\s*[,x]\s*#)+")
SIZES = re.compile(r"\b(?:shapes?|sizes?|dim|dimensions?|channels?|features?|elements?|lengths?)\b", re.IGNORECASE)
VALUES = re.compile(r"\b(?:index|indices|out of (?:range|bounds)|target)\b", re.IGNORECASE)
ISSUED_AT = re.compile(r"issued [^;]{0,200}? at ([\w.-]+\.py):(\d+)")
OF_COLLECTIVES = "sync."
FRAME = re.compile(r'File "([^"]+)", line (\d+)')
RELAYED, SPAWNED = "ProcessRaisedException", re.compile(r"-- Process (\d+) terminated")
CRASH, CRASHED = "user.native_crash", "\nCurrent thread 0x"
TRANSPORT = ("RuntimeError", "DistBackendError")
ANY_RANK = "several"
ABSENT = "the path"
"""What is held of a file that is not there."""
SAME = ("cause", "verdict", "raised", "signal", "at")
STABLE = ("words", "again", "not_finite", "elsewhere")
"""Part of the failure where two runs of the original agree on it."""


@dataclass(frozen=True)
class Failure:
    """How a run failed. Lines are those of the original program."""

    verdict: str
    cause: str
    rule: str
    title: str
    who: str
    """``only``, ``first`` (rank 0), ``one`` (another one) or ``several``."""
    rank: int | None = None
    world: int = 1
    raised: str | None = None
    words: str | None = None
    """The exception's message without its numbers; None: none, or another one in each run."""
    signal: str | None = None
    at: tuple[Place, ...] = ()
    """The user's line that failed, or those where ranks are stuck."""
    through: tuple[Place, ...] = ()
    """The lines of the program that were being called, from the outside."""
    held: tuple[tuple[str, str], ...] = ()
    """Of the names in the failing statement and in the conditions around it: what they were."""
    numbers: tuple[str, ...] | None = None
    """Those in the message."""
    again: bool | None = None
    """Whether the same rank had passed the failing line before (of a hang or a crash: any rank)."""
    not_finite: Place | None = None
    """The first line after which a number of the failing rank was not finite."""
    elsewhere: tuple[Place, ...] | None = None
    """Where the rank was that let the others wait until they raised: its lines, from the inside."""

    @property
    def places(self) -> tuple[Place, ...]:
        """The lines that belong to it."""
        return (*self.at, *self.through, *(self.elsewhere or ()))

    @property
    def is_of_sizes(self) -> bool:
        """Whether the message's numbers are sizes, which only the program's own numbers can change."""
        return self.words is not None and bool(SIZES.search(self.words)) and not VALUES.search(self.words)

    @property
    def is_of_values(self) -> bool:
        """Whether another number in the place of one that the failing line gets may be another reason."""
        ended = self.raised is not None or self.signal is not None
        return ended and not self.is_of_sizes and not self.cause.startswith(OF_COLLECTIVES)


def failure_of(
    seen: Mapping[str, Any], program: Program, made: Mapping[str, Rendered], world: int | None
) -> Failure | None:
    """How the trial failed; None if it did not, or nothing was found."""
    report = seen.get("report") or {}
    findings = report.get("findings") or []
    if not findings or findings[0]["severity"] != "fatal":
        return None
    root = findings[0]
    ranks = root["ranks"]
    raised = sorted((each for each in seen["values"] if each), key=lambda each: each["at"])
    itself = [each for each in raised if each["type"] != RELAYED]
    raised = itself or [_of_the_spawned(each, made) for each in raised]
    mine = [each for each in raised if each["rank"] in ranks]
    if root["cause"] != CRASH:  # what others raise because one crashed is no part of it
        mine = mine or raised
    hung = report["verdict"] == "hung"
    first = mine[0] if mine and not hung else None
    alike = {
        each["rank"] for each in raised if first and (each["type"], each["line"]) == (first["type"], first["line"])
    }
    apart = _issued_apart(root, made) if not hung else ()
    if apart:
        first = None  # which rank notices first that the others do something else, and how, is chance
    size = world or 1 + max([*ranks, *(each["rank"] for each in raised), 0])
    places: tuple[Place, ...] = ()
    held: tuple[tuple[str, str], ...] = ()
    through: Sequence[Place | None] = ()
    again = not_finite = None
    if first is not None:
        again = first.get("again")
        if first.get("not_finite"):
            file, line = first["not_finite"]
            not_finite = carried(file, line, made)
        through = [carried(file, line, made) for file, line in first["stack"]]
        place = carried(first["file"], first["line"], made)
        places = (place,) if place else ()
        held = tuple(_held(first["values"], program, place)) if place else ()
        held += ((ABSENT, first["absent"]),) if first.get("absent") else ()
    elif hung:
        stacks = list(_stacks(seen, made))
        places = tuple(sorted({stack[0] for stack in stacks}))
        through = sorted({place for stack in stacks for place in stack})
    else:
        crashed = [] if apart else _in_logs(seen, ranks, made)
        places, through = apart or tuple(crashed[:1]), crashed[::-1]
    # how the transport tells one rank that another is out of step is chance
    let_wait = first is not None and first["rank"] not in ranks
    elsewhere = next(map(tuple, _stacks(seen, made, ranks[:1])), None) if let_wait else None
    lost = first is not None and root["cause"].startswith(OF_COLLECTIVES) and first["type"] in TRANSPORT
    if first is None and "again" in seen:
        passed = {carried(file, line, made) for file, line in seen["again"]}
        again = all(place in passed for place in places) if places else None
    return Failure(
        verdict=report["verdict"],
        cause=root["cause"],
        rule=root["rule"],
        title=root["title"],
        who=ANY_RANK if apart else _who(set(ranks) | alike, size),
        rank=ranks[0] if ranks else None,
        world=size,
        raised=first["type"] if first else None,
        words=without_numbers(first["message"]) if first and not lost else None,
        signal=_signal(seen["exits"], ranks) if first is None and not hung and not apart else None,
        at=places,
        through=tuple(each for each in through if each is not None),
        held=held,
        numbers=tuple(NUMBER.findall(first["message"][:300])) if first and not lost else None,
        again=again,
        not_finite=not_finite,
        elsewhere=elsewhere,
    )


def _of_the_spawned(told: Mapping[str, Any], made: Mapping[str, Rendered]) -> Mapping[str, Any]:
    """What `mp.spawn` tells of one of its processes, as that process itself would have told it."""
    rank, text = SPAWNED.match(told["message"].lstrip()), told["message"].rstrip().rpartition("\n")[2]
    kind, _, message = text.partition(": ")
    stack = [(file, int(line)) for file, line in FRAME.findall(told["message"])]
    stack = [place for place in stack if carried(*place, made) is not None]
    if rank is None or not stack or not kind.replace(".", "").isidentifier():
        return told
    itself = {"rank": int(rank[1]), "type": kind.rpartition(".")[2], "message": message, "values": {}, "stack": stack}
    return {"at": told["at"], "file": stack[-1][0], "line": stack[-1][1], **itself}


def difference(wanted: Failure, found: Failure | None) -> str | None:
    """Why it is not the same failure; None if it is."""
    if found is None:
        return "it did not fail"
    for name in SAME:
        if getattr(wanted, name) != getattr(found, name):
            return f"{name}: {getattr(found, name)}"
    if wanted.cause.startswith(OF_COLLECTIVES) and wanted.rule != found.rule:
        return f"rule: {found.rule}"
    for name in STABLE:
        known = getattr(wanted, name) is not None and (name in ("words", "elsewhere") or found.again is not None)
        if known and getattr(wanted, name) != getattr(found, name):
            return f"{name}: {getattr(found, name)}"
    if wanted.raised and wanted.through and wanted.through != found.through:
        return "it was called from elsewhere"
    if found.world > 1 and wanted.who != found.who and wanted.who != ANY_RANK:
        return f"who: {found.who}"
    before, now = dict(wanted.held), dict(found.held)
    changed = [name for name in before if name in now and before[name] not in (now[name], now[name] + SAME_NUMBERS)]
    return f"{changed[0]} was {before[changed[0]]}, is {now[changed[0]]}" if changed else None


def other_numbers(wanted: Failure, found: Failure, literal: Mapping[str, set[str]], *, free: bool) -> str | None:
    """Why the message's numbers say that it is another failure: equal ones differ, a value is on the other side of
    its bound, or a size that the program names is no longer what the program says.

    ``literal``: what the program's own numbers became. ``free``: ranks, options or data, which may change sizes, were
    changed too.
    """
    if not wanted.numbers or found.numbers is None or wanted.words is None:
        return None
    told = f"numbers: {', '.join(found.numbers)}"
    if len(wanted.numbers) != len(found.numbers):
        return None if free else told
    if _order(wanted.numbers, found.numbers, wanted.is_of_sizes) != _order(
        found.numbers, wanted.numbers, wanted.is_of_sizes
    ):
        return told
    if wanted.is_of_sizes and not free:
        for was, is_now in zip(wanted.numbers, found.numbers, strict=True):
            if was and is_now not in literal.get(was, {is_now} if literal else {was}):
                return f"{was} became {is_now}"
    return None


def _order(numbers: Sequence[str], others: Sequence[str], only_equal: bool) -> list[int]:
    """Of each pair that is known of both: which is larger, or only whether they are equal."""
    known = [
        float.fromhex(a) if "x" in a.lower() else float(a) for a, b in zip(numbers, others, strict=True) if a and b
    ]
    signs = [(a > b) - (a < b) for a, b in combinations(known, 2)]
    return [abs(sign) for sign in signs] if only_equal else signs


def _stable(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...] | None:
    return tuple(a if a == b else "" for a, b in zip(one, other, strict=True)) if len(one) == len(other) else None


def _float(text: str) -> float | None:
    try:
        return float(int(text, 16)) if "x" in text.lower() else float(text)
    except ValueError:
        return None


def without_places(failure: Failure) -> Failure:
    """For the same program in other files, where no line has the place that it had."""
    return replace(failure, at=(), through=(), held=(), again=None, not_finite=None, elsewhere=None)


def failure_of_json(said: Mapping[str, Any]) -> Failure:
    """As `dataclasses.asdict` and JSON made it."""
    pairs = {name: tuple(map(tuple, said[name])) for name in ("at", "through", "held")}
    numbers, not_finite = (None if said[name] is None else tuple(said[name]) for name in ("numbers", "not_finite"))
    pairs["elsewhere"] = said["elsewhere"] and tuple(map(tuple, said["elsewhere"]))
    return Failure(**{**said, **pairs, "numbers": numbers, "not_finite": not_finite})


def common(one: Failure, other: Failure | None) -> Failure | None:
    """What two runs of one program share, if it is one failure: words, rank and values may be others each time."""
    if other is None or any(getattr(one, name) != getattr(other, name) for name in SAME):
        return None
    agreed: dict[str, Any] = {name: getattr(one, name) for name in STABLE if getattr(one, name) == getattr(other, name)}
    return replace(
        one,
        **{**dict.fromkeys(STABLE), **agreed},
        through=one.through if one.through == other.through else (),
        numbers=_stable(one.numbers or (), other.numbers or ()),
        who=one.who if one.who == other.who else ANY_RANK,
        held=tuple(each for each in one.held if dict(other.held).get(each[0], each[1]) == each[1]),
    )


def carried(file: str, line: int, made: Mapping[str, Rendered]) -> Place | None:
    """The statement of the original program that a line of a candidate comes from."""
    rendered = made.get(file)
    if rendered is None or not 0 < line <= len(rendered.origins):
        return None
    return rendered.origins[line - 1]


def without_numbers(message: str) -> str:
    """The words of a message: other sizes give other numbers, and no other failure."""
    return LISTS.sub("#", NUMBER.sub("#", message))[:300]


def _who(ranks: set[int], world: int) -> str:
    if world <= 1:
        return "only"
    if len(ranks) != 1:
        return ANY_RANK
    return "first" if ranks == {0} else "one"


def _held(values: Mapping[str, str], program: Program, place: Place) -> Iterator[tuple[str, str]]:
    node = program.statement_at(*place)
    if node is None:
        return
    asked = [node]
    for each in program.above(node):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
        if isinstance(each, (ast.If, ast.While)):
            asked.append(each)
    parts = [part for each in asked for part in own_parts(each)]
    names = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    for part in parts:
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            names.add(f"{part.value.id}.{part.attr}")
    yield from sorted((name, values[name]) for name in names if name in values)


def _stacks(
    seen: Mapping[str, Any], made: Mapping[str, Rendered], ranks: Sequence[int] | None = None
) -> Iterator[list[Place]]:
    """The lines of the program in each stack of a rank, from the inside."""
    for each in seen["stacks"]:
        if ranks is not None and (each.get("rank") or {}).get("index") not in ranks:
            continue
        frames = each["fields"]["frames"] if each["fact"] == "StackDump" else ()
        places = [carried(frame.get("file") or "", frame.get("line") or 0, made) for frame in frames]
        if found := [place for place in places if place is not None]:
            yield found


def _in_logs(seen: Mapping[str, Any], ranks: list[int], made: Mapping[str, Rendered]) -> list[Place]:
    """Where a rank was when a signal ended it, from the inside, as Python's fault handler wrote."""
    for rank in ranks[:1]:
        text = seen["logs"].get(f"rank{rank}.log") or "".join(seen["logs"].values())
        thread = (text.rpartition(CRASHED)[2] or text).partition("\n\n")[0]
        places = [carried(file, int(line), made) for file, line in FRAME.findall(thread)]
        return [place for place in places if place is not None]
    return []


def _issued_apart(root: Mapping[str, Any], made: Mapping[str, Rendered]) -> tuple[Place, ...]:
    """The lines of collectives that do not belong together, as the report names them."""
    found = set()
    for name, line in ISSUED_AT.findall(root["title"]) if root["cause"].startswith(OF_COLLECTIVES) else ():
        files = [file for file in made if os.path.basename(file) == name]
        place = carried(files[0], int(line), made) if len(files) == 1 else None
        found |= {place} if place else set()
    return tuple(sorted(found))


def _signal(exits: list[dict[str, Any]], ranks: list[int]) -> str | None:
    for each in exits:
        if each["fact"] == "ProcessExited" and (each.get("rank") or {}).get("index") in ranks:
            found: str | None = each["fields"].get("signal")
            return found
    return None
