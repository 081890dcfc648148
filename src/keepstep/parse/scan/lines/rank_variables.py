# SPDX-License-Identifier: Apache-2.0
"""Who a process is, by the environment variables and arguments that launchers give it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keepstep.base.launchers import JAX, JAX_SCRIPTS, LAUNCHERS, TF_CONFIG, TORCHRUN, Launcher, Trust
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMember:
    """A process's place in its job. ``by``: the variable or argument that said so."""

    rank: int
    world: int | None = None
    local: int | None = None
    local_world: int | None = None
    role: str | None = None
    by: str = ""
    job: str | None = None
    """What the members of one job have in common, where the variables say it."""


_JOBS = (*JAX_SCRIPTS.meeting, *JAX.meeting, *(name for each in LAUNCHERS for name in each.job))
NAMES = tuple(name for each in LAUNCHERS for name in (*each.rank, *each.size, *each.local_rank, *each.local_size))
"""The variables that say something."""

_ARGUMENT = lazy_pattern(
    r"^--?(?:(?:global[_-]?)?rank|process[_-]id|task[_-](?:index|id)|worker[_-]index|local[_-]rank)(?:=(?P<rank>\d+))?$"
)
_JOB_ARGUMENT = lazy_pattern(r"^--?(?:job[_-]name|task[_-]type)(?:=(?P<job>[a-z_]+))?$")
LARGEST_RANK = 10_000_000
_ADDRESS = lazy_pattern(r"^(?:localhost|[\w.\-]{1,200}|\[[0-9a-fA-F:.]{2,60}\]):\d{2,5}$")
_BARE_ADDRESS = lazy_pattern(r"^(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]{2,60}\]):\d{2,5}$")
_MEETING_ARGUMENT = lazy_pattern(
    r"^--?[\w\-]{0,40}(?:coordinator|master|rdzv|rendezvous|chief|init[_-]method|server[_-]addr|dist[_-]url)[\w\-]{0,40}$"
)


def member(environment: Mapping[str, str], arguments: Sequence[str] = ()) -> JobMember | None:
    """The process's rank, if a launcher's variables or its own arguments say so."""
    found = _by_any(environment, arguments)
    return replace(found, job=_job(environment)) if found is not None else None


def meeting_place(environment: Mapping[str, str], arguments: Sequence[str] = ()) -> str | None:
    """Where the process meets the others, if its arguments or a launcher's variables say so."""
    found = (":".join(found) for names in _MEETINGS if all(found := [environment.get(name, "") for name in names]))
    return _place_in(arguments) or next(found, None) or _leader(_value(environment, TF_CONFIG.rank))


def _leader(text: str | None) -> str | None:
    """The first address of a cluster in TF_CONFIG: its coordination service is there."""
    if not text or len(text) > 4 << 20:
        return None
    try:
        cluster = json.loads(text)["cluster"]
        return str(next(cluster[job][0] for job in ("chief", "master", "worker") if cluster.get(job)))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, StopIteration, RecursionError):
        return None


_MEETINGS = (TORCHRUN.meeting, *((name,) for name in (*JAX.meeting, *JAX_SCRIPTS.meeting)))


def _place_in(arguments: Sequence[str]) -> str | None:
    """An address that an option names, else the only bare address among the arguments."""
    words = [str(each) for each in arguments[1:500]]
    for n, word in enumerate(words):
        option, equals, value = word.partition("=")
        value = (value if equals else words[n + 1] if n + 1 < len(words) else "").removeprefix("tcp://")
        if _MEETING_ARGUMENT.match(option) and _ADDRESS.match(value):
            return value
    bare = {word for word in words if _BARE_ADDRESS.match(word)}
    return bare.pop() if len(bare) == 1 else None


def _by_any(environment: Mapping[str, str], arguments: Sequence[str]) -> JobMember | None:
    return (
        _by_variables(environment, Trust.FRAMEWORK)
        or _by_tf_config(_value(environment, TF_CONFIG.rank))
        or _by_variables(environment, Trust.LAUNCHER)
        or _by_arguments(arguments)
        or _by_variables(environment, Trust.BYSTANDERS)
    )


def _job(environment: Mapping[str, str]) -> str | None:
    address = [environment.get(name, "") for name in TORCHRUN.meeting]
    if all(address):
        return ":".join(address)
    if (text := _value(environment, TF_CONFIG.rank)) is not None:
        try:
            return json.dumps(json.loads(text)["cluster"], sort_keys=True)[:2000]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
    return next((environment[name] for name in _JOBS if environment.get(name)), None)


def _by_variables(environment: Mapping[str, str], trust: Trust) -> JobMember | None:
    for launcher in LAUNCHERS:
        for name in launcher.rank if launcher.trust is trust else ():
            if (index := _number(environment.get(name))) is not None:
                return _member(environment, launcher, index, by=name)
    return None


def _member(environment: Mapping[str, str], launcher: Launcher, rank: int, by: str) -> JobMember:
    return JobMember(
        rank=rank,
        world=_number(_value(environment, launcher.size)),
        local=_number(_value(environment, launcher.local_rank)),
        local_world=_number(_value(environment, launcher.local_size)),
        by=by,
    )


def _value(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((environment[name] for name in names if name in environment), None)


def _by_tf_config(text: str | None) -> JobMember | None:
    if not text or len(text) > 4 << 20:
        return None
    try:
        config = json.loads(text)
        task, cluster = config["task"], config.get("cluster", {})
        role, index = str(task["type"]), int(task["index"])
        sizes = {str(job): len(tasks) for job, tasks in cluster.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    before = ("chief", "master") if role == "worker" else ()
    rank = index + sum(sizes.get(job, 0) for job in before)
    world = sum(sizes.get(job, 0) for job in ("chief", "master", "worker")) or None
    return JobMember(rank=rank, world=world, role=role, by=TF_CONFIG.name) if 0 <= rank <= LARGEST_RANK else None


def _by_arguments(arguments: Sequence[str]) -> JobMember | None:
    rank: int | None = None
    role: str | None = None
    for n, argument in enumerate(arguments[:500]):
        after = arguments[n + 1] if n + 1 < len(arguments) else ""
        found = _ARGUMENT.match(argument)
        if found and rank is None:
            rank = _number(found["rank"] or after)
        job = _JOB_ARGUMENT.match(argument)
        if job:
            role = job["job"] or after or None
    return JobMember(rank=rank, role=role, by="arguments") if rank is not None else None


def _number(text: str | None) -> int | None:
    return whole(text) if text is not None and len(text) <= 8 else None
