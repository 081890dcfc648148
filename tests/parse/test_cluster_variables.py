# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.model.facts.config import RankVariableMissing
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.tools.programs import cluster_variables
from keepstep.parse.tools.programs import cluster_variables as table


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
