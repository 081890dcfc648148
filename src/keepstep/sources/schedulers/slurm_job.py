# SPDX-License-Identifier: Apache-2.0
"""A Slurm job, ``slurm:12345``: its output files, and how Slurm says it ended.

``scontrol`` knows the files but forgets a job minutes after its end; ``sacct`` remembers, if accounting is on. Either
alone is enough; the coverage lists what the other would have added.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.errors import Unavailable, UserError
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import MachineFault, Preempted
from keepstep.model.facts.process import ProcessExited, TerminationRequested
from keepstep.model.facts.resource import OomKilled
from keepstep.sources.schedulers.scheduler_answer import Answer, Ask, JobLeft, ask_client

_JOB_ID = lazy_pattern(r"(?P<job>\d+(?:_\d+|\+\d+)?)(?:_\[[\d,\-%]*\])?(?:\.\w+)?")
_COLUMNS = (
    "JobID", "State", "ExitCode", "DerivedExitCode", "MaxRSS", "ReqMem", "Elapsed", "Timelimit", "Start", "End",
    "NodeList", "Reason", "WorkDir", "JobName",
)  # fmt: skip
_UNFINISHED = {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING", "REQUEUED", "STAGE_OUT"}
_ENDED_FROM_OUTSIDE = {"CANCELLED", "PREEMPTED", "TIMEOUT", "DEADLINE", "REVOKED", "REQUEUED"}
_NODE_FAULTS = {"NODE_FAIL": "a node of the job failed", "BOOT_FAIL": "a node of the job could not be booted"}
_LOG_ENDINGS = (".out", ".err", ".log", ".txt", ".gz", ".zst")
_CLOCK_SLACK_S = 120.0
_MOST_ENTRIES = 20_000
_NOBODY = 65534
"""The owner that a network file system shows if it does not know the real one."""


@dataclass(slots=True)
class _SlurmJob:
    """One job, array task or component, merged from both clients."""

    id: str
    state: str = ""
    said: dict[str, str] = field(default_factory=dict)
    steps: list[dict[str, str]] = field(default_factory=list)
    source: str = "sacct"

    @property
    def nodes(self) -> str | None:
        return _told(self.said.get("NodeList"))


def read_slurm_job(job: str, ask: Ask = ask_client) -> JobLeft:
    """Everything that Slurm's clients say about one job, array or array task."""
    match = _JOB_ID.fullmatch(job.strip())
    if not match:
        raise UserError(
            f"not a Slurm job id: {job!r}",
            hint="give its number, for example slurm:12345, or slurm:12345_7 for an array task",
        )
    wanted = match["job"]
    controller = ask(["scontrol", "show", "job", "-o", wanted])
    accounting = ask(["sacct", "-j", wanted, "--parsable2", "--noheader", f"--format={','.join(_COLUMNS)}"])
    if not controller.found and not accounting.found:
        raise Unavailable(
            "neither scontrol nor sacct is on the PATH",
            hint="run keepstep on a login node of the cluster, or give the job's files: keepstep why slurm-JOBID.out",
        )
    jobs = _merged(_controller_jobs(controller.text), _accounting_jobs(accounting.text))
    if not jobs:
        raise Unavailable(
            f"Slurm does not know job {wanted}: {_complaints(controller, accounting)}",
            hint=f"if its files still exist: keepstep why slurm-{wanted}.out",
        )
    coverage = [_asked("Slurm controller (scontrol)", controller), _asked("Slurm accounting (sacct)", accounting)]
    paths: dict[Path, None] = {}
    for one in jobs:
        found, missing = _files(one)
        paths.update(dict.fromkeys(found))
        coverage += missing
        if one.state in _UNFINISHED:
            still = f"it is still {one.state}"
            coverage.append(Coverage(what=f"the end of job {one.id}", state=CoverageState.NOT_CHECKED, why=still))
    return JobLeft(
        name=f"slurm job {wanted}",
        paths=tuple(paths),
        evidence=tuple(e for one in jobs for e in _evidence(one)),
        coverage=tuple(coverage),
        ids=tuple(dict.fromkeys(name for one in jobs for name in (one.id, one.said.get("JobId", "")) if name)),
        folders=tuple(dict.fromkeys(Path(folder) for one in jobs if (folder := _told(one.said.get("WorkDir"))))),
        owner=next((owner for one in jobs if (owner := _owner(one)) is not None), None),
    )


