# SPDX-License-Identifier: Apache-2.0
"""Where this host's kernel puts core files, which one a dead rank left, and why there is none.

None is left next to the script.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import resource
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.safe_files import make_private

_PATTERN = Path("/proc/sys/kernel/core_pattern")
_USES_PID = Path("/proc/sys/kernel/core_uses_pid")
MOST = 8


@dataclass(frozen=True, slots=True)
class CorePlace:
    """What the kernel does with cores here."""

    pattern: str
    uses_pid: bool = False

    @property
    def handler(self) -> str | None:
        """The program that gets them, if one does."""
        return self.pattern[1:].split()[0] if self.pattern.startswith("|") and len(self.pattern) > 1 else None

    def why_none(self, pid: int) -> str | None:
        """Why no core of this process can be found here, in words; None if one can."""
        handler = self.handler
        if handler is not None:
            name = os.path.basename(handler)
            if "systemd-coredump" in name:
                return f"the kernel hands core files to {name}; `coredumpctl dump {pid} -o core.{pid}` gets it"
            if "apport" in name:
                place = "/var/lib/apport/coredump"
                return f"the kernel hands core files to {name}, which keeps those of packaged programs; look in {place}"
            return f"the kernel hands core files to {handler}, which decides what happens to them"
        if not self.pattern:
            return "the kernel is configured to write no core files (core_pattern is empty)"
        if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            return "the hard limit on core files is 0 (`ulimit -Hc`), and only root can raise it"
        return None

    def glob(self, pid: int, cwd: Path) -> str:
        """The names that the core of this process may have."""
        wild = "".join(_expand(part, pid) for part in re.findall(r"%.|[^%]+", self.pattern))
        if self.uses_pid and not re.search(r"%[pPiI]", self.pattern):
            wild += f".{pid}*"
        return wild if wild.startswith("/") else f"{glob.escape(str(cwd))}/{wild}"


def place() -> CorePlace:
    pattern, uses = "core", False
    with contextlib.suppress(OSError):
        pattern = _PATTERN.read_text().strip()
    with contextlib.suppress(OSError):
        uses = _USES_PID.read_text().strip() == "1"
    return CorePlace(pattern, uses)


def find(there: CorePlace, pids: Collection[int], cwd: Path, since: float) -> dict[Path, int]:
    """Core files of these processes that were written since, each with its process."""
    if there.handler is not None or not there.pattern:
        return {}
    names = {name for pid in pids for name in glob.glob(there.glob(pid, cwd))[:200]}
    found: dict[Path, int] = {}
    if names:
        from keepstep.sources.stacks.cores import (  # reads several formats, which most runs never need
            is_core,
            pid_of_core,
        )
    for path in sorted(map(Path, names)):
        with contextlib.suppress(OSError):
            pid = pid_of_core(path) if path.stat().st_mtime >= since - 1.0 and is_core(path) else None
            if pid is not None and pid in pids:
                found[path] = pid
    return dict(list(found.items())[:MOST])


def bring(there: CorePlace, path: Path, into: Path) -> None:
    """Bring it to ``into``: moved away from the script, or linked if the system has its own folder for cores."""
    make_private(into.parent)
    if not there.pattern.startswith("/"):
        with contextlib.suppress(OSError):  # another file system: gigabytes are not copied
            path.rename(into)
            return
    into.symlink_to(path)


def _expand(part: str, pid: int) -> str:
    if not part.startswith("%"):
        return glob.escape(part)
    if part[1] in "pPiI":
        return str(pid) if part[1] in "pP" else "*"
    return "%" if part[1] == "%" else "*"
