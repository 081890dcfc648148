# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of reports, and real reports to hold against it.

``python -m tools.report_schema FOLDER`` writes reports of recordings into a folder; ``tools.site`` validates them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "schema" / "keepstep.report-1.json"
RECORDINGS = ROOT / "tests" / "recordings"
EVERY = 6
"""One recording in so many: enough kinds of reports, in seconds."""


def load() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return schema


def main() -> int:
    from keepstep.analyze.why import explain_paths
    from keepstep.render.json import render_json

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    recordings = sorted(path for path in RECORDINGS.iterdir() if path.is_dir())[::EVERY]
    for path in recordings:
        report = explain_paths([path], kernel_log=False).report
        (folder / f"{path.name}.json").write_text(render_json(report), "utf-8")
    print(f"{len(recordings)} reports in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
