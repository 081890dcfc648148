# SPDX-License-Identifier: Apache-2.0
"""The report as one page that can be mailed: no other file, no network, readable without scripts.

The markup is in ``templates/``; what is here decides what to show and in what order.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from keepstep import __version__
from keepstep.base.redact import redacted
from keepstep.base.wording import count, listing, ranks_with_hosts
from keepstep.model.codec import moment, representative
from keepstep.model.evidence import CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.plan import ShareSeen
from keepstep.model.finding import Confidence, Finding, Fix, Role, Safety, Severity
from keepstep.model.report import SCHEMA, Note, Report, Verdict
from keepstep.render.excerpt import Surroundings
from keepstep.render.link_matrix import heat_map
from keepstep.render.memory_picture import HeldOverTime, memory_picture
from keepstep.render.nothing_found import said_without_findings, where_ranks_ended
from keepstep.render.rank_shares import shares_markup
from keepstep.render.templating import Markup, asset, fill, join, prose
from keepstep.render.timeline import Event, Lane, Timeline, lay_out

MOST_FINDINGS = 40
MOST_QUOTES = 200
LONGEST_QUOTE = 4000

_HEADLINES = {
    Verdict.HEALTHY: "Nothing wrong was found",
    Verdict.FAILED: "The run failed",
    Verdict.HUNG: "The run hung",
    Verdict.DEGRADED: "The run continued, with problems",
    Verdict.UNKNOWN: "There was nothing to look at",
}
_BEFORE = {
    **_HEADLINES,
    Verdict.FAILED: "The run would fail",
    Verdict.HUNG: "The run would hang",
    Verdict.DEGRADED: "The run may suffer",
}
_WEIGHTS = {Severity.FATAL: "would kill it", Severity.WARNING: "may hurt", Severity.NOTE: "worth knowing"}
_ROLES = {
    Role.INITIATING: "began it",
    Role.CASCADE: "followed",
    Role.TEARDOWN: "was part of the shutdown",
    Role.CONTRIBUTING: "may have contributed",
}
_SURE = {
    Confidence.ESTABLISHED: "established: the evidence says so",
    Confidence.SUPPORTED: "supported: the evidence points to it",
    Confidence.HYPOTHESIS: "a hypothesis: the evidence does not establish it",
}
_SAFETY = {
    Safety.SAFE: "",
    Safety.CHANGES_RESULTS: "changes results",
    Safety.NEEDS_OWNER: "needs the owner of the machine or cluster",
}
_STATES = {
    CoverageState.CHECKED: "looked at",
    CoverageState.PARTLY: "only partly checked",
    CoverageState.UNAVAILABLE: "could not be checked",
    CoverageState.NOT_CHECKED: "not checked",
}


def render_html(report: Report, around: Surroundings | None = None) -> str:
    """The page of a past run, redacted. ``around``: lines above and below the evidence, where available."""
    report = redacted(report)
    root = report.root
    return _page(
        report,
        headline=_headline(report, _headline_of(report), "why"),
        fixes=_fixes(root) if root else Markup(),
        timeline=_timeline(report),
        links=Markup(),
        shares=Markup(),
        chain=_chain(report),
        evidence=_evidence(report, around or {}),
    )


def render_preflight(
    report: Report,
    links: Iterable[Evidence[Fact]] = (),
    shares: Iterable[ShareSeen] = (),
    held: HeldOverTime | None = None,
) -> str:
    """The page of a run to come, redacted: the probes between hosts, what ranks would be fed and would hold."""
    report = redacted(report)
    return _page(
        report,
        headline=_headline(report, _BEFORE[report.verdict], "check"),
        fixes=Markup(),
        timeline=memory_picture(held) if held is not None else Markup(),
        links=heat_map(redacted(tuple(links))),
        shares=shares_markup(shares),
        chain=_problems(report),
        evidence=_evidence(report, {}),
    )


def _page(report: Report, **parts: Markup) -> str:
    root = report.root
    script = asset("page.js")
    return fill(
        "page.html",
        script_hash=_hash(script),
        version=__version__,
        schema=SCHEMA,
        verdict=report.verdict.value,
        page_title=f"{report.verdict.value}: {root.title}" if root else _HEADLINES[report.verdict],
        css=asset("page.css"),
        script=script,
        told=join(
            [
                _told("Worth knowing", [_noted(each) for each in report.notes]),
                _told("Its attempts", report.story),
                _told("How far the ranks got", where_ranks_ended(report)),
                _told("Said during the run", report.during),
                _told("Earlier runs", report.earlier),
            ]
        ),
        coverage=_coverage(report),
        **parts,
    )


def _noted(note: Note) -> str:
    return note.says + (f": {'; '.join(note.command.splitlines())}" if note.command else "")


def _told(head: str, said: Iterable[str]) -> Markup:
    lines = [fill("told_line.html", said=each) for each in said]
    return fill("told.html", head=head, lines=join(lines)) if lines else Markup()


def _hash(script: str) -> str:
    """The page's content policy, which allows this script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _headline_of(report: Report) -> str:
    if report.root is not None:
        return _HEADLINES[report.verdict]
    said = said_without_findings(report)
    return said[0].upper() + said[1:]


