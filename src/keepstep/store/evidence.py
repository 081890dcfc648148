# SPDX-License-Identifier: Apache-2.0
"""Evidence in a file: one JSON line each, appended whole, read back by `keepstep why` (sources/boxes.py)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from keepstep.core import private_files
from keepstep.core.codec import to_dict
from keepstep.core.evidence import Evidence
from keepstep.core.facts.base import Fact
from keepstep.core.redact import redacted

LONGEST_LINE = 1 << 20


def append(path: Path, evidence: Iterable[Evidence[Fact]]) -> None:
    """Append it to the file, redacted, in one write. Raises ``OSError``."""
    lines = [json.dumps(to_dict(redacted(each)), default=str) for each in evidence]
    data = "".join(line + "\n" for line in lines if len(line) < LONGEST_LINE).encode(errors="replace")
    if not data:
        return
    private_files.append(path, data)
