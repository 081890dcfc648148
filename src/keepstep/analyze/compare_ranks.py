# SPDX-License-Identifier: Apache-2.0
"""Reads the logs once more where nothing known was found in them, and holds the ranks against each other."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from keepstep.base.wording import size
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.compared import PaceChanged
from keepstep.model.facts.training import StepSeen, StreamEnded
from keepstep.parse.scan.lines.line_times import UNDATED, Clock
from keepstep.parse.scan.lines.log_lines import clean, held, sample
from keepstep.parse.scan.lines.prefix import Prefixes
from keepstep.signals.pace_change import changes_of_pace, slow_again
from keepstep.signals.ranks_compared import missing_and_alone, missing_in_one_log
from keepstep.signals.ranks_in_time import lagging, unlike_amounts
from keepstep.signals.templates import StreamTold, template_of
from keepstep.sources.files.left_files import Chunks, LeftFile

ALL_LOGS = 6 << 20
"""How much is read of all logs together, in seconds rather than minutes."""
LEAST = 2 << 10
"""Of each log at least this much of its beginning and as much of its end."""
MOST_LOGS = 4_096
LINES_OF_A_STEP = 20
"""What is printed this many lines above a slow step may belong to it."""


def piece_of(logs: Sequence[LeftFile]) -> int:
    """How much of the beginning and of the end of each log is read."""
    return max(LEAST, ALL_LOGS // (2 * max(1, len(logs))))


def not_compared(logs: Sequence[LeftFile]) -> Iterator[Coverage]:
    """What lies between the beginning and the end of large logs."""
    piece = piece_of(logs)
    for log in logs if len(logs) > 1 else ():
        if min(log.size, log.stored or log.size) > 2 * piece:
            why = f"its first and last {size(piece)} were compared with those of other ranks, not what lies between"
            yield Coverage(what=log.name, state=CoverageState.PARTLY, why=why)


def compare_ranks(logs: Sequence[LeftFile], seen: EvidenceSet) -> list[Evidence[Fact]]:
    """Facts about ranks that differ from the others, none of them proven to matter."""
    ranks = {e.origin.writer: e.who for e in seen.all(StreamEnded)}
    of_logs: defaultdict[str, set[int | None]] = defaultdict(set)
    for (source, _), who in ranks.items():
        of_logs[source].add(who)
    streams: dict[int, StreamTold] = {}
    names: dict[int, str] = {}
    unknown: dict[str, StreamTold] = {}
    piece, last = piece_of(logs), _last_lines(seen)
    for log in logs[:MOST_LOGS]:
        of_log = of_logs[log.name]
        for number, stream, text, at in _lines(log, piece, last.get(log.name, 0)):
            rank = next(iter(of_log)) if len(of_log) == 1 else ranks.get((log.name, stream))
            if rank is None:
                unknown.setdefault(log.name, StreamTold()).add(number, text, at)
            else:
                names.setdefault(rank, log.name)
                streams.setdefault(rank, StreamTold()).add(number, text, at)
    if not streams:
        streams, names = _by_name(unknown)
    if len(streams) > 1:
        found: list[Evidence[Fact]] = list(missing_and_alone(streams, names))
        return found or [*lagging(streams, names), *unlike_amounts(streams, names)]
    return [each for name, stream in unknown.items() for each in missing_in_one_log(stream, name)]


def slower_since(logs: Sequence[LeftFile], seen: EvidenceSet) -> list[Evidence[Fact]]:
    """Where steps became slower and stayed so, with the message that came most often since and never before."""
    found: list[Evidence[Fact]] = []
    by_name, last = {log.name: log for log in logs}, _last_lines(seen)
    for step, before, since in changes_of_pace(seen):
        log, place = by_name.get(step.origin.source), step.origin.line or 0
        earlier, later = StreamTold(), StreamTold()
        for number, _, text, _ in _lines(log, ALL_LOGS // 2, last.get(log.name, 0)) if log is not None else ():
            (earlier if number < place - LINES_OF_A_STEP else later).add(number, text)
        new = [each for template, each in later.told.items() if template not in earlier.told]
        text = max(new, key=lambda each: each.count).text.strip() if new else ""
        fact = PaceChanged(before_s=before, after_s=since, step=step.fact.step, new=text[:200])
        found.append(Evidence(fact=fact, origin=step.origin, rank=step.rank, at=step.at, quote=step.quote))
    return found or list(_slow_again(by_name, seen, last))


def _slow_again(logs: Mapping[str, LeftFile], seen: EvidenceSet, last: Mapping[str, int]) -> Iterator[Evidence[Fact]]:
    """Slow steps among fast ones, if one message comes right above each of them and above no other."""
    for slow, fast, usual, took in slow_again(seen):
        first = slow[0]
        log = logs.get(first.origin.source)
        at = {e.origin.line or 0 for e in slow}
        judged = at | {e.origin.line or 0 for e in fast}
        steps = sorted(e.origin.line or 0 for e in seen.all(StepSeen) if e.origin.source == first.origin.source)
        above: dict[str, set[int]] = defaultdict(set)
        texts: dict[str, str] = {}
        for number, _, text, _ in _lines(log, ALL_LOGS // 2, last.get(log.name, 0)) if log is not None else ():
            place = bisect_left(steps, number)
            template, _ = template_of(text)
            if place < len(steps) and steps[place] in judged and 0 < steps[place] - number <= LINES_OF_A_STEP:
                above[template].add(steps[place])
                texts[template] = text.strip()
        telling = [template for template, places in above.items() if places == at]
        if telling:
            fact = PaceChanged(
                before_s=usual, after_s=took, step=first.fact.step, new=texts[telling[0]][:200], times=len(slow)
            )
            yield Evidence(fact=fact, origin=first.origin, rank=first.rank, at=first.at, quote=first.quote)


def _by_name(unknown: dict[str, StreamTold]) -> tuple[dict[int, StreamTold], dict[int, str]]:
    """Ranks by the names of their logs, if these differ in nothing but one number: gpu0.txt, gpu1.txt."""
    told = {name: template_of(name.rpartition("/")[2]) for name in unknown}
    if len(unknown) < 2 or len({template for template, _ in told.values()}) > 1:
        return {}, {}
    columns = list(zip(*(numbers for _, numbers in told.values()), strict=True))
    varying = [column for column in columns if len(set(column)) > 1]
    if len(varying) != 1 or len(set(varying[0])) != len(unknown):
        return {}, {}
    names = dict(zip(varying[0], told, strict=True))
    return {rank: unknown[name] for rank, name in names.items()}, names


def _last_lines(seen: EvidenceSet) -> dict[str, int]:
    """The number of each log's last line that says something."""
    last: defaultdict[str, int] = defaultdict(int)
    for each in seen.all(StreamEnded):
        last[each.origin.source] = max(last[each.origin.source], each.origin.line or 0)
    return last


def _lines(log: LeftFile, piece: int, last: int) -> Iterator[tuple[int, str, str, float | None]]:
    """Number, stream, text and time of each line. ``last`` is the number of the log's last line."""
    clock = Clock(UNDATED, (1, 1))
    parts = [(0, None)] if log.size <= 2 * piece else [(0, piece), (log.size - piece, None)]
    for begin, end in parts:
        text = b"".join(Chunks(log, begin, end))
        if begin:
            text = text.partition(b"\n")[2]  # the first line is torn by the cut
        prefixes = Prefixes(sample(text))
        first = max(1, last - text.rstrip().count(b"\n")) if begin else 1
        for number, raw in enumerate(text.split(b"\n"), first):
            if raw and not raw.isspace():
                line = clean(raw.rstrip(b"\r").rsplit(b"\r", 1)[-1][:4096])
                writer, said = prefixes.split(held(line))
                yield number, writer.key, said, clock.read(line)
