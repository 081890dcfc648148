# SPDX-License-Identifier: Apache-2.0
"""From what a dead run left behind, or what a stuck one is doing, to a report."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from keepstep.analyze.attribution import attribute, in_time_order, with_guards_words
from keepstep.analyze.filled_commands import with_places
from keepstep.analyze.report_by_life import by_lives
from keepstep.analyze.scan_logs import scan_logs
from keepstep.analyze.started_again import started_again
from keepstep.base.wording import count, size
from keepstep.errors import UserError
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import CollectivesIssued, RankDoing
from keepstep.model.facts.process import ProcessSeen
from keepstep.model.identity import Rank
from keepstep.model.report import ClockOffset, Report
from keepstep.model.rule import Rule
from keepstep.parse.scan.anchors import accelerated
from keepstep.parse.scan.knowledge import Knowledge
from keepstep.parse.scan.lines.writer import identify
from keepstep.parse.scan.patience import PER_FILE_S
from keepstep.rules import builtin_rules
from keepstep.sources.files.file_search import FoundFiles, find_files
from keepstep.sources.files.left_files import FileKind, Left
from keepstep.sources.recorded.line_arrivals import with_arrivals
from keepstep.sources.recorded.memory_series import read_metrics
from keepstep.sources.recorded.node_folders import on_hosts, who_is_where, with_nodes
from keepstep.sources.recorded.own_records import read_own
from keepstep.story.engine import diagnose

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the total."""


@dataclass(frozen=True)
class Explained:
    """A report and what it was made from, for bundles and pages."""

    report: Report
    seen: EvidenceSet
    files: tuple[Left, ...] = ()


@dataclass
class _Gathered:
    evidence: list[Evidence[Fact]] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)


def explain_paths(
    paths: Sequence[Path],
    *,
    more: Sequence[Left] = (),
    evidence: Sequence[Evidence[Fact]] = (),
    coverage: Sequence[Coverage] = (),
    knowledge: Knowledge | None = None,
    rules: Sequence[Rule] = (),
    kernel_log: bool = False,
    progress: Progress = lambda done, total: None,
    patience_s: float = PER_FILE_S,
    follow: bool = False,
) -> Explained:
    """Read everything in the paths (and ``more``, which was read already) and diagnose it.

    ``rules`` are asked besides the built-in ones. ``kernel_log``: also read this host's, for the minutes in question.
    ``patience_s``: how long one log may take, plus one second per megabyte.
    ``follow``: also follow links that lead out of the paths.
    """
    found = find_files(list(paths), follow=follow)
    files = [*more, *with_nodes(found.files)]
    if found.missing and not files:
        raise UserError(
            f"no such file or folder: {found.missing[0]}",
            hint="give the folder or files that the run wrote, for example `keepstep why logs/`",
        )
    gathered = _Gathered()
    with _no_collecting():
        logs = [left for left in files if left.kind is FileKind.LOG]
        _read_logs(logs, gathered, knowledge, progress, patience_s)
    gathered.evidence = with_arrivals(
        gathered.evidence, (left for left in files if left.kind is FileKind.ARRIVALS), logs
    )
    _read_dumps([left for left in files if left.kind in (FileKind.CORE, FileKind.FLIGHT_RECORDER)], gathered)
    gathered.evidence = on_hosts(gathered.evidence, files)
    own, looked = read_own(left for left in files if left.kind in (FileKind.BLACK_BOX, FileKind.NOTES))
    gathered.evidence = [*with_guards_words(gathered.evidence, own), *own]
    gathered.coverage += looked
    measured, looked = read_metrics(left for left in files if left.kind is FileKind.METRICS)
    gathered.evidence += [*on_hosts(measured, files), *who_is_where(files)]
    gathered.coverage += looked
    gathered.evidence += evidence
    if kernel_log and not any(left.node for left in files):  # each of several hosts sends what its own kernel says
        from keepstep.analyze.kernel_window import kernel_evidence

        kernel, looked = kernel_evidence(gathered.evidence, [left.modified or time.time() for left in files])
        gathered.evidence += kernel
        gathered.coverage += looked
    gathered.coverage += [*coverage, *_blind_spots(found)]
    with _no_collecting():
        items, clocks = _by_one_clock(gathered)
        seen = EvidenceSet(items=tuple(in_time_order(items)), coverage=tuple(gathered.coverage))
        asked = [*builtin_rules(), *rules]
        report = by_lives(seen, lambda part: diagnose(part, asked))
        report = with_places(replace(report, clocks=clocks), paths)
        return Explained(report, seen, tuple(files))


