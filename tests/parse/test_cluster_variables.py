# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import DeviceShared, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.programs import cluster_variables
from keepstep.parse.tools.programs import cluster_variables as table


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = cluster_variables.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("environment variable RANK expected, but not set", RankVariableMissing(name="RANK")),
        ("KeyError: 'SLURM_NTASKS'", RankVariableMissing(name="SLURM_NTASKS")),
        ("train.py: error: unrecognized arguments: --local-rank=0", RankVariableMissing(name="local-rank")),
        ("Override 'local-rank' not found", RankVariableMissing(name="local-rank")),
        (
            "ValueError: Invalid rank 4, rank should be in the interval [0, 3]",
            WorldSizeConflict(what="a rank outside of its world", seen="rank 4", expected="4 ranks", rank=4),
        ),
        ("process group is up: world size 1, torch 2.13", WorldSeen(size=1)),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "Namespace(world_size=1, rank=0)",
        "KeyError: 'label'",
        "train.py: error: unrecognized arguments: --lr=3",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


FURTHER = [
    (
        "RuntimeError: Could not find 'RANK' in the torch environment, visit https://www.colossalai.org/",
        RankVariableMissing,
        {"name": "RANK"},
    ),
    (
        "RuntimeError: MASTER_ADDR expected, but not set",
        RankVariableMissing,
        {"name": "MASTER_ADDR"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    ("line", "below", "names"),
    [
        (
            '    rank = int(os.environ.get("RANK"))',
            ["TypeError: int() argument must be a string, a bytes-like object or a number, not 'NoneType'"],
            ["RANK"],
        ),
        (
            "    nodes = os.getenv('SLURM_NODELIST').split(',')",
            [
                "            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
                "AttributeError: 'NoneType' object has no attribute 'split'",
            ],
            ["SLURM_NODELIST"],
        ),
        ('    rank = int(os.environ.get("RANK"))', ["ValueError: invalid literal for int() with base 10: 'a'"], []),
        ('    rank = int(os.environ.get("RANK"))', ['  File "a.py", line 3, in main', "TypeError: None"], []),
    ],
)
def test_a_variable_that_was_read_and_is_not_there_is_missing(line: str, below: list[str], names: list[str]) -> None:
    begin = cluster_variables.BLOCKS[0].begin.pattern.search(line)
    assert begin is not None
    found = cluster_variables.BLOCKS[0].read(begin, iter(below))
    assert [fact.name for fact in found if isinstance(fact, RankVariableMissing)] == names


def test_a_variable_looked_up_in_vain_is_told_by_the_frame_below():
    text = """\
  File "/srv/initialize.py", line 142, in launch_from_slurm
    rank = int(os.environ['SLURM_PROCID'])
  File "/usr/lib/python3.8/os.py", line 673, in __getitem__
Traceback (most recent
"""
    sightings = LogScan(build((), table.BLOCKS)).scan([text.encode()])
    assert [s.fact for s in sightings if isinstance(s.fact, RankVariableMissing)] == [
        RankVariableMissing(name="SLURM_PROCID")
    ]


def test_a_list_of_gpus_that_is_shorter_than_the_ranks_of_its_host_is_read() -> None:
    text = (
        "tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], 'GPU')\nIndexError: list index out of range"
    )
    assert read(text) == [DeviceShared()]
    assert read("batch = batches[hvd.local_rank()]\nIndexError: list index out of range") == []


def test_words_of_checkpoints_and_collectives_on_the_world(read, holds):
    assert holds(
        read(table, "AssertionError: DCP needs MASTER_PORT to use prefix store"),
        RankVariableMissing,
        name="MASTER_PORT",
    )
    text = "ValueError: Tensor list input to scatter/gather must match number of collective participants"
    assert holds(read(table, text), WorldSizeConflict)
