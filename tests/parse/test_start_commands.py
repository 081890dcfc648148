# SPDX-License-Identifier: Apache-2.0
"""Who a process is, by the command that started it."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import AddressIsLocal, WorldSeen
from keepstep.parse.tools.programs import start_commands as table

WORDINGS = [
    (
        "python train.py --job_name=worker --task_index=1",
        WorldSeen,
        {"index": 1, "role": "worker"},
    ),
    (
        "python run.py --process_id=3 --num_processes=4",
        WorldSeen,
        {"index": 3, "size": 4},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "torchrun --nproc_per_node=8 --node_rank=1 train.py",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


def test_a_loopback_address_of_the_main_rank_counts_only_with_several_hosts(read, holds):
    several = "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 NODE_RANK=1 WORLD_SIZE=16"
    assert holds(read(table, several), AddressIsLocal, address="127.0.0.1", certain=False)
    assert holds(read(table, "torchrun --nnodes=2 --node_rank=1 --master_addr=localhost t.py"), AddressIsLocal)
    assert not holds(read(table, "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 RANK=1"), AddressIsLocal)
    assert not holds(read(table, "torchrun --nnodes=2 --master_addr=10.0.0.1 t.py"), AddressIsLocal)
