# SPDX-License-Identifier: Apache-2.0
"""Findings in programs as SARIF 2.1.0, the form that code hosts and editors read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from keepstep.base.redact import redacted
from keepstep.model.evidence import CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Finding, Severity
from keepstep.model.report import Report
from keepstep.model.rule import Rule
from keepstep.render.code_findings import file_of
from keepstep.render.json import dumps

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.FATAL: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render_sarif(report: Report, rules: Iterable[Rule], version: str) -> str:
    """The document, redacted, ending in a newline."""
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
                        "rules": [_rule(known[each]) for each in used if each in known],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(each, used) for each in report.findings],
                "invocations": [_invocation(report)],
            }
        ],
    }
    return dumps(document, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "help": {
            "text": f"`keepstep rules show {rule.id}` explains the rule: what it looks like, why, and what to do."
        },
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
        result["relatedLocations"] = [_location(each) for each in others]
    return result


def _fingerprint(finding: Finding) -> str:
    """The same for as long as the rule, the file and the text of the line are, wherever the line moves."""
    first = finding.evidence[0]
    return hashlib.sha256("\0".join((finding.rule, first.origin.source, first.quote)).encode()).hexdigest()[:32]


def _location(each: Evidence[Fact]) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": each.origin.line or 1}
    if each.quote:
        region["snippet"] = {"text": each.quote}
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(file_of(each.origin.source).replace("\\", "/"))},
            "region": region,
        }
    }


def _invocation(report: Report) -> dict[str, Any]:
    missing = [each for each in report.coverage if each.state is not CoverageState.CHECKED]
    told = [{"level": "warning", "message": {"text": f"not read: {each.what}: {each.why}"}} for each in missing]
    told += [{"level": "error", "message": {"text": f"{each.rule} broke: {each.error}"}} for each in report.crashed]
    found: dict[str, Any] = {"executionSuccessful": not report.crashed}
    if told:
        found["toolExecutionNotifications"] = told
    return found
