# SPDX-License-Identifier: Apache-2.0
"""Findings that a project knows already: kept by rule, file and the text of the line, so moved lines stay known."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from keepstep.base.safe_files import open_regular, open_to_share
from keepstep.errors import UserError
from keepstep.model.finding import Finding

SCHEMA = "keepstep.baseline/1"
LARGEST = 64 << 20
_Known = tuple[str, str, str]
"""Rule, file as seen from the baseline's folder, text of the line."""


def new_findings(findings: Iterable[Finding], path: Path) -> tuple[list[Finding], int]:
    """Those that the baseline does not have, and how many of its entries nothing matches any more."""
    known = _read(path)
    fresh = []
    for each in findings:
        key = _key(each, path)
        if known[key] > 0:
            known[key] -= 1
        else:
            fresh.append(each)
    return fresh, sum(known.values())


def write_baseline(findings: Iterable[Finding], path: Path) -> int:
    """Keep these findings as known. Returns how many. Raises ``UserError`` if the file cannot be written."""
    counts = Counter(_key(each, path) for each in findings)
    rows = [{"rule": rule, "file": file, "text": text, "count": n} for (rule, file, text), n in sorted(counts.items())]
    try:
        with open_to_share(path) as stream:
            stream.write((json.dumps({"schema": SCHEMA, "findings": rows}, indent=1) + "\n").encode())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return sum(counts.values())


def _key(finding: Finding, path: Path) -> _Known:
    first = finding.evidence[0]
    file = os.path.relpath(os.path.realpath(first.origin.source), os.path.realpath(path.parent))
    return finding.rule, file.replace(os.sep, "/"), first.quote


def _read(path: Path) -> Counter[_Known]:
    try:
        with open_regular(path) as stream:
            found = json.loads(stream.read(LARGEST))
        if found["schema"] != SCHEMA:
            raise ValueError(f"its schema is {found['schema']!r}")
        return Counter({(row["rule"], row["file"], row["text"]): int(row["count"]) for row in found["findings"]})
    except OSError as error:
        raise UserError(
            f"cannot read the baseline {path}: {error.strerror or error}",
            hint="`keepstep check code . --write-baseline FILE` makes one",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{path} is no baseline of keepstep: {error}") from error