def _headline(report: Report, said: str, verb: str) -> Markup:
    root = report.root
    if root is None:
        return fill(
            "headline_plain.html", verb=verb, verdict=report.verdict.value, headline=said, detail=_looked(report)
        )
    return fill(
        "headline.html",
        verb=verb,
        headline=said,
        title=prose(root.title),
        because=prose(root.because),
        cause=root.cause.value,
        who=_who(root, report) or ("no rank in particular" if verb == "check" else "no rank could be named"),
        world=f" of {report.world_size}" if report.world_size and root.ranks else "",
        sure=_SURE[root.confidence],
        rule=root.rule,
    )


def _looked(report: Report) -> str:
    looked = sum(c.state is CoverageState.CHECKED for c in report.coverage)
    blind = len(report.coverage) - looked
    if not looked:
        return "No log, core or dump could be read."
    rest = f"; {blind} could not be, or were not" if blind else ""
    return f"{count(looked, 'source was', 'sources were')} checked{rest}. The list is below."


def _who(finding: Finding, report: Report) -> str:
    return ranks_with_hosts(finding.ranks, report.hosts_of(finding)) if finding.ranks else ""


def _fixes(root: Finding) -> Markup:
    if not root.fixes:
        return Markup()
    return fill("fixes.html", items=join([_fix(fix) for fix in root.fixes]))


def _fix(fix: Fix) -> Markup:
    return fill(
        "fix.html",
        do=prose(fix.do),
        safety=fill("tag.html", text=_SAFETY[fix.safety]) if _SAFETY[fix.safety] else Markup(),
        command=fill("command.html", command=fix.command) if fix.command else Markup(),
        code=fill("code.html", code=fix.code) if fix.code else Markup(),
        blanks=fill("tag.html", text=f"with your own {listing(fix.blanks)}") if fix.blanks else Markup(),
    )


def _chain(report: Report) -> Markup:
    if not report.findings:
        return Markup()
    shown = report.findings[:MOST_FINDINGS]
    links = [_link(n, finding, _ROLES[finding.role], Markup(), report) for n, finding in enumerate(shown)]
    return fill("chain.html", heading="From cause to fallout", items=join(links), more=_rest(report))


def _problems(report: Report) -> Markup:
    if not report.findings:
        return Markup()
    links = []
    for n, finding in enumerate(report.findings[:MOST_FINDINGS]):
        fixes = fill("own_fixes.html", items=join([_fix(fix) for fix in finding.fixes])) if finding.fixes else Markup()
        links.append(_link(n, finding, _WEIGHTS[finding.severity], fixes, report))
    return fill("chain.html", heading="What was found, and what to do", items=join(links), more=_rest(report))


