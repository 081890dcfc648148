# SPDX-License-Identifier: Apache-2.0
"""Every scenario: one table per module of faults, one section per fault, and in it a few lines per scenario.

A section begins with what all of its scenarios share. ``NAME.note`` says what happens, ``NAME.with`` what this scenario
has of its own; ``no_fault`` has jobs that nothing is done to. The name tells the framework. All keys are fields of
:class:`Scenario`, but for these short forms:

    in_rank = 1          strikes inside rank 1 at the framework's usual step, and rank 1 is to be named
    of_rank = 1          strikes what belongs to rank 1, and rank 1 is to be named
    four_clocks = true   four ranks whose clocks differ
    args = "--lr 0"      the job's arguments in one string
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keepstep_lab.scenario import FRAMEWORKS, Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FRAMEWORK_OF = {"tf": "tensorflow", "torch": "torch", "jax": "jax"}
USUAL: dict[str, dict[str, Any]] = {
    "tensorflow": {"job": "tf_mwms"},
    "torch": {"job": "torch_ddp"},
    "jax": {"job": "jax_multi", "checkpoint": "last.npz"},
}
USUAL_STEP = {"tensorflow": 30, "torch": 25, "jax": 30}
PARAMETER_SERVER = {"ranks": 3, "roles": ("chief", "worker", "ps")}
OF_JOB: dict[str, dict[str, Any]] = {
    "tf_mirrored": {"ranks": 1},
    "tf_ps": PARAMETER_SERVER,
    "tf_ps_fit": PARAMETER_SERVER,
    "torch_mesh": {"ranks": 8},
}
CLOCKS = ("+0", "+41", "-17", "Asia/Tokyo")
"""Nobody's clock is right: seconds off, or another time zone."""


def _all() -> Iterator[Scenario]:
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for fault, section in tomllib.loads(path.read_text()).items():
            rows = {key: value for key, value in section.items() if isinstance(value, dict) and "note" in value}
            shared = {key: value for key, value in section.items() if key not in rows}
            for name, row in rows.items():
                yield _scenario(
                    name, None if fault == "no_fault" else fault, row["note"], {**shared, **row.get("with", {})}
                )


def _scenario(name: str, fault: str | None, note: str, given: dict[str, Any]) -> Scenario:
    framework = FRAMEWORK_OF[name.partition("_")[0]]
    found: dict[str, Any] = {**USUAL[framework], **OF_JOB.get(given.get("job", ""), {})}
    for key, value in given.items():
        if key in ("in_rank", "of_rank"):
            found |= {"strike_ranks": (value,), "root_ranks": (value,)}
            found |= {"strike_step": USUAL_STEP[framework]} if key == "in_rank" else {}
        elif key == "four_clocks":
            found |= {"ranks": len(CLOCKS), "clocks": CLOCKS}
        elif key == "args":
            found[key] = tuple(value.split())
        else:
            found[key] = tuple(value) if isinstance(value, list) else value
    return Scenario(name=name, framework=framework, fault=fault, note=note, **found)


SCENARIOS: dict[str, Scenario] = {
    each.name: each for each in sorted(_all(), key=lambda each: FRAMEWORKS.index(each.framework))
}
