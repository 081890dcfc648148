# SPDX-License-Identifier: Apache-2.0
"""Programs of a folder made smaller: is the planted bug still the reason, and does the result pass once it is mended?

Each program is a folder with `run.sh` (or `LABEL` names another command) and a `LABEL` of JSON: `expect`, a pattern of
what the failing program prints; `mend`, one or a list of `old` and `new` text; `min_ranks`. A result has **slipped** if
it no longer prints what is expected, or if it still prints it once mended. A row of JSON is added to OUT for each, and
programs that have one are passed over, so a series that was stopped goes on.

    python -m benchmarks.shrink_folder FOLDER --budget 10m --out rows.jsonl --jobs 2 [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.mend_result import mended

MORE_S = 900.0
"""On top of the budget: the last run."""
MENDED_S = 600.0
SMALL, SHARE = 60, 1 / 3
TRIALS, MINUTES = 40, 10


def command(folder: Path) -> tuple[list[str], dict[str, str]]:
    """What `run.sh` starts, if that is one plain command; else the script itself. And the variables it sets."""
    text = (folder / "run.sh").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    lines = [line for line in lines if not re.match(r"(set|cd|source|\.)\s", line)]
    env = dict(shlex.split(line)[1].partition("=")[::2] for line in lines if line.startswith("export "))
    lines = [line for line in lines if not line.startswith("export ")]
    if len(lines) != 1 or re.search(r"[;&|$<>`]", lines[0].replace('"$@"', "")):
        return ["bash", "run.sh"], {}
    words = [word for word in shlex.split(lines[0].replace('"$@"', "")) if word != "exec"]
    while "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    program = os.path.basename(words[0])
    if program.startswith("python"):
        words[0] = sys.executable
    elif program == "torchrun":
        words[:1] = [sys.executable, "-m", "torch.distributed.run"]
    elif program == "accelerate":
        words[:2] = [sys.executable, "-m", "accelerate.commands.launch"]
    return words, env


def shrunk(source: Path, place: Path, budget: str) -> dict[str, Any]:
    """What `keepstep shrink` says of one program; its result lies below ``place``."""
    folder = place / source.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("LABEL*", "DONE", "__pycache__"))
    words, env = command(folder)
    asked = [sys.executable, "-m", "keepstep", "shrink", "--json", "--budget", budget, "--", *words]
    with open(place / f"{source.name}.log", "w") as log:
        limit_s = MORE_S + 60 * float(re.sub(r"\D", "", budget))
        done = subprocess.run(
            asked, cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=log, text=True, timeout=limit_s
        )
    if done.returncode not in (0, 1) or not done.stdout.strip():
        return {"error": (place / f"{source.name}.log").read_text()[-600:]}
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def judged(source: Path, place: Path, said: dict[str, Any]) -> dict[str, Any]:
    """Whether the result is the planted bug still, and passes without it."""
    label = json.loads(next(source.glob("LABEL*")).read_text())
    result = Path(said["folder"])
    printed = (result / "output.txt").read_text(errors="replace") + (result / "report.txt").read_text(errors="replace")
    expected = bool(re.search(label["expect"], printed))
    cured = place / f"mended-{source.name}"
    shutil.rmtree(cured, ignore_errors=True)
    shutil.copytree(result, cured)
    mends = label["mend"] if isinstance(label["mend"], list) else [label["mend"]]
    found = []
    for each in mends:
        old, new = (each.get(key, each.get(f"{key}_text")) for key in ("old", "new"))
        files = [source / each["file"]] if "file" in each else sorted(source.rglob("*.py"))
        found.append(any(mended(cured, file.read_text(), old, new) for file in files))
    row = {"expected": expected, "min_ranks": label.get("min_ranks"), "mend_found": all(found)}
    if not any(found):
        return {**row, "passes": False, "slipped": not expected}
    words = shlex.split(said["run"])[len(said["variables"]) :]
    script = next(n for n, word in enumerate(words) if word.endswith((".py", ".sh")) or word == "-m")
    again = [sys.executable, *words[script:]] if words[script] != "run.sh" else words
    if said["ranks"]:
        run = ["-m", "keepstep", "run", "-q", "--no-check", "--max-attempts", "1", "-n", str(said["ranks"]), "--"]
        again = [sys.executable, *run, *again]
    try:
        done = subprocess.run(
            again, cwd=cured, env={**os.environ, **said["variables"]}, capture_output=True, text=True, timeout=MENDED_S
        )
    except subprocess.TimeoutExpired:
        return {**row, "passes": False, "slipped": not expected, "mended_says": "it was still running"}
    tail = (done.stdout + done.stderr)[-600:]
    again_same = done.returncode != 0 and bool(re.search(label["expect"], done.stdout + done.stderr))
    row |= {"passes": done.returncode == 0, "slipped": not expected or again_same}
    return row if row["passes"] else {**row, "mended_says": tail}


def one(source: Path, place: Path, budget: str, out: Path) -> None:
    """One row."""
    row: dict[str, Any] = {"name": source.name}
    try:
        said = shrunk(source, place, budget)
        keys = (
            *("cause", "title", "run", "lines", "lines_before", "lines_executed", "ranks", "ranks_before", "needs"),
            *(
                "trials",
                "refused",
                "seconds",
                "complete",
                "same_in_empty_folder",
                "collectives_alone",
                "files",
                "error",
            ),
        )
        row |= {key: said[key] for key in keys if key in said}
        row |= {"folder": said["folder"], **judged(source, place, said)} if "folder" in said else {}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:600]
    with open(out, "a") as stream:
        stream.write(json.dumps(row) + "\n")
    print(told(row), flush=True)


def told(row: dict[str, Any]) -> str:
    """A line."""
    if "error" in row:
        return f"{row['name']}: {row['error'].strip().splitlines()[-1:] or 'failed'}"
    ranks = f", ranks {row['ranks_before']} to {row['ranks']} (label: {row['min_ranks']})" if row["ranks"] else ""
    return (
        f"{row['name']}: lines {row['lines_before']} to {row['lines']} ({row['lines_executed']} ran){ranks}, "
        f"{row['trials']} trials, {row['seconds'] / 60:.1f} min, {'complete' if row['complete'] else 'cut off'}, "
        f"{'same' if row['same_in_empty_folder'] else 'NOT the same'} in an empty folder, "
        f"{'SLIPPED' if row['slipped'] else 'no slip'}, "
        f"{'passes mended' if row['passes'] else 'FAILS mended' if row['mend_found'] else 'mend not found'}"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    """The last lines."""
    done = [row for row in rows if "error" not in row]
    small = [row for row in done if row["lines"] <= SMALL and row["lines"] <= max(SHARE * row["lines_executed"], 1)]
    median = statistics.median
    return (
        f"{len(rows)} programs, {len(done)} made smaller: {sum(row['slipped'] for row in done)} slips, "
        f"{sum(row['passes'] for row in done)} pass mended, {sum(row['lines'] <= SMALL for row in done)} with at most "
        f"{SMALL} lines ({len(small)} of these a third of what ran), "
        f"{sum(row['ranks'] == row['min_ranks'] for row in done if row['ranks'])} with the least ranks\n"
        f"median {median([row['trials'] for row in done] or [0])} trials (asked: {TRIALS}), "
        f"{median([row['seconds'] / 60 for row in done] or [0]):.1f} min (asked: {MINUTES}), "
        f"{median([row['lines'] for row in done] or [0])} lines"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="of the folder's programs; all of them, if none is given")
    parser.add_argument("--budget", default="10m", help="whole minutes for each (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--out", type=Path, default=Path("shrink_rows.jsonl"))
    parser.add_argument("--skip", nargs="*", default=[], help="programs that are passed over")
    parser.add_argument("--work", type=Path, help="where copies and results go (default: a new folder)")
    asked = parser.parse_args()
    place = asked.work or Path(tempfile.mkdtemp(prefix="keepstep-shrink-series-"))
    place.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    passed_over = {row["name"] for row in rows} | set(asked.skip)
    sources = [each for each in sorted(asked.folder.iterdir()) if (each / "run.sh").exists()]
    sources = [each for each in sources if each.name in (asked.names or [each.name]) and each.name not in passed_over]
    print(f"{len(sources)} programs, results in {place}", flush=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(lambda source: one(source, place, asked.budget, asked.out), sources))
    print(summary([json.loads(line) for line in asked.out.read_text().splitlines()]))


if __name__ == "__main__":
    main()
