# SPDX-License-Identifier: Apache-2.0
"""Run the commands of docs/tutorial.md, in order, in a folder of their own, and put their reports into the page.

``python -m tools.tutorial``. Line numbers and the order in which facts are seen differ from run to run,
so the test compares rule, cause and ranks only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
REPORT = "<!-- report -->\n"
LONGEST_S = 180
OWN_NAMES = re.compile(r"(rank\d+)-\d+-\d+(\.notes\.jsonl):\d+")


@dataclass(frozen=True)
class Ran:
    """A block of commands: its text, what it printed to standard output, and its exit status."""

    block: str
    output: str
    status: int


def play(folder: Path) -> list[Ran]:
    """Write the page's files, run its commands with this Python and this source, and return what came of each block."""
    bin_folder = Path(sys.executable).parent
    env = {name: value for name, value in os.environ.items() if not name.startswith(("KEEPSTEP", "PYTEST"))}
    env["PATH"] = f"{_here(folder)}{os.pathsep}{bin_folder}{os.pathsep}{env.get('PATH', '')}"
    env["PYTHONPATH"] = str(ROOT / "src")
    ran = []
    for fence in FENCE.finditer(PAGE.read_text("utf-8")):
        if fence["kind"] == "python":
            name = fence["body"].splitlines()[0].removeprefix("# ")
            (folder / name).write_text(fence["body"], "utf-8")
        elif fence["kind"] == "sh":
            done = subprocess.run(
                ["bash", "-c", fence["body"]],
                cwd=folder,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LONGEST_S,
            )
            ran.append(Ran(fence["body"].strip(), done.stdout, done.returncode))
    return ran


def _here(folder: Path) -> Path:
    """``keepstep`` as this source has it, whatever is installed."""
    place = folder / ".bin"
    place.mkdir()
    command = place / "keepstep"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m keepstep "$@"\n')
    command.chmod(0o755)
    return place


def report_in(output: str) -> str:
    """The report in an output, without what differs from run to run: names of files by pid, sizes of logs."""
    lines = output.splitlines(keepends=True)
    begin = next(n for n, line in enumerate(lines) if re.match(r"[A-Z]{3}\d{3} ", line))
    kept = "".join(lines[begin:]).partition("\nlooked at:")[0].rstrip() + "\n"
    return OWN_NAMES.sub(r"\1\2", kept)


def page(ran: list[Ran]) -> str:
    """The page with the reports as they print now: each stands after the block that printed it."""
    text = PAGE.read_text("utf-8")
    for one in ran:
        after = text.index(one.block) + len(one.block)
        mark = re.compile(r"\A\n```\n\n" + re.escape(REPORT) + r"```text\n.*?```\n", re.S)
        text = text[:after] + mark.sub(
            lambda match, one=one: f"\n```\n\n{REPORT}```text\n{report_in(one.output)}```\n", text[after:]
        )
    return text


def concluded(text: str) -> list[tuple[str, str]]:
    """Rule and cause, with its ranks, of every report in a text."""
    return re.findall(r"^([A-Z]{3}\d{3}) (?:fatal|warning|note) [^`]*?\n  cause +(.+)$", text, re.M)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(play(Path(folder))), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
