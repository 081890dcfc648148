# SPDX-License-Identifier: Apache-2.0
"""The lab's tables hold together: every scenario can be found, struck, proven and judged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from keepstep.model.cause import Cause
from keepstep_lab import faults, scenarios
from keepstep_lab.scenario import FRAMEWORKS
from keepstep_lab.scenarios import SCENARIOS

FAULTS = sorted(faults.table())
FAILING = [s for s in SCENARIOS.values() if not s.healthy]
HEALTHY = [s for s in SCENARIOS.values() if s.healthy]


def test_a_fault_strikes_somewhere_and_proves_that_it_happened() -> None:
    used = {scenario.fault for scenario in SCENARIOS.values()}
    assert not [name for name in FAULTS if name not in used], "no scenario uses it"
    for name in FAULTS:
        fault = faults.load(name)
        strikes = faults.hooks(fault) - {"proof"}
        settings = [scenario.args for scenario in SCENARIOS.values() if scenario.fault == name]
        assert strikes or any(settings), f"{name}: neither it nor the job's arguments do anything"
        assert type(fault).__doc__, f"{name} does not say what it does"
        assert "proof" in faults.hooks(fault), name


def test_no_two_faults_have_one_name() -> None:
    package = Path(faults.__file__).parent
    names = re.findall(r"^class ([A-Z]\w+)\(", "".join(path.read_text() for path in package.glob("[!_]*.py")), re.M)
    assert len(names) == len(FAULTS)


def test_a_scenario_names_what_there_is() -> None:
    known = {cause.value for cause in Cause}
    wrong = [
        scenario.name
        for scenario in SCENARIOS.values()
        if not scenario.accepted <= known
        or scenario.framework not in FRAMEWORKS
        or scenario.fault not in (None, *FAULTS)
        or scenario.later not in (None, "guard", "run", "check")
        or not all(0 <= rank < scenario.ranks for rank in scenario.root_ranks or ())
        or not scenario.note.endswith(".")
    ]
    assert not wrong


def test_a_scenario_stands_once_in_the_table_of_its_fault() -> None:
    tables = {path.stem: path.read_text() for path in Path(scenarios.__file__).parent.glob("*.toml")}
    assert sum(text.count(".note = ") for text in tables.values()) == len(SCENARIOS)
    for scenario in SCENARIOS.values():
        theme = "no_fault" if scenario.fault is None else type(faults.load(scenario.fault)).__module__.split(".")[-1]
        assert f"\n{scenario.name}.note = " in tables[theme]


def test_there_are_as_many_as_were_promised() -> None:
    assert len(FAILING) >= 60
    assert len({s.fault for s in FAILING}) >= 45
    assert len(HEALTHY) >= 12
    for framework in FRAMEWORKS:
        assert sum(s.framework == framework for s in FAILING) >= 15
    assert 12 <= sum(s.quick for s in SCENARIOS.values()) <= 16


def test_the_list_is_printed_for_people_and_machines() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "lab", "list", "--json"], capture_output=True, text=True, check=True
    )
    assert [each["name"] for each in json.loads(done.stdout)] == list(SCENARIOS)
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "lab", "list", "--framework", "jax"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "jax_healthy" in done.stdout and "torch_" not in done.stdout


def test_an_unknown_name_is_a_usage_error_with_a_hint() -> None:
    done = subprocess.run([sys.executable, "-m", "keepstep", "lab", "run", "no_such"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "keepstep lab list" in done.stderr
