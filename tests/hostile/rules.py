# SPDX-License-Identifier: Apache-2.0
"""Folders of rules that a stranger left in the way. Builders for the tests."""

from __future__ import annotations

from pathlib import Path

SIGNATURE = """
[[signature]]
name = "quota-refused"
pattern = 'quotad: refused job (?P<job>.+)$'
cause = "resource.contention"
title = "the quota service refused job {job}"
"""


def with_python_rules(folder: Path, marker: Path, *, rules: str = "own") -> Path:
    """A project with a signature, and with Python that leaves ``marker`` where it runs. Returns the folder of rules."""
    inside = folder / rules
    inside.mkdir(parents=True)
    (folder / "keepstep.toml").write_text(f'[rules]\nfolder = "{rules}"\n')
    (inside / "quota.toml").write_text(SIGNATURE)
    (inside / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    return inside
