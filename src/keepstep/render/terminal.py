# SPDX-License-Identifier: Apache-2.0
"""The report for a terminal: fits 80 columns, coloured only when asked."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

from keepstep.base.visible import visible
from keepstep.base.wording import count, listing, ranks, ranks_with_hosts, shorten
from keepstep.model.evidence import CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Confidence, Finding, Role, Safety, Severity
from keepstep.model.report import OF_A_CLOCK, Note, Report, Verdict
from keepstep.render.nothing_found import said_without_findings, where_ranks_ended

MOST_QUOTES = 4
MOST_FALLOUT = 6
MOST_CLOCKS = 4

_CODES = {"red": "31", "yellow": "33", "green": "32", "cyan": "36", "bold": "1", "dim": "2"}
_TINTS = {
    Verdict.HEALTHY: "green",
    Verdict.FAILED: "red",
    Verdict.HUNG: "red",
    Verdict.DEGRADED: "yellow",
    Verdict.UNKNOWN: "yellow",
}


def render_terminal(report: Report, *, colour: bool = False, width: int = 80) -> str:
    """The whole report as text, ending in a newline."""
    return "\n".join(_TerminalPage(colour, max(60, min(width, 120))).lines(_visible(report))) + "\n"


def _visible(report: Report) -> Report:
    """The report with every text made safe for a terminal."""
    return replace(
        report,
        findings=tuple(_visible_finding(each) for each in report.findings),
        coverage=tuple(replace(each, what=visible(each.what), why=visible(each.why)) for each in report.coverage),
        crashed=tuple(replace(each, rule=visible(each.rule), error=visible(each.error)) for each in report.crashed),
        hosts=tuple((rank, visible(host)) for rank, host in report.hosts),
        story=tuple(map(visible, report.story)),
        during=tuple(map(visible, report.during)),
        earlier=tuple(map(visible, report.earlier)),
        notes=tuple(
            replace(each, says=visible(each.says), command=visible(each.command) if each.command else None)
            for each in report.notes
        ),
    )


def _visible_finding(finding: Finding) -> Finding:
    return replace(
        finding,
        rule=visible(finding.rule),
        title=visible(finding.title),
        because=visible(finding.because),
        placed=tuple(map(visible, finding.placed)),
        evidence=tuple(map(_visible_evidence, finding.evidence)),
        fixes=tuple(
            replace(
                each,
                do=visible(each.do),
                command=visible(each.command) if each.command else None,
                code=visible(each.code) if each.code else None,
            )
            for each in finding.fixes
        ),
    )


def _visible_evidence(each: Evidence[Fact]) -> Evidence[Fact]:
    source, quote = visible(each.origin.source).replace("\n", "\\n"), visible(each.quote)
    if source == each.origin.source and quote == each.quote:  # nearly always, and there may be very many
        return each
    return replace(each, origin=replace(each.origin, source=source), quote=quote)


class _TerminalPage:
    def __init__(self, colour: bool, width: int) -> None:
        self._colour = colour
        self._width = width
        self._attempt: int | None = None
        self._report: Report | None = None

    def lines(self, report: Report) -> Iterator[str]:
        root = report.root
        self._attempt = root.attempt if root is not None else None
        self._report = report
        word, tint = report.verdict.value, _TINTS[report.verdict]
        for told in report.story:
            yield from textwrap.wrap(told, self._width, subsequent_indent="  ")
        if report.story:
            yield ""
        for note in (each for each in report.notes if each.first):
            yield from self._worth_knowing(note)
            yield ""
        if root is None:
            yield f"{self._paint(word, tint, 'bold')}  {said_without_findings(report)}"
            for told in where_ranks_ended(report):
                yield from textwrap.wrap(visible(told), self._width, initial_indent="  ", subsequent_indent="    ")
        else:
            if report.verdict is Verdict.HEALTHY:
                how = "still runs" if report.alive else "ended well"
                yield f"{self._paint(word, tint, 'bold')}  the last attempt {how}; what ended the one before it:"
            yield from self._finding(root, first=True)
            yield from self._rest(report)
        yield from self._during(report)
        yield from self._earlier(report)
        for note in (each for each in report.notes if not each.first):
            yield ""
            yield from self._worth_knowing(note)
        yield ""
        yield from self._coverage(report)

    def _during(self, report: Report) -> Iterator[str]:
        if report.during:
            yield ""
            yield self._paint("said during the run", "bold")
        for told in report.during:
            yield from textwrap.wrap(told, self._width, initial_indent="  ", subsequent_indent="    ")

    def _finding(self, finding: Finding, first: bool) -> Iterator[str]:
        tint = "red" if finding.severity is Severity.FATAL else "yellow"
        head = f"{finding.rule} {finding.severity.value}  "
        body = textwrap.wrap(finding.title, self._width - len(head)) or [""]
        yield (
            self._paint(finding.rule, "bold")
            + " "
            + self._paint(finding.severity.value, tint, "bold")
            + "  "
            + self._paint(body[0], "bold")
        )
        for more in body[1:]:
            yield " " * len(head) + self._paint(more, "bold")
        where = f", {ranks_with_hosts(finding.ranks, self._hosts(finding))}" if finding.ranks else ""
        yield from self._field("cause", f"{finding.cause.value}{where}")
        for line in finding.placed if first else ():
            yield from self._field("", line)
        yield from self._field("because", f"{finding.because} [{finding.confidence.value}]")
        if first:
            yield from self._seen(finding)
            for fix in finding.fixes:
                note = {
                    Safety.SAFE: "",
                    Safety.CHANGES_RESULTS: " (changes results)",
                    Safety.NEEDS_OWNER: " (needs the owner)",
                }[fix.safety]
                yield from self._field("fix", fix.do + note)
                if fix.command:
                    for line in fix.command.splitlines():
                        yield " " * 11 + self._paint("$ " + line, "cyan")
                if fix.blanks:
                    yield from self._field("", f"with your own {listing(fix.blanks)}")
                for line in (fix.code or "").splitlines():
                    yield " " * 11 + self._paint("| " + line, "cyan")
            yield from self._field("more", f"keepstep rules show {finding.rule}")

    def _seen(self, finding: Finding) -> Iterator[str]:
        shown = _spread(finding.evidence)
        label = "seen"
        for evidence in shown[:MOST_QUOTES]:
            place = str(evidence.origin)
            quote = shorten(evidence.quote, 3 * (self._width - 12))
            yield from self._field(label, f"{self._paint(place, 'dim')}", raw=True)
            for line in textwrap.wrap(quote, self._width - 13, break_on_hyphens=False):
                yield " " * 13 + line
            label = ""
        rest = len(finding.evidence) - min(len(shown), MOST_QUOTES)
        if rest > 0:
            yield from self._field("", f"+ {count(rest, 'more line')} like it")

    def _rest(self, report: Report) -> Iterator[str]:
        for finding in report.findings[1:]:
            if finding.role is Role.INITIATING:
                yield ""
                yield from self._finding(finding, first=True)
        fallout = [f for f in report.findings[1:] if f.role in (Role.CASCADE, Role.TEARDOWN)]
        if fallout:
            yield ""
            yield self._paint("what followed from it", "dim")
            for finding in fallout[:MOST_FALLOUT]:
                yield from self._short(finding)
            if len(fallout) > MOST_FALLOUT:
                yield f"  + {count(len(fallout) - MOST_FALLOUT, 'more finding')}"
        contributing = [f for f in report.findings[1:] if f.role is Role.CONTRIBUTING]
        if contributing:
            yield ""
            yield self._paint("also seen, may have contributed", "dim")
            for finding in contributing[:MOST_FALLOUT]:
                yield from self._short(finding)
        if report.root is not None and report.root.confidence is Confidence.HYPOTHESIS:
            yield ""
            yield from textwrap.wrap("This is a hypothesis: the evidence does not establish the cause.", self._width)

    def _earlier(self, report: Report) -> Iterator[str]:
        if report.earlier:
            yield ""
            yield self._paint("earlier runs", "dim")
            for told in report.earlier:
                yield from textwrap.wrap(told, self._width, initial_indent="  + ", subsequent_indent="    ")

    def _worth_knowing(self, note: Note) -> Iterator[str]:
        lead = "note  "
        lines = textwrap.wrap(note.says, self._width - len(lead), break_on_hyphens=False)
        yield self._paint(lead, "yellow", "bold") + lines[0]
        for more in lines[1:]:
            yield " " * len(lead) + more
        for line in note.command.splitlines() if note.command else ():
            yield " " * len(lead) + self._paint("$ " + line, "cyan")

    def _hosts(self, finding: Finding) -> dict[int, str]:
        return self._report.hosts_of(finding) if self._report is not None else {}

    def _short(self, finding: Finding) -> Iterator[str]:
        named = ranks(finding.ranks)
        who = ""
        if finding.ranks and (named not in finding.title or self._hosts(finding)):
            who = f"{ranks_with_hosts(finding.ranks, self._hosts(finding))}: "
        place = str(finding.evidence[0].origin)
        when = (
            f"attempt {finding.attempt}: " if finding.attempt is not None and finding.attempt != self._attempt else ""
        )
        text = f"{finding.rule}  {when}{who}{finding.title} ({place})"
        yield from textwrap.wrap(text, self._width, initial_indent="  + ", subsequent_indent="    ")

    def _coverage(self, report: Report) -> Iterator[str]:
        checked = [c for c in report.coverage if c.state is CoverageState.CHECKED]
        clocks = [c for c in checked if c.what.startswith(OF_A_CLOCK)]
        looked = [c.what for c in checked if c not in clocks]
        if looked:
            yield from self._note("looked at", listing(looked))
        for each in clocks[:MOST_CLOCKS]:
            yield from self._note(each.what, each.why)
        if len(clocks) > MOST_CLOCKS:
            yield from self._note("clocks", f"{len(clocks) - MOST_CLOCKS} more differ; --json lists them")
        blind = [
            f"{c.what} ({c.why})" if c.why else c.what for c in report.coverage if c.state is not CoverageState.CHECKED
        ]
        if blind:
            yield from self._note(
                "not checked", "; ".join(blind[:8]) + (f"; + {len(blind) - 8} more" if len(blind) > 8 else "")
            )
        for crash in report.crashed:
            yield from self._note("rule failed", f"{crash.rule}: {crash.error}")

    def _note(self, label: str, text: str) -> Iterator[str]:
        for line in textwrap.wrap(f"{label}: {text}", self._width, subsequent_indent="  "):
            yield self._paint(line, "dim")

    def _field(self, label: str, text: str, raw: bool = False) -> Iterator[str]:
        lead = f"  {label:<9}"
        lines = [text] if raw else textwrap.wrap(text, self._width - len(lead), break_on_hyphens=False) or [""]
        yield self._paint(lead, "dim") + lines[0]
        for more in lines[1:]:
            yield " " * len(lead) + more

    def _paint(self, text: str, *tints: str) -> str:
        if not self._colour:
            return text
        return f"\x1b[{';'.join(_CODES[t] for t in tints)}m{text}\x1b[0m"


def _spread(evidence: tuple[Evidence[Fact], ...]) -> list[Evidence[Fact]]:
    """The first piece from each writer, each text once."""
    shown: list[Evidence[Fact]] = []
    known: set[tuple[str, str, int | None]] = set()
    texts: set[str] = set()
    for each in evidence:
        key = (each.origin.source, each.origin.stream, each.who)
        if key in known or each.quote in texts:
            continue
        known.add(key)
        texts.add(each.quote)
        shown.append(each)
    return shown
