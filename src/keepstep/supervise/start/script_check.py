# SPDX-License-Identifier: Apache-2.0
"""``keepstep check code`` on the script that a run starts, beside the run: no rank waits for it, and it only warns."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

MOST_SHOWN = 3
LONGEST_S = 600.0
NICENESS = 5


class CodeLook:
    """One look at one script. What it finds is said at once. If it fails itself, the run goes on without it."""

    def __init__(self, script: Path, folder: Path, say: Callable[[str], None]) -> None:
        """``folder``: where the script will run. It is read as a person there would have it read."""
        self._script = script
        self._say = say
        self._closed = False
        command = [sys.executable, "-m", "keepstep", "check", "code", "--json", str(script)]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        self._waits = threading.Thread(target=self._wait, name="keepstep-code-look", daemon=True)
        self._waits.start()

    def _wait(self) -> None:
        try:
            found, _ = self._process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return
        with contextlib.suppress(ValueError, KeyError, TypeError):
            lines = list(words(json.loads(found), self._script))
            if not self._closed:
                for line in lines:
                    self._say(line)

    def close(self) -> None:
        """End it, if the run is over first."""
        self._closed = True
        if self._process.poll() is None:
            self._process.kill()
        self._waits.join()


def words(report: dict[str, list[dict[str, object]]], script: Path) -> Iterator[str]:
    """What to say about a report of ``check code``: the first few findings, and how to see all."""
    findings = report["findings"]
    for each in findings[:MOST_SHOWN]:
        places = each["evidence"]
        assert isinstance(places, list)
        yield f"check code: {places[0]['source']}:{places[0]['line']}: {each['title']} ({each['rule']})"
    if findings:
        more = len(findings) - MOST_SHOWN
        count = f"{more} more, and why: " if more > 0 else "why, and what to do: "
        yield f"check code: {count}`keepstep check code {shlex.quote(str(script))}`"


def script_of(command: tuple[str, ...], cwd: Path) -> Path | None:
    """The script or the module that a command line runs, as a path from ``cwd``, if it is a file there."""
    for word, after in zip(command, (*command[1:], ""), strict=True):
        if word.endswith(".py") and (cwd / word).is_file():
            return Path(word)
        if word in ("-m", "--module") and after:
            base = Path(*after.split("."))
            for path in (base.with_suffix(".py"), base / "__main__.py"):
                if (cwd / path).is_file():
                    return path
    return None
