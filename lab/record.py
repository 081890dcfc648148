"""Record real runs: `python -m lab.record NAME... | --all [--out tests/recordings]`.

Runs each named scenario and keeps the raw output of every rank, cleaned of this machine's paths and names,
with a `recording.json` that says what really happened.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path

from lab.launch import ROOT, launch
from lab.scenario import Scenario
from lab.scenarios import SCENARIOS

LARGEST = 200_000
HEAD = 120_000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="record every scenario")
    parser.add_argument("--relabel", action="store_true", help="rewrite recording.json only, run nothing")
    parser.add_argument("--list", action="store_true", help="print the scenarios' names")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "recordings")
    options = parser.parse_args()
    if options.list:
        print("\n".join(SCENARIOS))
        return 0
    names = list(SCENARIOS) if options.all else options.names
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown or not names:
        parser.error(f"no such scenario: {', '.join(unknown)}" if unknown else "name a scenario, or --all")
    for name in names:
        if options.relabel:
            relabel(SCENARIOS[name], options.out)
            continue
        began = time.monotonic()
        exits = record(SCENARIOS[name], options.out)
        print(f"{name}: exits {exits} in {time.monotonic() - began:.1f} s", flush=True)
    return 0


def record(scenario: Scenario, out: Path) -> list[int | None]:
    """Run `scenario` and write its recording to `out/<name>`; returns the exit statuses."""
    with tempfile.TemporaryDirectory(prefix="keepstep-logs-") as folder:
        logs = Path(folder)
        exits = launch(scenario, logs)
        target = out / scenario.name
        shutil.rmtree(target, ignore_errors=True)
        for path in sorted(logs.rglob("*.log")):
            kept = target / path.relative_to(logs)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(trim(sanitise(path.read_text(errors="backslashreplace"), logs)))
    (target / "recording.json").write_text(json.dumps(describe(scenario, exits), indent=1) + "\n")
    return exits


def relabel(scenario: Scenario, out: Path) -> None:
    """Write what the scenario says now into its recording, if it has one."""
    path = out / scenario.name / "recording.json"
    if path.exists():
        exits = json.loads(path.read_text())["exits"]
        path.write_text(json.dumps(describe(scenario, exits), indent=1) + "\n")


def describe(scenario: Scenario, exits: list[int | None]) -> dict[str, object]:
    """The contents of recording.json."""
    return {
        "name": scenario.name,
        "framework": scenario.framework,
        "ranks": scenario.ranks,
        "launcher": scenario.launcher,
        "fault": scenario.fault,
        "cause": scenario.cause,
        "also_accept": list(scenario.also_accept),
        "root_ranks": None if scenario.root_ranks is None else list(scenario.root_ranks),
        "note": scenario.note,
        "exits": exits,
    }


def sanitise(text: str, logs: Path) -> str:
    """`text` without this machine's paths and host name."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    text = text.replace(packages, "/opt/venv/lib/python3.11/site-packages")
    # torchrun logs its own files relative to where it was started
    text = text.replace(f"{Path(packages).relative_to(ROOT)}/", "")
    text = text.replace(sys.prefix, "/opt/venv").replace(str(ROOT), "/srv/app")
    text = text.replace(sys.base_prefix, "/usr/local").replace(str(logs), "/srv/app/logs")
    text = re.sub(r"/tmp/keepstep-lab-\w+", "/data/run", text)
    return re.sub(rf"(?<![\w-]){re.escape(socket.gethostname())}(?![\w-])", "node-a", text)


def trim(text: str) -> str:
    """`text`, its middle left out where it is too long."""
    if len(text) <= LARGEST:
        return text
    head, tail = text[:HEAD], text[-(LARGEST - HEAD - 100) :]
    head, tail = head[: head.rindex("\n") + 1], tail[tail.index("\n") + 1 :]
    return f"{head}[... {len(text) - len(head) - len(tail)} characters left out ...]\n{tail}"


if __name__ == "__main__":
    sys.exit(main())
