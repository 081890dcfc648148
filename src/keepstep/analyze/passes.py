# SPDX-License-Identifier: Apache-2.0
"""From what a run left behind to a report, pass by pass. ``PASSES`` at the end is the whole way, in order."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from keepstep.analyze.attribution import attribute, in_time_order, with_guards_words
from keepstep.analyze.filled_commands import with_places, without_the_dead
from keepstep.analyze.report_by_life import by_lives
from keepstep.analyze.scan_logs import scan_logs
from keepstep.analyze.started_again import started_again
from keepstep.base.time_budget import TimeBudget
from keepstep.base.wording import count, size
from keepstep.errors import UserError
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import RankDoing
from keepstep.model.identity import Rank
from keepstep.model.report import ClockOffset, Report
from keepstep.model.rule import Rule
from keepstep.parse.scan.anchors import accelerated
from keepstep.parse.scan.knowledge import Knowledge
from keepstep.parse.scan.lines.writer import identify
from keepstep.parse.scan.patience import PER_FILE_S
from keepstep.rules import builtin_rules
from keepstep.sources.files.file_search import FoundFiles, find_files
from keepstep.sources.files.left_files import FileKind, LeftFile
from keepstep.sources.recorded.line_arrivals import with_arrivals
from keepstep.sources.recorded.memory_series import read_metrics
from keepstep.sources.recorded.node_folders import on_hosts, who_is_where, with_nodes
from keepstep.sources.recorded.own_records import read_own
from keepstep.story.engine import diagnose

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the total."""


@dataclass(frozen=True)
class Gathered:
    """What was asked, and what the passes so far have gathered."""

    paths: Sequence[Path]
    more: Sequence[LeftFile] = ()
    """What was read already: standard input, the logs that a scheduler keeps."""
    told: Sequence[Evidence[Fact]] = ()
    """Evidence that a scheduler gave."""
    looked: Sequence[Coverage] = ()
    """What was looked at before, and what could not be."""
    knowledge: Knowledge | None = None
    rules: Sequence[Rule] = ()
    """Asked besides the built-in ones."""
    kernel_log: bool = False
    """Also read this host's, for the minutes in question."""
    progress: Progress = lambda done, total: None
    patience_s: float = PER_FILE_S
    """How long one log may take, plus one second per megabyte."""
    follow: bool = False
    """Also follow links that lead out of the paths."""
    own_links: bool = False
    """Also those to boxes and cores, which we made ourselves just now."""
    budget: TimeBudget = field(default_factory=TimeBudget)
    """How long all of it may take."""

    found: FoundFiles | None = None
    files: tuple[LeftFile, ...] = ()
    evidence: list[Evidence[Fact]] = field(default_factory=list)
    coverage: tuple[Coverage, ...] = ()
    clocks: tuple[ClockOffset, ...] = ()
    seen: EvidenceSet | None = None
    report: Report | None = None

    def of_kind(self, *kinds: FileKind) -> list[LeftFile]:
        return [left for left in self.files if left.kind in kinds]

    def adding(self, evidence: Sequence[Evidence[Fact]], coverage: Sequence[Coverage] = ()) -> Gathered:
        return replace(self, evidence=[*self.evidence, *evidence], coverage=(*self.coverage, *coverage))


Part = Literal["found", "files", "evidence", "coverage", "clocks", "seen", "report"]


class Pass(NamedTuple):
    """One step on the way. It reads what was asked and what it needs, and adds to what it gives or replaces it."""

    name: str
    do: Callable[[Gathered], Gathered]
    needs: tuple[Part, ...]
    gives: tuple[Part, ...]


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Pause garbage collection: hundreds of thousands of objects are made here, all kept and none in a cycle."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _find_files(now: Gathered) -> Gathered:
    found = find_files(list(now.paths), follow=now.follow, own_links=now.own_links)
    files = (*now.more, *with_nodes(found.files))
    now.budget.allow_for(sum(len(left.data) if left.data is not None else left.stored for left in files))
    if found.missing and not files:
        raise UserError(
            f"no such file or folder: {found.missing[0]}",
            hint="give the folder or files that the run wrote, for example `keepstep why logs/`",
        )
    return replace(now, found=found, files=files)


