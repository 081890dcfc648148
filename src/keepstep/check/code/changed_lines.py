# SPDX-License-Identifier: Apache-2.0
"""Which lines changed since a commit, by git: a finding is new if it stands on one, or if its condition does."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from keepstep.errors import UserError
from keepstep.model.code_place import CodePlace
from keepstep.model.finding import Finding

LONGEST_S = 60.0
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_since(base: str, path: Path) -> dict[str, set[int]]:
    """By file, the lines that the working tree has and the commit has not. Raises ``UserError``."""
    folder = path if path.is_dir() else path.parent
    if base.startswith("-"):
        raise UserError(f"{base} is no name of a commit")
    top = _git(folder, "rev-parse", "--show-toplevel").strip()
    text = _git(
        folder, "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", base, "--"
    )
    changed: defaultdict[str, set[int]] = defaultdict(set)
    file = ""
    for line in text.split("\n"):
        if line.startswith("+++ "):
            file = os.path.realpath(os.path.join(top, line[6:].rstrip("\t")))
        elif match := _HUNK.match(line):
            first = int(match[1])
            changed[file].update(range(first, first + int(match[2] or 1)))
    for name in _git(folder, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", top).split("\0"):
        if name:
            changed[os.path.realpath(os.path.join(top, name))] = ALL
    return changed


class _Every(set[int]):
    """All lines of a file that the commit does not have."""

    def __contains__(self, line: object) -> bool:
        return True


ALL = _Every()


def on_changed_lines(findings: Iterable[Finding], changed: Mapping[str, set[int]]) -> list[Finding]:
    return [each for each in findings if _is_changed(each, changed)]


def _is_changed(finding: Finding, changed: Mapping[str, set[int]]) -> bool:
    for each in finding.evidence:
        lines = changed.get(os.path.realpath(each.origin.source), set())
        more = each.fact.lines if isinstance(each.fact, CodePlace) else ()
        if any(place in lines for place in (each.origin.line, *more) if place is not None):
            return True
    return False


def _git(folder: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotepath=off", "-c", "core.fsmonitor=false", "-C", str(folder), *words],
            capture_output=True, text=True, errors="replace", timeout=LONGEST_S, stdin=subprocess.DEVNULL, env=env,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise UserError("--diff needs git, and there is none on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"git took longer than {LONGEST_S:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or "it says nothing").splitlines()[0]
        raise UserError(f"git {words[0]}: {said}", hint="--diff takes a commit or a branch: --diff origin/main")
    return done.stdout
