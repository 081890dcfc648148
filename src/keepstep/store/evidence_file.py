# SPDX-License-Identifier: Apache-2.0
"""Evidence in a file: one JSON line each, appended whole, read back by `keepstep why` (sources/recorded)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from keepstep.base import safe_files
from keepstep.base.redact import redacted
from keepstep.model.codec import to_dict
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact

LONGEST_LINE = 1 << 20


def append(path: Path, evidence: Iterable[Evidence[Fact]]) -> None:
    """Append it to the file, redacted, in one write. Raises ``OSError``."""
    lines = [json.dumps(to_dict(redacted(each)), default=str) for each in evidence]
    data = "".join(line + "\n" for line in lines if len(line) < LONGEST_LINE).encode(errors="replace")
    if not data:
        return
    safe_files.append(path, data)