# -- what the clients print ---------------------------------------------------------------------------------------


def _controller_jobs(text: str) -> list[_SlurmJob]:
    """``scontrol show job -o``: one job per line, ``Key=value`` with blanks in some values."""
    jobs = []
    for line in text.splitlines():
        keys = list(re.finditer(r"(?:^| )([A-Z][\w/:]*)=", line))
        said = {
            key[1]: line[key.end() : after.start() if after else None].strip()
            for key, after in zip(keys, [*keys[1:], None], strict=False)
        }
        if "JobId" in said:
            array, task = said.get("ArrayJobId"), said.get("ArrayTaskId", "")
            name = f"{array}_{task}" if array and task.isdecimal() else said["JobId"]
            jobs.append(_SlurmJob(id=name, state=said.get("JobState", ""), said=said, source="scontrol"))
    return jobs


def _accounting_jobs(text: str) -> list[_SlurmJob]:
    """``sacct --parsable2``: a line for the job, then one per step, named ``JOB.STEP``."""
    jobs: dict[str, _SlurmJob] = {}
    for line in text.splitlines():
        values = line.split("|", len(_COLUMNS) - 1)
        if len(values) < len(_COLUMNS):
            continue
        said = dict(zip(_COLUMNS, values, strict=True))
        name, _, step = said["JobID"].partition(".")
        if not step:
            jobs[name] = _SlurmJob(id=name, state=said["State"].split(" ")[0], said=said)
        elif name in jobs:
            jobs[name].steps.append(said)
    return list(jobs.values())


def _merged(controller: list[_SlurmJob], accounting: list[_SlurmJob]) -> list[_SlurmJob]:
    """One entry per job: state and steps from accounting if it knows the job, files from the controller."""
    known = {one.id: one for one in controller}
    for one in accounting:
        if one.id in known:
            one.said = {**known[one.id].said, **{k: v for k, v in one.said.items() if v}}
        known[one.id] = one
    return list(known.values())


def _complaints(*answers: Answer) -> str:
    said = dict.fromkeys(a.complaint for a in answers if a.status or not a.found)
    return "; ".join(said) or "neither client knows it"


def _asked(what: str, answer: Answer) -> Coverage:
    if answer.found and answer.status == 0:
        return Coverage(what=what, state=CoverageState.CHECKED)
    if "Invalid job id" in answer.err:
        why = "it has forgotten the job; its output files were searched for by their usual names"
        return Coverage(what=what, state=CoverageState.UNAVAILABLE, why=why)
    return Coverage(what=what, state=CoverageState.UNAVAILABLE, why=answer.complaint)


def _told(value: str | None) -> str | None:
    return None if value in (None, "", "(null)", "None", "Unknown", "None assigned", "N/A") else value


# -- how it ended ---------------------------------------------------------------------------------------------------


def _evidence(one: _SlurmJob) -> Iterator[Evidence[Fact]]:
    """The facts in the states and exit codes of a job and its steps, each with its quote."""
    yield from _as_evidence(one, _job_facts(one), one.said)
    if one.state in _ENDED_FROM_OUTSIDE or one.state in _UNFINISHED:
        return  # its steps ended because the job was ended
    for step in one.steps:
        if not step["JobID"].endswith((".extern", ".batch")):
            yield from _as_evidence(one, _step_facts(step, one), step)


