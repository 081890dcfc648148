# SPDX-License-Identifier: Apache-2.0
"""Run folders that a stranger made, for `keepstep why RUN` and `keepstep runs` to read. Builders for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def run_folder(
    root: Path, name: str = "20260101T000000Z-train", *, attempts: list[dict[str, Any]] | None = None, **changes: Any
) -> Path:
    """A run folder with a manifest that says whatever it is told to."""
    folder = root / name
    folder.mkdir(parents=True)
    manifest = {
        "schema": "keepstep.run/1",
        "name": name,
        "command": ["python", "train.py"],
        "cwd": "/",
        "began": 1.0,
        "ranks": 2,
        "state": "failed",
        "attempts": [{"number": 0, "began": 1.0}] if attempts is None else attempts,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return folder
