# SPDX-License-Identifier: Apache-2.0
"""Programs of a folder made smaller: is the planted bug still the reason, and does the result pass once it is mended?

Each program is a folder with `run.sh`, or `run.txt` (one command line), and a `LABEL` of JSON. Of the label all is
optional: `expect`, a pattern of what the failing program prints; `cause`, one or a list of what keepstep may say of it,
and `root_ranks`, whom it may blame; `mend`, one or a list of `old` and `new` text; `data`, a folder of the program that
takes the place of `data` in a mended one; `min_ranks`. A `fixed.patch` is a mend too. A result has **slipped** if it no
longer shows what is expected, or if it still fails so once mended. A row of JSON is added to OUT for each, and programs
that have one are passed over, so a series that was stopped goes on.

    python -m benchmarks.shrink_folder FOLDER --budget 10m --out rows.jsonl --jobs 2 [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import queue
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

from benchmarks.mend_result import Mend, mended, mends_of_patch

MORE_S = 900.0
"""On top of the budget: the last run."""
MENDED_S = 600.0
SMALL, SHARE = 60, 1 / 3
TRIALS, MINUTES, GOOD = 40, 10, 85
UNSEEN = shutil.ignore_patterns("LABEL*", "DONE", "fixed.patch", "__pycache__")
KEPT = (
    *("cause", "title", "run", "lines", "lines_before", "lines_executed", "ranks", "ranks_before", "needs", "error"),
    *("trials", "refused", "seconds", "complete", "same_in_empty_folder", "collectives_alone", "files"),
)


def command(folder: Path) -> tuple[list[str], dict[str, str]]:
    """What `run.sh` or `run.txt` starts, if that is one plain command; else the script itself. And the variables it
    sets."""
    if not (folder / "run.sh").exists():
        shutil.copy(folder / "run.txt", folder / "run.sh")
    text = (folder / "run.sh").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    lines = [line for line in lines if not re.match(r"(set|cd|source|\.)\s", line)]
    env = dict(shlex.split(line)[1].partition("=")[::2] for line in lines if line.startswith("export "))
    lines = [line for line in lines if not line.startswith("export ")]
    if len(lines) != 1 or re.search(r"[;&|$<>`]", lines[0].replace('"$@"', "")):
        return ["bash", "run.sh"], {}
    words = [word for word in shlex.split(lines[0].replace('"$@"', "")) if word != "exec"]
    words = words[1:] if words[0] == "env" else words
    while "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    program = os.path.basename(words[0])
    if program.startswith("python"):
        words[0] = sys.executable
    elif program == "keepstep":
        words = [sys.executable if each in ("python", "python3") else each for each in words]
    elif program == "torchrun":
        words[:1] = [sys.executable, "-m", "torch.distributed.run"]
    elif program == "accelerate":
        words[:2] = [sys.executable, "-m", "accelerate.commands.launch"]
    return words, env


def shrunk(source: Path, place: Path, budget: str, pinned: list[str]) -> dict[str, Any]:
    """What `keepstep shrink` says of one program; its result lies below ``place``."""
    folder = place / source.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=UNSEEN)
    words, env = command(folder)
    asked = [*pinned, sys.executable, "-m", "keepstep", "shrink", "--json", "--budget", budget, "--", *words]
    with open(place / f"{source.name}.log", "w") as log:
        limit_s = MORE_S + 60 * float(re.sub(r"\D", "", budget))
        done = subprocess.run(
            asked, cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=log, text=True, timeout=limit_s
        )
    if done.returncode not in (0, 1) or not done.stdout.strip():
        return {"error": (place / f"{source.name}.log").read_text()[-600:]}
    return {**json.loads(done.stdout), "env": env}


def judged(source: Path, place: Path, said: dict[str, Any], pinned: list[str]) -> dict[str, Any]:
    """Whether the result is the planted bug still, and passes without it."""
    label = json.loads(next(source.glob("LABEL*.json"), source / "LABEL").read_text())
    result = Path(said["folder"])
    printed = (result / "output.txt").read_text(errors="replace") + (result / "report.txt").read_text(errors="replace")
    shown = None
    if "cause" in label:
        _, again, shown = _ran(_laid_out(source, place, said, "again"), said, pinned)
        printed += again
    expected = _shows(label, printed, shown, said["ranks"] in (None, said["ranks_before"]))
    row: dict[str, Any] = {"expected": expected, "min_ranks": label.get("min_ranks")}
    row |= {"shown": shown["cause"], "shown_ranks": shown["ranks"]} if shown else {}
    cured = _laid_out(source, place, said, "mended")
    found = [mended(cured, each) for each in _mends(source, label)]
    if "data" in label:
        shutil.rmtree(cured / "data", ignore_errors=True)
        shutil.copytree(source / label["data"], cured / "data")
        found.append(any("data" in file.read_text() for file in result.glob("*.py")))
    row |= {"mend_found": bool(found) and all(found)}
    if not any(found):
        return {**row, "passes": False, "slipped": not expected}
    status, printed, root = _ran(cured, said, pinned)
    if status is None:
        return {**row, "passes": False, "slipped": not expected, "mended_says": "it was still running"}
    same = {"cause": said["cause"], **label} if "expect" not in label else label
    again_same = (status != 0 or "cause" in same) and _shows({**same, "root_ranks": None}, printed, root, False)
    row |= {"passes": status == 0 and not again_same, "slipped": not expected or again_same}
    return row if row["passes"] else {**row, "mended_says": printed[-600:]}


def _mends(source: Path, label: dict[str, Any]) -> list[Mend]:
    given = label.get("mend", [])
    mends = [
        Mend(each.get("old", each.get("old_text")), each.get("new", each.get("new_text")), file, file.read_text())
        for each in (given if isinstance(given, list) else [given])
        for file in ([source / each["file"]] if "file" in each else sorted(source.rglob("*.py")))
    ]
    patch = source / "fixed.patch"
    mends = [each for each in mends if each.original.count(each.old) == 1]
    return mends + (mends_of_patch(source, patch.read_text()) if patch.exists() else [])


def _laid_out(source: Path, place: Path, said: dict[str, Any], name: str) -> Path:
    """A copy of the result, beside the program's other files where it cannot do without."""
    folder = place / f"{name}-{source.name}"
    shutil.rmtree(folder, ignore_errors=True)
    if not said["same_in_empty_folder"]:
        shutil.copytree(source, folder, ignore=UNSEEN)
        for each in folder.rglob("*.py"):
            each.unlink()
    shutil.copytree(said["folder"], folder, dirs_exist_ok=True)
    return folder