def _as_evidence(one: _SlurmJob, facts: Iterator[Fact], said: dict[str, str]) -> Iterator[Evidence[Fact]]:
    name = said.get("JobID") or one.id
    state = "State" if "State" in said else "JobState"
    keys = (state, "ExitCode", "DerivedExitCode", "Reason", "NodeList")
    words = [f"{key}={said[key]}" for key in keys if _told(said.get(key))]
    for fact in facts:
        yield Evidence(fact=fact, origin=Origin(source=one.source, stream=name), quote=f"job {name}: {' '.join(words)}")


def _job_facts(one: _SlurmJob) -> Iterator[Fact]:
    said, nodes = one.said, one.nodes
    if one.state == "OUT_OF_MEMORY":
        yield OomKilled(by="Slurm", limit=_told(said.get("ReqMem")))
    elif one.state == "TIMEOUT":
        limit = _told(said.get("Timelimit") or said.get("TimeLimit"))
        reached = f"its time limit of {limit} was reached" if limit else "its time limit was reached"
        yield Preempted(by="Slurm", reason=reached, node=nodes)
    elif one.state == "DEADLINE":
        yield Preempted(by="Slurm", reason="its deadline was reached", node=nodes)
    elif one.state in ("PREEMPTED", "REVOKED"):
        yield Preempted(by="Slurm", reason="a job of higher priority took its place", node=nodes)
    elif one.state in _NODE_FAULTS:
        yield MachineFault(what=f"Slurm: {one.state}, {_NODE_FAULTS[one.state]}", node=nodes)
    elif one.state == "CANCELLED":
        who = re.search(r"by (\d+)", said.get("State", ""))
        yield TerminationRequested(by="user", reason=f"cancelled by user id {who[1]}" if who else "cancelled")
    elif one.state and one.state not in _UNFINISHED:
        yield _exit(said, nodes)


def _step_facts(step: dict[str, str], one: _SlurmJob) -> Iterator[Fact]:
    if step["State"].startswith("OUT_OF_MEMORY"):
        yield OomKilled(by="Slurm", limit=_told(one.said.get("ReqMem")))
        return
    ended = _exit(step, _told(step.get("NodeList")))
    if ended.code or ended.signal:
        yield ended


def _exit(said: dict[str, str], node: str | None) -> ProcessExited:
    """``ExitCode`` is ``code:signal``. A shell that saw signal N exits with 128 + N, of which sacct keeps 7 bits."""
    code, number = _pair(said.get("ExitCode"))
    _, derived = _pair(said.get("DerivedExitCode"))
    if not number and (code > 128 or (derived and derived == code)):
        number = code & 0x7F
    try:
        name = signal.Signals(number).name if number else None
    except ValueError:
        name = None
    return ProcessExited(reporter="Slurm", code=None if name else code, signal=name, node=node)


def _pair(text: str | None) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)


# -- where its output is -------------------------------------------------------------------------------------------


def _files(one: _SlurmJob) -> tuple[list[Path], list[Coverage]]:
    """The files of one job that exist, and those that should."""
    folder = Path(one.said.get("WorkDir") or ".")
    named = {stream: path for stream in ("StdOut", "StdErr") if (path := _told(one.said.get(stream)))}
    found: list[Path] = []
    missing: list[Coverage] = []
    for stream, pattern in named.items():
        here = _expanded(pattern, one, folder)
        found += here
        if not here and one.state != "PENDING":
            what = f"{stream} of job {one.id}, {pattern}"
            where = f"; it may be on the node that wrote it ({one.nodes})" if one.nodes else ""
            missing.append(Coverage(what=what, state=CoverageState.UNAVAILABLE, why=f"no such file here{where}"))
    for place in dict.fromkeys((folder, Path.cwd())):
        found += [
            path for path in (place / f"slurm-{one.id}.out",) if os.path.isfile(path)
        ]  # pathlib raises if the name is too long
    for place in dict.fromkeys((folder, *(path.parent for path in found))):
        found += _beside(place, one)
    theirs = list(dict.fromkeys(path.resolve() for path in found))
    foreign = [path for path in theirs if not _may_be_of(path, one)]
    missing += [
        Coverage(
            what=str(path),
            state=CoverageState.NOT_CHECKED,
            why=f"job {one.id} names it, but it belongs to a user other than the job's",
        )
        for path in foreign
    ]
    return [path for path in theirs if path not in foreign], missing


