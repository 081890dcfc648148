# SPDX-License-Identifier: Apache-2.0
"""Put real reports into the README: one as text between its marks, one as a picture of a terminal.

Both come from recordings of real runs (tests/recordings), through the same code that ``keepstep why`` runs.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from keepstep.analyze.why import explain_paths
from keepstep.render.terminal import render_terminal

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "tests" / "recordings"
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "why.svg"
BLOCK = re.compile(r"(?<=<!-- report: made by `make docs` -->\n).*?(?=\n<!-- end of report -->)", re.S)
WIDTH = 88


def report_on(recording: str, *, colour: bool, width: int) -> str:
    """What ``keepstep why`` prints about a recorded run."""
    with tempfile.TemporaryDirectory() as folder:
        left = shutil.copytree(RECORDINGS / recording, Path(folder, "logs"), ignore=shutil.ignore_patterns("*.json"))
        return render_terminal(explain_paths([left], kernel_log=False).report, colour=colour, width=width)


def readme() -> str:
    """The README with the report as it prints now."""
    text = report_on("tf_segfault_faulthandler", colour=False, width=80)
    block = f"```console\n$ keepstep why logs/\n{text}```"
    return BLOCK.sub(lambda match: block, README.read_text())


def picture() -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), "keepstep why logs/"))
    console.print(Text.from_ansi(report_on("torch_oom_killed", colour=True, width=WIDTH)))
    drawn = console.export_svg(title="keepstep why", unique_id="keepstep-why")
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.S)  # no fonts from elsewhere: the reader's will do


def main() -> int:
    README.write_text(readme())
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture())
    print(f"wrote {README.name} and {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