def _ran(folder: Path, said: dict[str, Any], pinned: list[str]) -> tuple[int | None, str, dict[str, Any] | None]:
    """Status, output and what keepstep names as the root of a run of the result; no status: it did not end."""
    words = shlex.split(said["run"])[len(said["variables"]) :]
    how = words[2 : words.index("--")] if words[:2] == ["keepstep", "run"] else []
    how = how or (["-n", str(said["ranks"])] if said["ranks"] else [])
    script = next(n for n, word in enumerate(words) if word.endswith((".py", ".sh")) or word == "-m")
    what = [sys.executable, *words[script:]] if how or not words[script].endswith(".sh") else words
    runs = folder / ".judged"
    run = [*pinned, sys.executable, "-m", "keepstep", "run", "--no-check", "--max-attempts", "1"]
    run += ["--run-dir", str(runs), *how, "--", *what]
    env = {**os.environ, **said["env"], **said["variables"]}
    try:
        done = subprocess.run(run, cwd=folder, env=env, capture_output=True, text=True, timeout=MENDED_S)
    except subprocess.TimeoutExpired:
        return None, "", None
    kept = next(runs.glob("*/manifest.json"), None)
    why = [sys.executable, "-m", "keepstep", "why", "--json", str(kept.parent if kept else runs)]
    told = subprocess.run(why, capture_output=True, text=True, timeout=MENDED_S).stdout
    found = json.loads(told)["findings"] if told.strip() else []
    return done.returncode, done.stdout + done.stderr, next(iter(found), None)


def _shows(label: dict[str, Any], printed: str, root: dict[str, Any] | None, ranks_are_same: bool) -> bool:
    """Whether this is what the label says. Where ranks went, those that are left have other numbers."""
    if "expect" in label and not re.search(label["expect"], printed):
        return False
    if "cause" not in label:
        return True
    causes = label["cause"] if isinstance(label["cause"], list) else [label["cause"]]
    if root is None or root["cause"] not in causes:
        return False
    blamed = label.get("root_ranks")
    return not (blamed and ranks_are_same) or bool({*blamed} & {*root["ranks"]})


def one(source: Path, place: Path, budget: str, out: Path, pins: queue.Queue[list[str]]) -> None:
    """One row."""
    row: dict[str, Any] = {"name": source.name}
    pinned = pins.get()
    try:
        said = shrunk(source, place, budget, pinned)
        row |= {key: said[key] for key in KEPT if key in said}
        row |= {"folder": said["folder"], **judged(source, place, said, pinned)} if "folder" in said else {}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:600]
    finally:
        pins.put(pinned)
    with open(out, "a") as stream:
        stream.write(json.dumps(row) + "\n")
    print(told(row), flush=True)


