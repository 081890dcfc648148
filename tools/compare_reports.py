# SPDX-License-Identifier: Apache-2.0
"""Whether a change of the code changed an answer: `--json` of every recording, before and after.

    python -m tools.compare_reports write FOLDER [RUNS ...]   # on both commits
    python -m tools.compare_reports compare BEFORE AFTER

RUNS are folders whose subfolders each hold what one run left; without them, tests/recordings. `write` also writes the
set of signatures: pattern, fact and constants. `compare` prints each difference and ends with 1 if there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

RECORDINGS = Path(__file__).resolve().parents[1] / "tests" / "recordings"
LABELS = ("case.json", "recording.json", "reasons.md")
MOST_LINES = 40


def main() -> int:
    asks = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = asks.add_subparsers(dest="verb", required=True)
    write = verbs.add_parser("write")
    write.add_argument("folder", type=Path)
    write.add_argument("runs", type=Path, nargs="*", default=[RECORDINGS])
    compare = verbs.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    asked = asks.parse_args()
    return _write(asked.folder, asked.runs) if asked.verb == "write" else _compare(asked.before, asked.after)


def _write(folder: Path, runs: list[Path]) -> int:
    tasks = [
        (run.resolve(), folder.resolve() / parent.name / f"{run.name}.json")
        for parent in runs
        for run in sorted(parent.iterdir())
        if run.is_dir()
    ]
    with ProcessPoolExecutor() as pool:
        list(pool.map(_report, tasks))
    print(f"{len(tasks)} reports in {folder}")
    (folder / "signatures.txt").write_text("\n".join(sorted(_signatures())) + "\n")
    return 0


def _report(task: tuple[Path, Path]) -> None:
    """The report on a copy of the run under a neutral name, without its label."""
    from keepstep.cli.parser import run as keepstep

    run, target = task
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(run, Path(folder) / "run", ignore=shutil.ignore_patterns(*LABELS))
        os.chdir(folder)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = keepstep(["why", "run", "--json", "--no-kernel-log"])
        os.chdir("/")
    target.write_text(f"status {status}\n{json.dumps(json.loads(out.getvalue()), indent=1)}\n")


def _signatures() -> Iterator[str]:
    """Pattern, fact and constants of each signature. A function in place of a fact is known by its own name."""
    from keepstep.parse.scan.signature import States
    from keepstep.parse.scan.tables import Later, tables

    signatures, blocks, progress = tables()
    for kind, table in (("log", signatures), ("block", [each.begin for each in blocks]), ("end", progress)):
        for each in table:
            make = each.make.found if isinstance(each.make, Later) else each.make
            fact = make.fact if isinstance(make, States) else make
            constants = make.constants if isinstance(make, States) else {}
            words = sorted((name, str(value)) for name, value in constants.items())
            name = "<lambda>" if kind == "block" else fact.__name__
            yield f"{kind}\t{name}\t{words}\t{each.expression!r}\t{sorted(each.anchors)}\t{each.folds_case}"


def _compare(before: Path, after: Path) -> int:
    names = {str(file.relative_to(side)) for side in (before, after) for file in side.rglob("*") if file.is_file()}
    differing = 0
    for name in sorted(names):
        was, now = (_lines(side / name) for side in (before, after))
        if was != now:
            differing += 1
            lines = list(difflib.unified_diff(was, now, f"before/{name}", f"after/{name}", n=1, lineterm=""))
            print("\n".join(lines[:MOST_LINES]))
            if len(lines) > MOST_LINES:
                print(f"... and {len(lines) - MOST_LINES} lines more")
    print(f"{differing} of {len(names)} differ")
    return 1 if differing else 0


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.is_file() else []


if __name__ == "__main__":
    sys.exit(main())