def _link(number: int, finding: Finding, said: str, fixes: Markup, report: Report) -> Markup:
    return fill(
        "link.html",
        number=number,
        role=finding.role.value,
        said=said,
        rule=finding.rule,
        cause=finding.cause.value,
        title=prose(finding.title),
        because=prose(finding.because),
        who=_who(finding, report),
        sure=finding.confidence.value,
        fixes=fixes,
    )


def _rest(report: Report) -> Markup:
    rest = len(report.findings) - MOST_FINDINGS
    return (
        fill("more.html", text=f"and {count(rest, 'more finding')}; the JSON document has them all")
        if rest > 0
        else Markup()
    )


def _evidence(report: Report, around: Surroundings) -> Markup:
    if not report.findings:
        return Markup()
    blocks = []
    for n, finding in enumerate(report.findings[:MOST_FINDINGS]):
        shown = representative(finding.evidence, MOST_QUOTES)
        rest = len(finding.evidence) - len(shown)
        blocks.append(
            fill(
                "evidence.html",
                number=n,
                open=Markup(" open") if n == 0 else Markup(),
                rule=finding.rule,
                title=prose(finding.title),
                amount=count(len(finding.evidence), "piece"),
                groups=join([_group(who, pieces, around) for who, pieces in _by_rank(shown)]),
                more=fill("more.html", text=f"and {count(rest, 'more line')} like these") if rest else Markup(),
            )
        )
    return fill("evidences.html", items=join(blocks))


def _by_rank(evidence: list[Evidence[Fact]]) -> list[tuple[str, list[Evidence[Fact]]]]:
    groups: dict[int | None, list[Evidence[Fact]]] = {}
    for each in evidence:
        groups.setdefault(each.who, []).append(each)
    unnamed = "no rank named" if len(groups) > 1 else ""
    return [(unnamed if who is None else f"rank {who}", pieces) for who, pieces in groups.items()]


def _group(who: str, pieces: list[Evidence[Fact]], around: Surroundings) -> Markup:
    return fill("group.html", who=who, quotes=join([_quote(piece, around) for piece in pieces]))


def _quote(piece: Evidence[Fact], around: Surroundings) -> Markup:
    at = moment(piece.known_at)
    above, below = around.get((piece.origin.source, piece.origin.line or 0), ((), ()))
    return fill(
        "quote.html",
        source=piece.origin.source,
        line="" if piece.origin.line is None else f":{piece.origin.line}",
        at=fill("time.html", at=at, shown=_short(at)) if at else Markup(),
        quote=piece.quote[:LONGEST_QUOTE] or "(no text)",
        above="".join(f"{line}\n" for line in above),
        below="".join(f"\n{line}" for line in below),
    )


def _short(at: str) -> str:
    return at.replace("T", " ").removesuffix("Z").removesuffix(".000")


def _coverage(report: Report) -> Markup:
    rows = [
        fill("coverage_row.html", state=each.state.name.lower(), said=_STATES[each.state], what=each.what, why=each.why)
        for each in report.coverage
    ]
    rows += [
        fill(
            "coverage_row.html",
            state="crashed",
            said="rule failed",
            what=crash.rule,
            why=f"{crash.error}; the other rules still ran",
        )
        for crash in report.crashed
    ]
    return fill("coverage.html", rows=join(rows)) if rows else Markup()


# The drawing: labels are HTML, the lanes one SVG whose x is in per cent, so text keeps its size.
_PAD = 3.0


