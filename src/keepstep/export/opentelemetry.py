# SPDX-License-Identifier: Apache-2.0
"""A run as OpenTelemetry spans (OTLP as JSON): the run, its attempts, the pauses between them, findings as events.

The ids follow from the run's name and start, so a second export gives the same spans.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keepstep import __version__
from keepstep.base import foreign_json
from keepstep.base.redact import redact
from keepstep.base.safe_files import open_regular
from keepstep.errors import Unavailable, UserError
from keepstep.store import run_folders
from keepstep.store.run_folders import AttemptSaid, RunManifest

LARGEST_REPORT = 64 << 20
PATH = "/v1/traces"
LIMIT_S = 30.0
_INTERNAL, _ERROR = 1, 2


def spans(folder: Path) -> dict[str, Any]:
    """The document of an ExportTraceServiceRequest."""
    manifest = run_folders.read_manifest(folder)
    if manifest is None:
        raise UserError(f"{folder} is no run folder", hint="`keepstep runs` lists runs")
    found = [_run_span(manifest)]
    before: AttemptSaid | None = None
    for said in manifest.attempts:
        if before is not None and before.ended is not None and said.began > before.ended:
            found.append(_pause_span(manifest, before, said))
        found.append(_attempt_span(manifest, said, _findings(folder, said)))
        before = said
    resource = {"service.name": "keepstep", "host.name": manifest.host, "keepstep.run": manifest.name}
    scope = {"scope": {"name": "keepstep", "version": __version__}, "spans": found}
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}


def post(document: Mapping[str, Any], url: str, headers: Mapping[str, str]) -> None:
    """Send it to a collector (OTLP over HTTP)."""
    address = url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH
    if not address.startswith(("http://", "https://")):
        raise UserError(f"{url} is no address of a collector", hint="for example http://localhost:4318")
    body = json.dumps(document).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json", **headers}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S):
            pass
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Unavailable(
            f"{address} did not take the spans: {error}", hint="is a collector listening there?"
        ) from None


def _run_span(manifest: RunManifest) -> dict[str, Any]:
    last = manifest.attempts[-1] if manifest.attempts else None
    told = {
        "keepstep.command": redact(shlex.join(manifest.command)),
        "keepstep.ranks": manifest.ranks,
        "keepstep.state": manifest.state,
        "keepstep.attempts": len(manifest.attempts),
    }
    ended = manifest.ended or (last.ended if last is not None else None)
    failed = (last.title or last.happened) if last is not None and manifest.state == "failed" else None
    return _span(manifest, "run", None, f"run {manifest.name}", manifest.began, ended, told, failed)


def _attempt_span(manifest: RunManifest, said: AttemptSaid, findings: list[dict[str, Any]]) -> dict[str, Any]:
    told = {
        "keepstep.attempt": said.number,
        "keepstep.cause": said.cause,
        "keepstep.decision": said.decision,
        "keepstep.steps": said.steps,
        "keepstep.step_seconds": said.step_s,
        "keepstep.status": said.status,
        "keepstep.remedies": ", ".join(said.remedies) or None,
    }
    failed = (said.title or said.happened) if said.status else None
    span = _span(
        manifest, f"attempt {said.number}", "run", f"attempt {said.number}", said.began, said.ended, told, failed
    )
    at = _nanoseconds(said.told or said.ended or said.began)
    span["events"] = [_event(each, at) for each in findings]
    return span


def _pause_span(manifest: RunManifest, before: AttemptSaid, after: AttemptSaid) -> dict[str, Any]:
    told = {"keepstep.decision": before.decision, "keepstep.cause": before.cause}
    return _span(manifest, f"restart {after.number}", "run", "restart", before.ended or 0.0, after.began, told, None)


def _event(finding: Mapping[str, Any], at: str) -> dict[str, Any]:
    told = {f"keepstep.{name}": finding.get(name) for name in ("cause", "rule", "role", "confidence", "title")}
    ranks = finding.get("ranks")
    told["keepstep.ranks"] = ", ".join(map(str, ranks)) if isinstance(ranks, list) else None
    return {"timeUnixNano": at, "name": str(finding.get("cause", "finding")), "attributes": _attributes(told)}


def _span(
    manifest: RunManifest,
    key: str,
    parent: str | None,
    name: str,
    began: float,
    ended: float | None,
    told: Mapping[str, Any],
    failed: str | None,
) -> dict[str, Any]:
    """A span that has not ended ends where it began: OTLP has no open ones."""
    whole = f"{manifest.host} {manifest.name} {manifest.began}"
    span = {
        "traceId": hashlib.sha256(whole.encode()).hexdigest()[:32],
        "spanId": _span_id(whole, key),
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(began),
        "endTimeUnixNano": _nanoseconds(ended or began),
        "attributes": _attributes({**told, "keepstep.goes_on": True if ended is None else None}),
    }
    if parent is not None:
        span["parentSpanId"] = _span_id(whole, parent)
    if failed:
        span["status"] = {"code": _ERROR, "message": redact(failed)}
    return span


def _span_id(whole: str, key: str) -> str:
    return hashlib.sha256(f"{whole} {key}".encode()).hexdigest()[:16]


def _nanoseconds(at: float) -> str:
    return str(int(at * 1e9))


def _attributes(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in told.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": redact(str(value))}


def _findings(folder: Path, said: AttemptSaid) -> list[dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError):
        with open_regular(folder / f"attempt-{said.number}" / "report.json", follow=False) as stream:
            report = foreign_json.loads(stream.read(LARGEST_REPORT))
        found = report.get("findings") if isinstance(report, dict) else None
        return [each for each in found or () if isinstance(each, dict)]
    return []
