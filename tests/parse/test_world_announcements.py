# SPDX-License-Identifier: Apache-2.0
"""What programs say of their own world, and launchers of how many processes they start."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ProcessesStarted, WorldSeen
from keepstep.parse.tools.programs import world_announcements as table

WORDINGS = [
    ("hvd.size() = 1, hvd.rank() = 0", WorldSeen, {"size": 1}),
    ("Horovod size is 1", WorldSeen, {"size": 1}),
    ("JAX process: 0 / 1", WorldSeen, {"size": 1, "index": None}),
    ("JAX process: 3 / 8", WorldSeen, {"size": 8, "index": 3}),
    ("jax.process_count() = 1", WorldSeen, {"size": 1}),
    ("process 0 of 1, local devices 4", WorldSeen, {"size": 1}),
    ("rank 0 of 1", WorldSeen, {"size": 1}),
    ("size 1 rank 0", WorldSeen, {"size": 1}),
    ("local_rank=0, rank=0, size=1", WorldSeen, {"size": 1}),
    ("Not using distributed mode", WorldSeen, {"size": 1}),
    ("Switch to serial execution due to lack of horovod module.", WorldSeen, {"size": 1}),
    ("MPI not found, falling back to single-process training", WorldSeen, {"size": 1}),
    ("Training with a single process on 1 device (cuda:0).", WorldSeen, {"size": 1}),
    ("Process rank: -1, device: cuda:0, n_gpu: 1, distributed training: False, 16-bits training: True", WorldSeen, {"size": 1}),
    ("Discovered MPI settings of world_rank=0, local_rank=0, world_size=1, master_addr=10.0.0.1", WorldSeen, {"size": 1}),
    ("Rank of current process: 0. World size: 1", WorldSeen, {"size": 1}),
    ("Number of replicas in sync: 1", WorldSeen, {"size": 1}),
    ("worker 1: 1 replicas, tensorflow 2.21.0", WorldSeen, {"size": 1}),
    ("$ mpirun -np 2 -bind-to none python3 train.py", ProcessesStarted, {"count": 2, "by": "mpirun"}),
    ("horovodrun -np 4 -H localhost:4 python test.py", ProcessesStarted, {"count": 4, "by": "horovodrun"}),
    ("srun -N 2 -n 2 python train.py", ProcessesStarted, {"count": 2, "by": "srun"}),
    ("#SBATCH --ntasks=8", ProcessesStarted, {"count": 8, "by": "Slurm"}),
    ("MPI.COMM_WORLD.Get_size() = 8", ProcessesStarted, {"count": 8, "by": "MPI"}),
    (
        'TF_CONFIG:{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}',
        ProcessesStarted,
        {"count": 2, "by": "TF_CONFIG"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "lr = args.lr * hvd.size()",
    "mpirun -np 1 python train.py",
    "Number of devices: 1",
    "worker 0 of 1",
    "4 replicas, tensorflow 2.21.0",
    "keeps 1 replica of each file",
    "rank 0/128 [00:00<?, ?it/s]",
    'TF_CONFIG={"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}, "task": {"type": "worker", "index": 0}}',
    "Process rank: 0, device: cuda:0, n_gpu: 1, distributed training: True",
]


@pytest.mark.parametrize("text", NEAR)
def test_near_misses_are_not_read(text, read):
    assert not [fact for fact in read(table, text) if not isinstance(fact, WorldSeen) or fact.size == 1]
