# SPDX-License-Identifier: Apache-2.0
"""What the host has counted: memory errors of the kernel (EDAC), of rasdaemon, and machine-check exceptions."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from keepstep.model.facts.host import HostErrors

EDAC = Path("/sys/devices/system/edac/mc")
INTERRUPTS = Path("/proc/interrupts")
RASDAEMON = Path("/var/lib/rasdaemon/ras-mc_event.db")


def host_errors(edac: Path = EDAC, interrupts: Path = INTERRUPTS, rasdaemon: Path = RASDAEMON) -> list[HostErrors]:
    """One for each counter that can be read, also where it is zero. None at all: this machine counts nothing."""
    found = [each for controller in sorted(edac.glob("mc[0-9]*")) for each in _controller(controller)]
    checks = _machine_checks(interrupts)
    if checks is not None:
        found.append(HostErrors(where="machine-check exceptions since boot", uncorrected=checks))
    found += _recorded(rasdaemon)
    return found


def _controller(folder: Path) -> list[HostErrors]:
    """Each module of a memory controller; the controller itself where it names none."""
    modules = [
        HostErrors(
            where=f"memory module {label or each.name} ({folder.name}), since boot", corrected=ce, uncorrected=ue
        )
        for each in sorted(folder.glob("dimm[0-9]*"))
        if (ce := _number(each / "dimm_ce_count")) is not None
        and (ue := _number(each / "dimm_ue_count")) is not None
        and (label := _text(each / "dimm_label")) is not None
    ]
    whole_ce, whole_ue = _number(folder / "ce_count"), _number(folder / "ue_count")
    if whole_ce is None and whole_ue is None:
        return modules
    whole = HostErrors(
        where=f"memory controller {folder.name}, since boot", corrected=whole_ce or 0, uncorrected=whole_ue or 0
    )
    named = sum(each.corrected for each in modules), sum(each.uncorrected for each in modules)
    return modules if modules and named >= (whole.corrected, whole.uncorrected) else [whole]


def _machine_checks(path: Path) -> int | None:
    """The sum over all cores of the line that x86 has."""
    for line in (_text(path) or "").splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "MCE":
            return sum(int(word) for word in rest.split() if word.isdecimal() and len(word) < 20)
    return None


def _recorded(path: Path) -> list[HostErrors]:
    """What rasdaemon keeps over reboots."""
    counts = {"Corrected": 0, "Uncorrected": 0, "Fatal": 0}
    with contextlib.suppress(OSError, sqlite3.Error, ValueError):
        if not path.is_file():
            return []
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as known:
            for kind, number in known.execute("SELECT err_type, SUM(err_count) FROM mc_event GROUP BY err_type"):
                if str(kind) in counts:
                    counts[str(kind)] += int(number or 0)
        return [
            HostErrors(
                where="memory errors recorded by rasdaemon",
                corrected=counts["Corrected"],
                uncorrected=counts["Uncorrected"] + counts["Fatal"],
            )
        ]
    return []


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError):
        return path.read_text().strip()
    return None
