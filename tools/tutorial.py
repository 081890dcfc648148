# SPDX-License-Identifier: Apache-2.0
"""Run the commands of docs/tutorial.md, in order, in a folder of their own, and put what they print into the page.

``python -m tools.tutorial``. Numbers, and the order in which facts are seen, differ from run to run, so the test
compares the wording only.
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
OUTPUT = "<!-- output -->\n"
LONGEST_S = 180
OWN_NAMES = re.compile(r"(rank\d+)-\d+-\d+(\.notes\.jsonl):\d+")
TORCHRUNS_ADVICE = re.compile(r"W\d{4} .*torch/distributed/run\.py.*\n")
DIFFERS = re.compile(
    r"""^\ \ seen\ (?:.*\n)(?:\ {3,}.*\n)*      # its places and their order
      | ^what\ followed\ from\ it\n(?:\ .*\n)*  # who noticed it first
      | ^looked\ at:.*\n(?:\ .*\n)*            # sizes, and what this host lets us read
      | ^keepstep:\ (?!decision).*\n""",
    re.M | re.X,
)
"""What differs from run to run in a report, and in what `keepstep run` says around it."""


@dataclass(frozen=True)
class Ran:
    """A block of commands: its text, what it printed as the page shows it, and its exit status."""

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
            ran.append(Ran(fence["body"].strip(), _shortened(done.stdout, folder), done.returncode))
    return ran


def _here(folder: Path) -> Path:
    """``keepstep`` as this source has it, whatever is installed."""
    place = folder / ".bin"
    place.mkdir()
    command = place / "keepstep"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m keepstep "$@"\n')
    command.chmod(0o755)
    return place


def _shortened(output: str, folder: Path) -> str:
    """Without the folder, pids in the names of notes, and torchrun's advice about OMP_NUM_THREADS."""
    return OWN_NAMES.sub(r"\1\2", TORCHRUNS_ADVICE.sub("", output).replace(f"{folder}/", "")).strip() + "\n"


def outputs() -> dict[str, str]:
    """What the page shows, by the block that printed it."""
    after = re.compile(
        r"^```sh\n((?:(?!```).*\n)+)```\n\n" + re.escape(OUTPUT) + r"```text\n((?:(?!```).*\n)*)```$", re.M
    )
    return {block.strip(): shown for block, shown in after.findall(PAGE.read_text("utf-8"))}


def page(ran: list[Ran]) -> str:
    """The page with the outputs as they print now: each stands after the block that printed it."""
    text = PAGE.read_text("utf-8")
    now = {one.block: one.output for one in ran}
    for block, shown in outputs().items():
        before = f"```sh\n{block}\n```\n\n{OUTPUT}```text\n"
        text = text.replace(before + shown, before + now[block])
    return text


def wording(output: str) -> str:
    """An output without what differs from run to run: numbers, line breaks, evidence, what a host lets us read."""
    kept = " ".join(DIFFERS.sub("", output).split())
    kept = re.sub(r"\d{8}T\d{6}Z", "#", kept)
    return re.sub(r"(?<![A-Z\d])\d[\d.]*(?: (?:s|min|B|kB|MB)\b)?", "#", kept)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(play(Path(folder))), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