def _by_one_clock(gathered: _Gathered) -> tuple[list[Evidence[Fact]], tuple[ClockOffset, ...]]:
    """The evidence with comparable times, and which clocks were corrected for that."""
    if len({(e.origin.source, e.origin.stream) for e in gathered.evidence if e.at is not None}) < 2:
        return gathered.evidence, ()
    from keepstep.story.clocks import aligned, clock_coverage
    from keepstep.story.filled_times import with_times

    found = aligned(gathered.evidence)
    gathered.coverage += clock_coverage(found.clocks)
    return with_times(found.items, found.comparable), found.clocks


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


def explain_live(pids: list[int] | None, *, rules: Sequence[Rule] = ()) -> Explained:
    """Look at the running processes on this host and diagnose them."""
    from keepstep.analyze.live import look_at_live
    from keepstep.sources.recorded.open_boxes import left_by

    seen = look_at_live(pids)
    running = [each.fact.pid for each in seen.all(ProcessSeen)]
    left = left_by(running)
    own, looked = read_own(left)
    known = tuple(each for each in own if isinstance(each.fact, CollectivesIssued | RankDoing))
    seen = EvidenceSet(items=(*seen.items, *known), coverage=(*seen.coverage, *looked))
    report = diagnose(seen, [*builtin_rules(), *rules])
    return Explained(with_places(report, (each.path.parent for each in left if each.path is not None)), seen)


def _read_logs(
    logs: list[Left], gathered: _Gathered, knowledge: Knowledge | None, progress: Progress, patience_s: float
) -> None:
    total = sum(left.size for left in logs)
    read = 0

    def tell(more: int) -> None:
        nonlocal read
        read += more
        progress(read, total)

    scanned, problems = scan_logs(logs, knowledge, tell, meanwhile=builtin_rules, patience_s=patience_s)
    found = attribute(scanned)
    gathered.evidence += [*found, *started_again(logs, found)]
    if logs:
        state = CoverageState.CHECKED if read else CoverageState.UNAVAILABLE
        what = f"{count(len(logs), 'log')} ({size(read)})"
        gathered.coverage.append(Coverage(what=what, state=state, why="" if read else "empty"))
    gathered.coverage += problems


def _read_dumps(dumps: list[Left], gathered: _Gathered) -> None:
    """Core files and flight-recorder dumps."""
    for left in dumps:
        if left.path is None:
            continue
        named = identify(left.name.lower())
        rank = Rank(index=named.rank, role=named.role) if named.rank is not None else None
        if left.kind is FileKind.CORE:
            from keepstep.sources.stacks.cores import read_core

            found, looked = read_core(left.path, left.name, rank, same=left.same)
        else:
            from keepstep.sources.files.flight_recorder_dumps import read_flight_recorder

            found, looked = read_flight_recorder(left.path, left.name, rank, same=left.same)
        gathered.evidence += found
        gathered.coverage += looked


def _blind_spots(found: FoundFiles) -> list[Coverage]:
    spots = list(found.coverage)
    for path in found.missing:
        spots.append(Coverage(what=path, state=CoverageState.UNAVAILABLE, why="no such file or folder"))
    if not accelerated():
        why = "the package hyperscan is not installed; the answers are the same, but slower"
        spots.append(Coverage(what="fast log search", state=CoverageState.UNAVAILABLE, why=why))
    return spots