def _may_be_of(path: Path, one: _SlurmJob) -> bool:
    """Whether a file can be the job's: another user's job may name any of our files as its output, or link to it."""
    owner = _owner(one)
    if owner is None or owner == os.geteuid() or str(path) == os.devnull:
        return True
    try:
        info = path.stat()
    except OSError:
        return True  # its reader will say so
    return stat.S_ISREG(info.st_mode) and info.st_uid in (owner, _NOBODY)


def _owner(one: _SlurmJob) -> int | None:
    match = re.search(r"\((\d{1,10})\)", one.said.get("UserId", ""))
    return int(match[1]) if match else None


def _expanded(pattern: str, one: _SlurmJob, folder: Path) -> list[Path]:
    """The files that Slurm's pattern (``%x-%j.out``) stands for; parts that differ by task match anything."""
    if pattern == "/dev/null":
        return [Path(pattern)]
    array, _, task = one.id.partition("_")
    known = {
        "A": array, "a": task, "j": one.said.get("JobId") or array, "J": one.said.get("JobId") or array,
        "x": one.said.get("JobName", "*"), "u": one.said.get("UserId", "*").partition("(")[0], "%": "%",
    }  # fmt: skip

    def value(match: re.Match[str]) -> str:
        text = known.get(match[2], "*")
        return text.zfill(int(match[1])) if match[1] and text.isdecimal() else text

    name = re.sub(r"%([0-9]{0,2})([A-Za-z%])", value, pattern)
    path = folder / name
    try:
        if "*" not in name:
            return [path] if path.is_file() else []
        return sorted(p for p in path.parent.glob(path.name) if p.is_file())[:_MOST_ENTRIES]
    except (OSError, ValueError):  # not a possible file name
        return []


def _beside(folder: Path, one: _SlurmJob) -> Iterator[Path]:
    """Other files of the same job: named after it (``srun -o log_%j_%t``), or cores, written while it ran."""
    began, ended = _time(one, "Start", "StartTime"), _time(one, "End", "EndTime")
    try:
        entries = [entry for _, entry in zip(range(_MOST_ENTRIES), folder.iterdir(), strict=False)]
    except OSError:
        return
    for path in sorted(entries):
        by_name = path.name.endswith(_LOG_ENDINGS) and _is_named_after(path.name, one)
        if not by_name and not re.fullmatch(r"core([._-].*)?", path.name):
            continue
        try:
            written = path.stat().st_mtime if path.is_file() else 0.0
        except OSError:
            continue
        if began is None:
            in_time = by_name
        else:
            in_time = began - _CLOCK_SLACK_S <= written <= (ended or time.time()) + _CLOCK_SLACK_S
        if written and in_time:
            yield path


def _is_named_after(name: str, one: _SlurmJob) -> bool:
    """Whether a file's name holds the job's number; a short number must come first: elsewhere it may mean anything."""
    array, _, task = one.id.partition("_")
    numbers = re.findall(r"\d+", name)
    for place, number in enumerate(numbers):
        if number in (array, one.said.get("JobId")) and (place == 0 or len(number) >= 4):
            return not task or number != array or numbers[place + 1 : place + 2] == [task]
    return False


def _time(one: _SlurmJob, *keys: str) -> float | None:
    """Slurm prints local time without a zone."""
    for key in keys:
        try:
            return time.mktime(time.strptime(one.said.get(key, ""), "%Y-%m-%dT%H:%M:%S"))
        except (ValueError, OverflowError):
            continue
    return None