@_no_collecting()
def _read_logs(now: Gathered) -> Gathered:
    logs = now.of_kind(FileKind.LOG)
    total = sum(left.stored or left.size for left in logs)
    read = 0

    def tell(more: int) -> None:
        nonlocal read
        read += more
        now.progress(read, total)

    scanned, problems = scan_logs(
        logs, now.knowledge, tell, meanwhile=builtin_rules, patience_s=now.patience_s, until=now.budget.until
    )
    found = attribute(scanned)
    coverage = []
    if logs:
        state = CoverageState.CHECKED if read else CoverageState.UNAVAILABLE
        what = f"{count(len(logs), 'log')} ({size(read)})"
        coverage.append(Coverage(what=what, state=state, why="" if read else "empty"))
    return now.adding([*found, *started_again(logs, found)], [*coverage, *problems])


def _time_lines(now: Gathered) -> Gathered:
    """By when `keepstep run` saw them arrive."""
    logs, arrivals = now.of_kind(FileKind.LOG), now.of_kind(FileKind.ARRIVALS)
    return replace(now, evidence=with_arrivals(now.evidence, arrivals, logs))


def _read_dumps(now: Gathered) -> Gathered:
    dumps = [left for left in now.of_kind(FileKind.CORE, FileKind.FLIGHT_RECORDER) if left.path is not None]
    for number, left in enumerate(dumps):
        assert left.path is not None
        if now.budget.is_out:
            what = f"{len(dumps) - number:,} of {count(len(dumps), 'core file or dump', 'core files and dumps')}"
            why = "the time was over; --seconds allows more"
            return now.adding([], [Coverage(what=what, state=CoverageState.PARTLY, why=why)])
        named = identify(left.name.lower())
        rank = Rank(index=named.rank, role=named.role) if named.rank is not None else None
        if left.kind is FileKind.CORE:
            from keepstep.sources.stacks.cores import read_core

            now = now.adding(*read_core(left.path, left.name, rank, same=left.same))
        else:
            from keepstep.sources.files.flight_recorder_dumps import read_flight_recorder

            now = now.adding(*read_flight_recorder(left.path, left.name, rank, same=left.same))
    return now


def _name_hosts(now: Gathered) -> Gathered:
    return replace(now, evidence=on_hosts(now.evidence, now.files))


def _read_boxes_and_notes(now: Gathered) -> Gathered:
    own, looked = read_own(now.of_kind(FileKind.BLACK_BOX, FileKind.NOTES))
    return replace(now, evidence=with_guards_words(now.evidence, own)).adding(own, looked)


def _read_measurements(now: Gathered) -> Gathered:
    measured, looked = read_metrics(now.of_kind(FileKind.METRICS))
    return now.adding([*on_hosts(measured, now.files), *who_is_where(now.files)], looked)


def _take_what_was_told(now: Gathered) -> Gathered:
    return replace(now, evidence=[*now.evidence, *now.told])


def _read_kernel_log(now: Gathered) -> Gathered:
    if not now.kernel_log or any(left.node for left in now.files):  # several hosts: each sends its own kernel's words
        return now
    from keepstep.analyze.kernel_window import kernel_evidence

    return now.adding(*kernel_evidence(now.evidence, [left.modified or time.time() for left in now.files]))


def _name_blind_spots(now: Gathered) -> Gathered:
    assert now.found is not None
    spots = list(now.found.coverage)
    for path in now.found.missing:
        spots.append(Coverage(what=path, state=CoverageState.PARTLY, why="no such file or folder"))
    if not accelerated():
        why = "the package hyperscan is not installed; the answers are the same, but slower"
        spots.append(Coverage(what="fast log search", state=CoverageState.UNAVAILABLE, why=why))
    return replace(now, coverage=(*now.coverage, *now.looked, *spots))


