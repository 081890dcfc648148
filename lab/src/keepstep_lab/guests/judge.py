# SPDX-License-Identifier: Apache-2.0
"""Judge a healthy guest: it ends well, keepstep is silent, the losses are the same, nothing is left behind."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from keepstep_lab.guests.guest import Guest, Way
from keepstep_lab.guests.seen import Seen, seen
from keepstep_lab.guests.visit import Visit, carry_out, prepared

ORDINARY = (
    r"keepstep: run \S+: ",
    r"keepstep: finished with status 0",
    r"keepstep: \d+ (?:warm )?spares?\b",
    r"keepstep: attempt \d+ · ",  # the line of every minute
)
"""What `keepstep run` says of every run."""
CORE = re.compile(r"(^|/)core(\.#)?$")


@dataclass
class Result:
    """What came of a guest in one way."""

    guest: str
    way: str
    wrong: list[str] = field(default_factory=list)
    """Sentences; none: all as it must be."""
    skipped: str = ""
    seconds: float = 0.0
    comparable: bool = True
    """Whether two runs without keepstep print the same losses."""
    seen: list[Seen] = field(default_factory=list)
    fault: str = ""
    said: str = ""
    """What keepstep named as the cause, of a broken guest."""

    @property
    def right(self) -> bool:
        return not self.wrong and not self.skipped

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Plain:
    """What a guest prints and leaves without keepstep."""

    losses: list[str]
    files: set[str]
    seconds: float


def plain(guest: Guest, keep: Path | None = None) -> tuple[Result, Plain]:
    """Run it without keepstep."""
    with prepared(guest, Way.PLAIN) as visit:
        carry_out(visit)
        result = Result(guest.name, Way.PLAIN.value, seconds=round(visit.seconds, 1))
        if visit.status != 0:
            result.wrong.append(f"{_ended(visit)} without keepstep: {_last_words(visit)}")
        elif not visit.losses():
            result.wrong.append(f"it printed nothing that matches {guest.losses!r}")
        keep_it(visit, keep)
        return result, Plain(visit.losses(), visit.files(), visit.seconds)


def healthy(guest: Guest, way: Way, before: Plain, keep: Path | None = None) -> Result:
    """Run it in a way with keepstep, and compare."""
    with prepared(guest, way) as visit:
        carry_out(visit)
        result = Result(guest.name, way.value, seconds=round(visit.seconds, 1), seen=seen(visit.guard_folders()))
        if visit.status != 0:
            result.wrong.append(f"{_ended(visit)}: {_last_words(visit)}")
        result.wrong += spoken(visit) + _afterwards(visit) + left_behind(visit, before)
        losses = visit.losses()
        keep_it(visit, keep)
    if losses != before.losses and visit.status == 0:
        _, again = plain(guest)
        result.comparable = again.losses == before.losses
        if result.comparable:
            result.wrong.append(f"other losses than without keepstep: {_difference(before.losses, losses)}")
    return result


def spoken(visit: Visit) -> list[str]:
    """What keepstep said, though there was nothing to say."""
    said = [line[line.index("keepstep: ") :] for line in visit.printed().splitlines() if "keepstep: " in line]
    odd = [line for line in said if not any(re.match(words, line) for words in ORDINARY)]
    return [f"it said: {line[:200]}" for line in odd[:3]]


def _afterwards(visit: Visit) -> list[str]:
    """What `keepstep why` and the manifest say of what was left."""
    wrong = []
    if visit.way is Way.GUARD:
        places = visit.guard_folders()
        if not places:
            return ["the guard left nothing: it saw no rank"]
        if len(places) > 1:
            wrong.append(f"the ranks of one job are in {len(places)} folders")
    else:
        folder = visit.run_folder()
        if folder is None:
            return ["keepstep run made no run folder"]
        places = [folder]
        attempts = json.loads((folder / "manifest.json").read_text())["attempts"]
        if len(attempts) != 1:
            wrong.append(f"it took {len(attempts)} attempts")
    for place in places:
        status, report = why(place, visit)
        if status != 0 or report.get("findings") or report.get("verdict") != "healthy":
            first = next((f"{each['cause']}: {each['title']}" for each in report.get("findings", ())), "no finding")
            wrong.append(f"`keepstep why` says {report.get('verdict')} (status {status}): {first}")
    arrived = {each.rank for each in seen(visit.guard_folders())}
    if len(arrived) < visit.guest.ranks:
        wrong.append(f"the guard saw {len(arrived)} of {visit.guest.ranks} ranks")
    return wrong


def left_behind(visit: Visit, before: Plain) -> list[str]:
    """Processes and files that stayed."""
    wrong = [f"still running afterwards: {command}" for command in visit.left_running[:3]]
    more = sorted(visit.files() - before.files)
    wrong += [f"left beside the program: {name}" for name in more[:3]]
    if any(CORE.search(name) for name in before.files & visit.files()):
        wrong.append("core files beside the program")
    return wrong


def why(place: Path, visit: Visit) -> tuple[int, dict[str, Any]]:
    """What `keepstep why` tells a user afterwards."""
    env = {key: value for key, value in visit.env.items() if key != "KEEPSTEP"}
    command = [sys.executable, "-m", "keepstep", "why", str(place), "--json", "--no-kernel-log"]
    done = subprocess.run(command, cwd=visit.app, env=env, capture_output=True, text=True, timeout=120)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"verdict": f"nothing that can be read: {done.stderr.strip()[-200:]}"}


def _ended(visit: Visit) -> str:
    if visit.status is None:
        return f"it did not end within {visit.seconds:.0f} s"
    return f"it ended with status {visit.status}"


def _last_words(visit: Visit) -> str:
    lines = [line.strip() for line in visit.printed().splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b\w*(Error|Exception)\b: ", line)]
    return (errors or lines or ["it printed nothing"])[-1][:200]


def _difference(plain_losses: list[str], losses: list[str]) -> str:
    missing = [line for line in plain_losses if line not in losses]
    added = [line for line in losses if line not in plain_losses]
    if not missing and not added:
        return f"{len(losses)} lines, without keepstep {len(plain_losses)}"
    return f"{(added or ['nothing'])[0]!r} where it was {(missing or ['nothing'])[0]!r}"


def keep_it(visit: Visit, keep: Path | None, fault: str = "") -> None:
    """Copy what the run left, and what it printed."""
    if keep is not None:
        target = keep / "-".join(word for word in (visit.guest.name, fault, visit.way.value) if word)
        shutil.copytree(visit.app, target, dirs_exist_ok=True, symlinks=True)
        shutil.copy(visit.terminal, target / "terminal.log")
