# SPDX-License-Identifier: Apache-2.0
"""Break a guest from outside, and judge what keepstep says and does about it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from keepstep_lab.guests.faults import FAULTS, Fault, struck_at
from keepstep_lab.guests.guest import Guest, Way
from keepstep_lab.guests.judge import Result, keep_it, why
from keepstep_lab.guests.seen import seen
from keepstep_lab.guests.visit import Visit, carry_out, prepared

INJECT = Path(__file__).parent / "inject"
RANK, STEP = 1, 20
TOLD_S = 60.0
"""How long keepstep may take to say what has stopped a run; its promise is a few seconds, on a machine that is not
crowded."""
SETTLE_S = 5.0
MISSING = (b'"fact": "RanksArriving"',)
SPEAKS = (b'"fact": "ContractBroken"', b'"fact": "RankStopped"', b'"fact": "BatchOdd"', b'"fact": "RankRaised"')


def broken(guest: Guest, fault: Fault, way: Way, keep: Path | None = None) -> Result:
    """Run the guest with this fault in one way with keepstep."""
    result = Result(guest.name, way.value, fault=fault.name)
    with prepared(guest, way) as visit:
        _arm(visit, fault)
        if fault.prepare is not None:
            fault.prepare(visit)
        carry_out(visit, lambda each: _beside(each, fault), fault.limit(guest))
        result.seconds, result.seen = round(visit.seconds, 1), seen(visit.guard_folders())
        at = struck_at(visit)
        if at is None:
            result.wrong.append("the fault did not happen")
        elif fault.restarted and way is Way.RANKS:
            result.wrong += _came_back(visit, fault, result)
        else:
            result.wrong += _reported(visit, fault, result)
        keep_it(visit, keep, fault.name)
    return result


def _arm(visit: Visit, fault: Fault) -> None:
    path = visit.env.get("PYTHONPATH")
    visit.env["PYTHONPATH"] = os.pathsep.join([str(INJECT), *([path] if path else [])])
    visit.env |= {
        "GUEST_FAULT": fault.name,
        "GUEST_RANK": str(RANK),
        "GUEST_STEP": str(STEP),
        "GUEST_NOTES": str(visit.notes),
    }
    own = next((Path(name).stem for name in visit.guest.files[1:] if name.endswith(".py")), "")
    visit.env |= {"GUEST_MODULE": own, "GUEST_FRAMEWORK": visit.guest.framework}


def _beside(visit: Visit, fault: Fault) -> bool:
    """Strike; True when somebody should press Ctrl-C."""
    at = struck_at(visit)
    if at is None:
        if fault.outside is not None:
            fault.outside(visit)
        return False
    since = time.time() - at
    if fault.interrupt_after is not None:
        return since > fault.interrupt_after
    if not fault.hangs_in(visit.guest) or (visit.way is Way.RANKS and not fault.at_start):
        return False
    told = _told_at(visit, MISSING if fault.at_start else SPEAKS)
    return since > TOLD_S or (told is not None and time.time() - told > SETTLE_S)


def _told_at(visit: Visit, words: tuple[bytes, ...] = SPEAKS) -> float | None:
    """When keepstep first wrote down that something is wrong."""
    times = [
        path.stat().st_mtime
        for folder in visit.guard_folders()
        for path in folder.glob("*.jsonl")
        if any(word in path.read_bytes() for word in words)
    ]
    if words is MISSING:
        return min(times, default=None)
    with contextlib.suppress(KeyError, IndexError, OSError, ValueError):
        told = _manifest(visit)["attempts"][0]["told"]
        times += [float(told)] if told is not None else []
    return min(times, default=None)


def _came_back(visit: Visit, fault: Fault, result: Result) -> list[str]:
    """`keepstep run -n` must have restarted it, once, to a good end."""
    manifest = _manifest(visit)
    attempts = manifest.get("attempts", [])
    first = attempts[0] if attempts else {}
    result.said = f"{first.get('cause')}, {len(attempts)} attempts, status {visit.status}"
    wrong = []
    if first.get("cause") not in fault.causes:
        wrong.append(f"attempt 0 ended for {first.get('cause')}: {first.get('title')}")
    if visit.status != 0 or len(attempts) < 2:
        wrong.append(
            f"it did not come back: {_end_of(visit)}, attempts {len(attempts)}, decision: {first.get('decision')}"
        )
        return wrong
    status, report = why(visit.run_folder() or visit.app, visit)
    if status != 0:
        wrong.append(
            f"`keepstep why` says {report.get('verdict')} (status {status}) of a run that came back to a good end"
        )
    if not any(each["cause"] in fault.causes for each in report.get("findings", ())):
        wrong.append("`keepstep why` does not say why attempt 0 ended")
    return wrong


def _reported(visit: Visit, fault: Fault, result: Result) -> list[str]:
    """keepstep must report it correctly and must not restart it."""
    wrong = []
    if visit.way is not Way.GUARD:
        attempts = _manifest(visit).get("attempts", [])
        if len(attempts) > 1:
            wrong.append(f"it was restarted ({len(attempts)} attempts)")
    if visit.status is None and not fault.hangs_in(visit.guest):
        wrong.append(f"it was not ended: {_end_of(visit)}")
    if (
        visit.way is Way.RANKS
        and visit.status is None
        and fault.hangs
        and fault.interrupt_after is None
        and not fault.at_start
    ):
        wrong.append(f"it was not decided: {_end_of(visit)}")
    places = visit.guard_folders() if visit.way is Way.GUARD else [folder for folder in [visit.run_folder()] if folder]
    if not places:
        return [*wrong, "keepstep left nothing to explain"]
    reports = [why(place, visit) for place in places]
    roots = [report["findings"][0] for _, report in reports if report.get("findings")]
    root = next((each for each in roots if each["cause"] in fault.causes), roots[0] if roots else None)
    if root is None:
        result.said = reports[0][1].get("verdict", "")
        return [*wrong, f"`keepstep why` says {result.said}, and should say {fault.causes[0]}"]
    result.said = f"{root['cause']}, rank {', '.join(map(str, root['ranks'])) or 'none'}: {root['title']}"
    if root["cause"] not in fault.causes:
        wrong.append(f"said {result.said}; is {fault.causes[0]}")
    elif fault.ranks and not ({*root["ranks"]} & {*fault.ranks} and len(root["ranks"]) <= len(fault.ranks)):
        wrong.append(
            f"blamed rank {', '.join(map(str, root['ranks'])) or 'none'}, was "
            f"{', '.join(map(str, fault.ranks))}: {root['title']}"
        )
    if len(places) > 1 and not fault.never_meet:
        wrong.append(f"the ranks of one job are in {len(places)} folders")
    return wrong


def _manifest(visit: Visit) -> dict[str, Any]:
    folder = visit.run_folder()
    if folder is None:
        return {}
    found = json.loads((folder / "manifest.json").read_text())
    return found if isinstance(found, dict) else {}


def _end_of(visit: Visit) -> str:
    return (
        f"status {visit.status} after {visit.seconds:.0f} s"
        if visit.status is not None
        else f"still running after {visit.seconds:.0f} s"
    )


def scored(guest: Guest) -> list[Fault]:
    """The faults that a guest is scored with."""
    return [FAULTS[name] for name in guest.faults]
