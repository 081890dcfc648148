# SPDX-License-Identifier: Apache-2.0
"""What the Slurm engine makes of Slurm's variables, and of its word about who leads."""

from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.sources.schedulers.slurm_controller import JobNow
from keepstep.sources.schedulers.slurm_task import TaskState
from keepstep.supervise.engines import slurm
from keepstep.supervise.engines.choose import engine_of, station_of
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.engines.slurm_leadership import SlurmOffice
from keepstep.supervise.engines.slurm_start import options_of, script_says_no_kill
from keepstep.supervise.nodes.connection import secret as secrets
from keepstep.supervise.nodes.connection.interface import CannotConnect

SECRET = "s" * 40
STEP = {
    "KEEPSTEP_SECRET": SECRET,
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_NTASKS": "3",
    "SLURM_STEP_NODELIST": "node-[1-3]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
    "SLURMD_NODENAME": "node-2",
}
TWO_EACH = {
    **STEP,
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
BATCH = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "0", "SLURM_NTASKS": "3", "SLURM_JOB_NODELIST": "node-[1-3]"}


def refusal(wanted: Wanted, env: dict[str, str]) -> str:
    with pytest.raises(UserError) as error:
        station_of(wanted, env)
    return f"{error.value} | {error.value.hint}"


def test_a_task_of_several_uses_slurm_and_a_single_one_stays_local() -> None:
    assert engine_of(Wanted(), STEP) == "slurm"
    assert engine_of(Wanted(per_node=4), STEP) == "slurm"
    assert engine_of(Wanted(), {**STEP, "SLURM_STEP_NUM_TASKS": "1"}) is None
    assert engine_of(Wanted(), BATCH) is None
    assert engine_of(Wanted(hosts="a,b"), STEP) == "ssh"


def test_one_task_per_node() -> None:
    found = slurm.station(Wanted(per_node=4), STEP)
    assert (found.node, found.host, found.nodes, found.per_node) == (1, "node-2", 3, 4)
    assert (found.least, found.most) == (3, 3)
    assert found.run == "slurm-12.0.0" and len(found.ports) > 1
    assert found.call is not None, "node-1 leads"


def test_each_of_several_tasks_per_node_is_one_rank() -> None:
    found = slurm.station(Wanted(), TWO_EACH)
    assert (found.node, found.host, found.nodes, found.per_node) == (3, "node-2", 6, 1)


def test_several_tasks_per_node_and_per_node_are_refused_with_both_ways_out() -> None:
    said = refusal(Wanted(per_node=4), TWO_EACH)
    assert "6 tasks on 3 nodes" in said and "--ntasks-per-node=1" in said and "leave --per-node out" in said


def test_a_launcher_needs_one_task_per_node() -> None:
    assert "torchrun starts the ranks" in refusal(Wanted(command=("torchrun", "train.py")), TWO_EACH)
    assert slurm.station(Wanted(command=("torchrun", "train.py")), STEP).per_node is None


def test_in_the_batch_script_srun_is_missing() -> None:
    assert "keepstep run --per-node 4 -- COMMAND" in refusal(Wanted(per_node=4), BATCH)
    assert "srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0" in refusal(Wanted(on="slurm"), BATCH)


def test_more_nodes_than_asked_for_are_spares_and_fewer_are_refused() -> None:
    found = slurm.station(Wanted(per_node=1, nodes="1:2"), STEP)
    assert (found.least, found.most, found.nodes) == (1, 2, 3)
    assert "the step has only 3 nodes" in refusal(Wanted(per_node=1, nodes="4"), STEP)


def test_a_meeting_place_is_not_needed() -> None:
    assert "--node-rank is not needed under srun" in refusal(Wanted(node_rank=0, on="slurm"), STEP)


def test_the_leader_shares_a_secret_in_the_working_folder_and_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = {**STEP, "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURMD_NODENAME": "node-1"}
    del first["KEEPSTEP_SECRET"]
    leads = slurm.station(Wanted(per_node=1), first)
    path = tmp_path / ".keepstep" / "slurm-12.0.0.secret"
    assert leads.call is None and stat.S_IMODE(path.stat().st_mode) == 0o600
    other = {name: value for name, value in STEP.items() if name != "KEEPSTEP_SECRET"}
    assert slurm.station(Wanted(per_node=1), other).secret == leads.secret
    assert leads.over is not None
    leads.over()
    assert not path.exists()


def test_without_a_common_folder_the_hint_is_the_line_for_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm, "SECRET_S", 0.1)
    env = {name: value for name, value in STEP.items() if name != "KEEPSTEP_SECRET"}
    assert "export KEEPSTEP_SECRET=$(openssl rand -hex 32)" in refusal(Wanted(per_node=1), env)


# --- who leads


def office(host: str, said: JobNow | str, *, eldest: bool = True, restarts: int = 0) -> SlurmOffice:
    """``said`` stands in for the controller."""
    return SlurmOffice(
        job="12",
        restarts=restarts,
        hosts=("node-1", "node-2", "node-3"),
        host=host,
        eldest=eldest,
        secret=secrets.make(),
        ports=(1,),
        ask=lambda job: said,
        sharing=lambda hosts: (),
    )


ALL = JobNow(state="RUNNING", nodes="node-[1-3]")
WITHOUT_THE_FIRST = replace(ALL, nodes="node-[2-3]")