def _timeline(report: Report) -> Markup:
    laid = lay_out(report)
    if laid is None:
        return Markup()
    height = 26 if len(laid.lanes) <= 16 else 18 if len(laid.lanes) <= 40 else 13
    lanes = [_lane(report, lane, n, height) for n, lane in enumerate(laid.lanes)]
    marks = [fill("event.html", **mark) for mark in _marks(report, laid, height)]
    return fill(
        "timeline.html",
        size="dense" if height < 18 else "roomy",
        crowd=" crowded" if sum(len(tick.text) + 1 for tick in laid.ticks) > 36 else "",
        lane_height=height,
        height=height * len(laid.lanes),
        labels=join([label for label, _ in lanes]),
        tracks=join([track for _, track in lanes]),
        onset=_onset(laid, height * len(laid.lanes)),
        marks=join(marks),
        ticks=join([fill("tick.html", x=_percent(t.x), anchor=_anchor(t.x), text=t.text) for t in laid.ticks]),
        axis=f"{laid.day}, {laid.axis.value}" if laid.day else laid.axis.value,
        left_out=fill("more.html", text=f"and {count(laid.left_out, 'more rank')}") if laid.left_out else Markup(),
        legend=join(
            [
                fill("legend.html", role=role.value, said=_ROLES[role], shape=_shape(role))
                for role in Role
                if any(f.role is role for f in report.findings)
            ]
        ),
    )


def _lane(report: Report, lane: Lane, number: int, height: int) -> tuple[Markup, Markup]:
    if not lane.ranks:
        name = "unnamed"
    elif len(lane.ranks) == 1:
        name = f"rank {lane.ranks[0]}"
    else:
        name = f"{lane.ranks[0]}–{lane.ranks[-1]}"
    state = "blamed" if lane.blamed else "quiet" if not lane.events else "seen"
    spoke = any(rank in report.ranks for rank in lane.ranks) or bool(lane.events)
    note = "" if spoke else " no output was read from it" if len(lane.ranks) == 1 else " no output was read from them"
    y = height * number + height / 2
    return (
        fill("lane_label.html", name=name, state=state, note=note),
        fill("lane_track.html", y=f"{y:g}", state="silent" if not spoke else state),
    )


def _marks(report: Report, laid: Timeline, height: int) -> list[dict[str, object]]:
    """Marks in painting order: the root cause last, on top."""
    marks: list[tuple[bool, dict[str, object]]] = []
    for number, lane in enumerate(laid.lanes):
        taken: dict[int, int] = {}
        for event in sorted(lane.events, key=lambda e: (e.x, e.finding)):
            spot = round(event.x * 50)
            taken[spot] = taken.get(spot, -1) + 1
            if taken[spot] > 3:
                continue
            x = min(1.0, event.x + 0.012 * taken[spot])
            marks.append(
                (
                    event.role is Role.INITIATING,
                    {
                        "finding": event.finding,
                        "role": event.role.value,
                        "guessed": " guessed" if event.guessed else "",
                        "x": _percent(x),
                        "y": f"{height * number + height / 2:g}",
                        "tip": _tip(report, event),
                        "shape": _shape(event.role),
                    },
                )
            )
    return [mark for _, mark in sorted(marks, key=lambda mark: mark[0])]


def _shape(role: Role) -> Markup:
    return asset("mark_root.svg" if role is Role.INITIATING else "mark_other.svg")


def _tip(report: Report, event: Event) -> str:
    at = moment(event.evidence.known_at)
    when = f" at {_short(at)}" if at else ""
    finding = report.findings[event.finding]
    return f"{finding.rule}{when}, {event.evidence.origin}: {finding.title}"


def _onset(laid: Timeline, height: int) -> Markup:
    """The line where the failure began."""
    first = [event.x for lane in laid.lanes for event in lane.events if event.role is Role.INITIATING]
    return fill("onset.html", x=_percent(min(first)), height=height) if first else Markup()


def _percent(x: float) -> str:
    return f"{_PAD + x * (100 - 2 * _PAD):.2f}%"


def _anchor(x: float) -> str:
    return "start" if x < 0.1 else "end" if x > 0.9 else "middle"