def told(row: dict[str, Any]) -> str:
    """A line."""
    if "error" in row:
        return f"{row['name']}: {row['error'].strip().splitlines()[-1:] or 'failed'}"
    ranks = f", ranks {row['ranks_before']} to {row['ranks']} (least: {least(row)})" if row["ranks"] else ""
    return (
        f"{row['name']}: lines {row['lines_before']} to {row['lines']} ({row['lines_executed']} ran){ranks}, "
        f"{row['trials']} trials, {row['seconds'] / 60:.1f} min, {'complete' if row['complete'] else 'cut off'}, "
        f"{'same' if row['same_in_empty_folder'] else 'NOT the same'} in an empty folder, "
        f"{'SLIPPED' if row['slipped'] else 'no slip'}, "
        f"{'passes mended' if row['passes'] else 'FAILS mended' if row['mend_found'] else 'mend not found'}"
    )


def least(row: dict[str, Any]) -> int | None:
    """The least ranks it can fail with: as the label says, or as one fewer was tried; None: not known."""
    return row["min_ranks"] or (1 if row["ranks"] == 1 else row.get("needs"))


def summary(rows: list[dict[str, Any]]) -> str:
    """The last lines."""
    done = [row for row in rows if "error" not in row]
    small = [row for row in done if row["lines"] <= SMALL and row["lines"] <= max(SHARE * row["lines_executed"], 1)]
    ranked, found = [row for row in done if row["ranks"]], [row for row in done if row["mend_found"]]
    good = [row for row in small if not row["ranks"] or row["ranks"] == least(row)]
    healthy, median = sum("does not fail" in row.get("error", "") for row in rows), statistics.median
    return (
        f"{len(rows)} programs, {len(done)} made smaller ({healthy} did not fail here): "
        f"{sum(row['slipped'] for row in done)} slips (asked: 0)\n"
        f"{len(found)} could be mended, of which {sum(row['passes'] for row in found)} pass then; "
        f"{sum(row['same_in_empty_folder'] for row in done)} fail so in an empty folder; "
        f"{sum(not row['complete'] for row in done)} were cut off\n"
        f"{sum(row['lines'] <= SMALL for row in done)} with at most {SMALL} lines, {len(small)} of these a third of "
        f"what ran; {sum(row['ranks'] == least(row) for row in ranked)} of {len(ranked)} with the least ranks; "
        f"{len(good)} all of this, {100 * len(good) / max(len(rows), 1):.0f} % (asked: {GOOD} %)\n"
        f"median {median([row['trials'] for row in done] or [0])} trials (asked: {TRIALS}), "
        f"{median([row['seconds'] / 60 for row in done] or [0]):.1f} min (asked: {MINUTES}), "
        f"{median([row['lines'] for row in done] or [0])} lines"
    )


def series(sources: list[Path], asked: argparse.Namespace) -> str:
    """All of them that have no row yet; the summary of all rows."""
    place = asked.work or Path(tempfile.mkdtemp(prefix="keepstep-shrink-series-"))
    place.mkdir(parents=True, exist_ok=True)
    pins: queue.Queue[list[str]] = queue.Queue()
    cores = sorted(os.sched_getaffinity(0))
    for n in range(asked.jobs):
        own = [cores[each % len(cores)] for each in range(n * asked.cores_each, (n + 1) * asked.cores_each)]
        pins.put(["taskset", "-c", ",".join(map(str, own))] if own else [])
    have = {row["name"] for row in _rows(asked.out)}
    left = [each for each in sources if each.name not in have]
    print(f"{len(left)} programs, results in {place}", flush=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(lambda source: one(source, place, asked.budget, asked.out, pins), left))
    return summary(_rows(asked.out))


def _rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def options(parser: argparse.ArgumentParser) -> None:
    """Those of every series."""
    parser.add_argument("--budget", default="10m", help="whole minutes for each (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--cores-each", type=int, default=0, help="pin each to so many cores (default: to none)")
    parser.add_argument("--out", type=Path, default=Path("shrink_rows.jsonl"))
    parser.add_argument("--work", type=Path, help="where copies and results go (default: a new folder)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="of the folder's programs; all of them, if none is given")
    parser.add_argument("--skip", nargs="*", default=[], help="programs that are passed over")
    options(parser)
    asked = parser.parse_args()
    sources = [
        each for each in sorted(asked.folder.iterdir()) if any((each / n).exists() for n in ("run.sh", "run.txt"))
    ]
    sources = [each for each in sources if each.name in (asked.names or [each.name]) and each.name not in asked.skip]
    print(series(sources, asked))


if __name__ == "__main__":
    main()