def test_the_lowest_node_that_slurm_counts_leads() -> None:
    assert office("node-1", ALL).leads() is True
    assert office("node-2", ALL).leads() is False
    assert office("node-2", WITHOUT_THE_FIRST).leads() is True
    assert office("node-3", WITHOUT_THE_FIRST).leads() is False


def test_only_the_first_task_of_a_node_leads() -> None:
    assert office("node-2", WITHOUT_THE_FIRST, eldest=False).leads() is False


def test_a_node_that_slurm_has_taken_out_leads_no_longer() -> None:
    found = office("node-1", WITHOUT_THE_FIRST)
    assert found.leads() is False and found.out
    assert found.counted == ("node-2", "node-3")


def test_without_an_answer_nobody_is_named() -> None:
    found = office("node-1", "Unable to contact slurm controller")
    assert found.leads() is None and not found.out
    assert "Unable to contact" in found.words


def test_an_earlier_life_of_a_requeued_job_leads_nothing() -> None:
    found = office("node-1", replace(ALL, restarts=1))
    assert found.leads() is False and found.out


def test_a_job_that_is_over_is_left_but_its_leader_keeps_its_grace_period() -> None:
    found = office("node-1", replace(ALL, state="CANCELLED"))
    assert found.leads() is None and found.out


def test_an_agent_that_cannot_reach_its_leader_asks_slurm_and_follows() -> None:
    found = office("node-2", WITHOUT_THE_FIRST)
    found.hosts = ("127.0.0.1", "node-2", "node-3")
    found._leader = "127.0.0.1"
    with pytest.raises(CannotConnect):
        found.call()
    assert not found.elected, "it asks only after a moment"
    found._alone_since = -100.0
    with pytest.raises(CannotConnect):
        found.call()
    assert found.elected


@pytest.mark.parametrize(
    ("host", "tasks", "elected", "out"),
    [
        ("node-2", {"node-1": TaskState.KILLED}, True, False),
        ("node-2", {"node-1": TaskState.LIVES}, False, False),
        ("node-2", {"node-1": TaskState.UNKNOWN}, False, False),
        ("node-2", {"node-1": TaskState.ENDED}, False, True),
        ("node-3", {"node-1": TaskState.KILLED, "node-2": TaskState.LIVES}, False, False),
        ("node-3", {"node-1": TaskState.KILLED, "node-2": TaskState.UNKNOWN}, False, False),
        ("node-3", {"node-1": TaskState.KILLED, "node-2": TaskState.KILLED}, True, False),
        ("node-3", {"node-1": TaskState.LIVES, "node-2": TaskState.KILLED}, False, False),
    ],
)
def test_a_leader_that_was_killed_is_passed_over_and_nobody_else(
    host: str, tasks: dict[str, TaskState], elected: bool, out: bool
) -> None:
    found = office(host, ALL)
    found.look = tasks.__getitem__
    found.refused, found.followed, found._alone_since = True, "node-1", -100.0
    found._wonder()
    assert (found.elected, found.out) == (elected, out)
    assert (found.leads() is True) == elected, "Slurm's word is the same later"


def test_a_host_that_does_not_answer_is_not_looked_at() -> None:
    found = office("node-2", ALL)
    found.look = {}.__getitem__
    found.refused, found.followed, found._alone_since = False, "node-1", -100.0
    found._wonder()
    assert not found.elected


@pytest.mark.parametrize("said", [ALL, WITHOUT_THE_FIRST])
def test_nobody_takes_over_where_nodes_share_a_machine(said: JobNow) -> None:
    found = office("node-2", said)
    found.sharing = lambda hosts: ("node-1", "node-2")
    found.look = {"node-1": TaskState.KILLED}.__getitem__
    found.refused, found.followed, found._alone_since = True, "node-1", -100.0
    found._wonder()
    assert found.out and not found.elected
    assert "node-1 and node-2 are one machine, so no other node may lead" in found.words


def test_nobody_takes_over_before_slurm_has_said_where_its_nodes_are() -> None:
    found = office("node-2", WITHOUT_THE_FIRST)
    found.sharing = lambda hosts: None
    found.refused, found.followed, found._alone_since = True, "node-1", -100.0
    found._wonder()
    assert not found.out and not found.elected
    found.sharing, found._asked = lambda hosts: (), -100.0
    found._wonder()
    assert found.elected


# --- how the job was started


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("-N2 --no-kill --kill-on-bad-exit=0", {"--no-kill": "1", "--kill-on-bad-exit": "0"}),
        ("-N 2 -lk -K0", {"--no-kill": "1", "--kill-on-bad-exit": "0"}),
        ("-K", {"--kill-on-bad-exit": "1"}),
        ("--no-kill=off", {"--no-kill": "off"}),
        ("-N2 keepstep run -- python train.py --no-kill", {}),
        ("-n 4 -t 10", {}),
    ],
)
def test_the_options_of_srun(words: str, found: dict[str, str]) -> None:
    assert options_of(words.split()) == found


def test_a_batch_script_says_no_kill() -> None:
    assert script_says_no_kill("#!/bin/bash\n#SBATCH -N 4 --no-kill\nsrun x\n")
    assert script_says_no_kill("#!/bin/bash\n#SBATCH -k\n")
    assert not script_says_no_kill("#!/bin/bash\n#SBATCH --no-kill=off\n")
    assert not script_says_no_kill("#!/bin/bash\n# --no-kill\nsrun --no-kill x\n")


def test_the_engine_is_not_loaded_for_a_local_run() -> None:
    code = "import sys, keepstep.supervise.engines.choose\nassert 'keepstep.supervise.engines.slurm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
