# SPDX-License-Identifier: Apache-2.0
"""Limits that device compilers name, and XLA's rendezvous."""

from __future__ import annotations

import pytest

from keepstep.core.facts.sync import CollectiveTimeout, RanksMissing
from keepstep.core.facts.training import ProgramTooLarge
from keepstep.parse import xla as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_every_pattern_compiles() -> None:
    assert all(each.pattern for each in table.SIGNATURES)


@pytest.mark.parametrize(
    "text",
    [
        "Invalid argument: Computation requires more parameters (787) than supported (limit 236).",
        "Ran out of memory in memory space vmem. Used 59.79M of 16.00M vmem. Exceeded vmem capacity by 43.79M.",
        "Ran out of memory in memory space smem. Used 1.00M of 1.00M smem. Exceeded smem capacity by 1.7K.",
        "BirCodeGenLoop: Compiler generated too many instructions (6888787).",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 262144, Hardware limit: 232448",
        "ptxas error   : Entry function 'k' uses too much shared data (0x14000 bytes, 0xc000 max)",
    ],
)
def test_a_refused_program_is_read(text):
    assert one(text, ProgramTooLarge).what


def test_a_rendezvous_that_ended_the_program_is_a_timed_out_collective():
    fact = one(
        "Termination timeout for `initialize clique for rank 0; clique=devices=[0,1]; stream=0` of 30 seconds exceeded. Exiting",
        CollectiveTimeout,
    )
    assert (fact.op, fact.timeout_ms) == ("initialize clique for rank 0", 30_000)


def test_a_rendezvous_that_waits_is_not_final():
    fact = one(
        "This thread has been waiting for `initialize clique for rank 6; clique=devices=[0,1]` for 10 seconds and may be stuck.",
        RanksMissing,
    )
    assert (fact.waited_s, fact.final) == (10.0, False)


@pytest.mark.parametrize(
    "text", ["Ran out of memory in memory space hbm. Used 8.41G of 8.00G hbm.", "ptxas info : Used 32 registers"]
)
def test_other_lines_are_no_limits(text):
    assert not any(isinstance(fact, ProgramTooLarge) for fact in facts(text))
