# SPDX-License-Identifier: Apache-2.0
"""Processes that a launcher, a script or the program itself did not bring together."""

from __future__ import annotations

import pytest

from tests.rules.explained import causes, findings

JOINED = """\
jax.distributed.initialize(coordinator_address="10.0.0.5:23234", num_processes=2, process_id={rank})
{counted}
epoch 1 step 100 loss 2.3011
epoch 1 step 200 loss 2.1177
"""


def test_a_jax_process_that_counts_itself_alone_after_it_was_given_a_place_trains_alone(tmp_path):
    alone = "jax.process_count()=1 jax.process_index()=0"
    logs = {f"host{rank}": JOINED.format(rank=rank, counted=alone) for rank in range(2)}
    assert causes(tmp_path, **logs)[:1] == ["config.trains_alone"]


def test_jax_processes_that_count_all_of_them_are_together(tmp_path):
    logs = {f"host{rank}": JOINED.format(rank=rank, counted="jax.process_count()=2") for rank in range(2)}
    assert causes(tmp_path, **logs) == []


def test_a_process_that_counts_itself_alone_in_a_step_of_several_tasks_trains_alone(tmp_path):
    log = "SLURM_STEP_NUM_TASKS=8\nSLURM_PROCID=0\njax.process_count() = 1\nepoch 1 step 100 loss 2.3\n"
    assert causes(tmp_path, log=log)[:1] == ["config.trains_alone"]


WAITS = """\
{started}
I0304 00:54:00.118823       1 distributed.py:172] Connecting to JAX distributed service on 10.0.0.5:84 (process 0 of 8)
jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Deadline Exceeded
RPC: /tensorflow.CoordinationService/RegisterTask
"""


@pytest.mark.parametrize(
    ("started", "rule"),
    [
        ("submitting job a resources: tpu=v6e-32 replicas=1", "CFG014"),
        ("srun: Warning: can't run 1 processes on 8 nodes, setting nnodes to 1", "CFG014"),
        ("SLURM_NTASKS=1", "CFG014"),
        ("submitting job a resources: tpu=v6e-32 replicas=8", "NET001"),
        ("SLURM_STEP_NUM_TASKS=8", "NET001"),
    ],
)
def test_one_task_for_a_world_of_eight_is_named(tmp_path, started, rule):
    assert findings(tmp_path, log=WAITS.format(started=started))[0].rule == rule


SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
srun accelerate launch --num_machines 2 --machine_rank {index} train.py
"""
GAVE_UP = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"


def test_an_index_that_the_batch_shell_replaced_explains_a_rendezvous_that_waits_in_vain(tmp_path):
    found = findings(tmp_path, job=SCRIPT.format(index="$SLURM_NODEID"), out=GAVE_UP)
    assert (found[0].rule, found[0].severity.value) == ("CFG013", "fatal")
    assert "CFG013" not in {each.rule for each in findings(tmp_path, job=SCRIPT.format(index="1"), out=GAVE_UP)}


def test_an_index_that_the_batch_shell_replaced_is_a_warning_where_nothing_failed(tmp_path):
    found = findings(tmp_path, job=SCRIPT.format(index="$SLURM_NODEID"), out="step 1 loss 2.0\n")
    assert [(each.rule, each.severity.value) for each in found] == [("CFG013", "warning")]
