# SPDX-License-Identifier: Apache-2.0
"""Findings in programs as SARIF 2.1.0, the form that code hosts and editors read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Any
from urllib.parse import quote

from keepstep.base.redact import redacted
from keepstep.model.code_place import CodePlace
from keepstep.model.evidence import CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Edit, Finding, Fix, Severity
from keepstep.model.report import Report
from keepstep.model.rule import Rule
from keepstep.render.code_findings import file_of, place_of
from keepstep.render.json import dumps

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.FATAL: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render_sarif(report: Report, rules: Iterable[Rule], version: str, site: str | None = None) -> str:
    """The document, redacted, ending in a newline. ``site``: where the pages of the rules are, if they are."""
    report = redacted(report)
    known = {each.id: each for each in rules}
    used = sorted({each.rule for each in report.findings})
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "keepstep",
                        "version": version,
                        **({"informationUri": site} if site else {}),
                        "rules": [_rule(known[each], site) for each in used if each in known],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(each, used) for each in report.findings],
                "invocations": [_invocation(report)],
            }
        ],
    }
    return dumps(document, indent=2) + "\n"


def _rule(rule: Rule, site: str | None) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "help": {
            "text": f"`keepstep rules show {rule.id}` explains the rule: what it looks like, why, and what to do.",
            "markdown": cleandoc(rule.doc),
        },
        **({"helpUri": f"{site.rstrip('/')}/rules/{rule.name.replace('-', '_')}/"} if site else {}),
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"cause": rule.cause.value, "preview": rule.preview},
    }


def _result(finding: Finding, used: list[str]) -> dict[str, Any]:
    first, *others = finding.evidence
    text = "; fix: ".join((f"{finding.title}: {finding.because}", *(fix.do for fix in finding.fixes)))
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": used.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(first)],
        "partialFingerprints": {"ruleFileLine/v1": _fingerprint(finding)},
    }
    if others:
        related = [_location(each) for each in others]
        result["relatedLocations"] = [each for at, each in enumerate(related) if each not in related[:at]]
    flow = list(_flow(finding))
    if len(flow) > 1:
        result["codeFlows"] = [{"threadFlows": [{"locations": [{"location": each} for each in flow]}]}]
    fixes = [_fix(fix, fix.edit) for fix in finding.fixes if fix.edit is not None]
    if fixes:
        result["fixes"] = fixes
    return result


def _flow(finding: Finding) -> Iterator[dict[str, Any]]:
    """All places that prove it, in order: each piece of evidence, and the calls through which it leads further."""
    for each in finding.evidence:
        yield _location(each)
        for source, line, quote_ in place_of(each).path:
            yield _location(Evidence(fact=CodePlace(), origin=Origin(source=source, line=line), quote=quote_))


def _fix(fix: Fix, edit: Edit) -> dict[str, Any]:
    region = {"startLine": edit.line, "startColumn": edit.column, "endLine": edit.line, "endColumn": edit.end}
    replacement = {"deletedRegion": region, "insertedContent": {"text": edit.text}}
    change = {"artifactLocation": _artifact(edit.source), "replacements": [replacement]}
    return {"description": {"text": fix.do}, "artifactChanges": [change]}


def _fingerprint(finding: Finding) -> str:
    """The same for as long as the rule, the file and the text of the line are, wherever the line moves."""
    first = finding.evidence[0]
    return hashlib.sha256("\0".join((finding.rule, first.origin.source, first.quote)).encode()).hexdigest()[:32]


def _location(each: Evidence[Fact]) -> dict[str, Any]:
    place = place_of(each)
    region: dict[str, Any] = {"startLine": each.origin.line or 1}
    if place.column is not None:
        region["startColumn"] = place.column
    if place.end_line is not None and place.end_column is not None and place.cell is None:
        region |= {"endLine": place.end_line, "endColumn": place.end_column}
    if each.quote:
        region["snippet"] = {"text": each.quote}
    return {"physicalLocation": {"artifactLocation": _artifact(each.origin.source), "region": region}}


def _artifact(source: str) -> dict[str, Any]:
    return {"uri": quote(file_of(source).replace("\\", "/"))}


def _invocation(report: Report) -> dict[str, Any]:
    missing = [each for each in report.coverage if each.state is not CoverageState.CHECKED]
    told = [{"level": "warning", "message": {"text": f"not read: {each.what}: {each.why}"}} for each in missing]
    told += [{"level": "error", "message": {"text": f"{each.rule} broke: {each.error}"}} for each in report.crashed]
    found: dict[str, Any] = {"executionSuccessful": not report.crashed}
    if told:
        found["toolExecutionNotifications"] = told
    return found
