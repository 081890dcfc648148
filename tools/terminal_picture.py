# SPDX-License-Identifier: Apache-2.0
"""Draw docs/images/why.svg: a real report on a recorded real run, as a terminal shows it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from keepstep.analyze.why import explain_paths
from keepstep.render.terminal import render_terminal

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "why.svg"
RECORDING = "tf_segfault"
WIDTH = 96


def main() -> int:
    recording = ROOT / "tests" / "recordings" / (sys.argv[1] if sys.argv[1:] else RECORDING)
    explained = explain_paths(sorted(recording.rglob("*.log")))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), "keepstep why logs/"))
    console.print(Text.from_ansi(render_terminal(explained.report, colour=True, width=WIDTH)))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(console.export_svg(title="keepstep why", unique_id="keepstep-why"))
    print(PICTURE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