@_no_collecting()
def _set_clocks(now: Gathered) -> Gathered:
    if len({e.origin.writer for e in now.evidence if e.at is not None}) < 2:
        return now
    from keepstep.story.clocks import aligned, clock_coverage
    from keepstep.story.filled_times import with_times

    found = aligned(now.evidence)
    return replace(
        now,
        evidence=with_times(found.items, found.comparable),
        coverage=(*now.coverage, *clock_coverage(found.clocks)),
        clocks=found.clocks,
    )


@_no_collecting()
def _put_in_order(now: Gathered) -> Gathered:
    return replace(now, seen=EvidenceSet(items=tuple(in_time_order(now.evidence)), coverage=now.coverage))


@_no_collecting()
def _diagnose(now: Gathered) -> Gathered:
    """Each life of the run by itself: what a launcher started again is judged apart."""
    assert now.seen is not None
    rules = [*builtin_rules(), *now.rules]
    report = by_lives(now.seen, lambda life: diagnose(life, rules))
    return replace(now, report=replace(report, clocks=now.clocks))


@_no_collecting()
def _compare_ranks(now: Gathered) -> Gathered:
    """Only where nothing known was found, and no rank is proven to have ended well: it reads the logs once more.

    Whether steps became slower is asked of runs that ended well, too.
    """
    assert now.report is not None and now.seen is not None
    ends = now.report.ended
    if now.report.findings or not ends or now.budget.is_out:
        return now
    from keepstep.analyze.compare_ranks import compare_ranks, not_compared, slower_since

    logs = now.of_kind(FileKind.LOG)
    seen, report = now.seen, now.report
    found = slower_since(logs, seen)
    if not (found or report.alive or any(each.proof for each in ends)):
        found = compare_ranks(logs, seen)
        sampled = list(not_compared(logs))
        seen = EvidenceSet(items=(*seen.items, *found), coverage=(*seen.coverage, *sampled))
        report = replace(report, coverage=(*report.coverage, *sampled))
    elif found:
        seen = EvidenceSet(items=(*seen.items, *found), coverage=seen.coverage)
    now = replace(now, seen=seen, report=report)
    return _diagnose(now) if found else now


def _fill_in_commands(now: Gathered) -> Gathered:
    assert now.report is not None and now.seen is not None
    living = {e.fact.pid for e in now.seen.all(RankDoing) if e.fact.alive}
    return replace(now, report=without_the_dead(with_places(now.report, now.paths), living))


_BOTH: tuple[Part, ...] = ("evidence", "coverage")
PASSES = (
    Pass("find the files", _find_files, needs=(), gives=("found", "files")),
    Pass("read the logs", _read_logs, needs=("files",), gives=_BOTH),
    Pass("time lines that have no time", _time_lines, needs=("files", "evidence"), gives=("evidence",)),
    Pass("read core files and flight recorders", _read_dumps, needs=("files",), gives=_BOTH),
    Pass("name the hosts", _name_hosts, needs=("files", "evidence"), gives=("evidence",)),
    Pass("read black boxes and guards' notes", _read_boxes_and_notes, needs=("files", "evidence"), gives=_BOTH),
    Pass("read measurements", _read_measurements, needs=("files",), gives=_BOTH),
    Pass("take what schedulers told", _take_what_was_told, needs=(), gives=("evidence",)),
    Pass("read the kernel's log", _read_kernel_log, needs=("files", "evidence"), gives=_BOTH),
    Pass("name blind spots", _name_blind_spots, needs=("found",), gives=("coverage",)),
    Pass("set all clocks by one", _set_clocks, needs=("evidence",), gives=("evidence", "coverage", "clocks")),
    Pass("put the evidence in order", _put_in_order, needs=_BOTH, gives=("seen",)),
    Pass("diagnose", _diagnose, needs=("seen", "clocks"), gives=("report",)),
    Pass("compare the ranks", _compare_ranks, needs=("files", "seen", "clocks", "report"), gives=("seen", "report")),
    Pass("fill in commands", _fill_in_commands, needs=("seen", "report"), gives=("report",)),
)
