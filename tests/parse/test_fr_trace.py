# SPDX-License-Identifier: Apache-2.0
"""What torchfrtrace prints."""

from __future__ import annotations

import pytest

from keepstep.core.facts.sync import CollectiveMismatch, RanksMissing
from keepstep.parse.formats import fr_trace
from tests.parse.reading import reader

read = reader(fr_trace)


def test_a_culprit_is_named_with_what_it_ran():
    (fact,) = read(
        "error msg: Culprit rank 22; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[1025]]' does not match found input sizes: '[[262144]]'"
    )
    assert fact == CollectiveMismatch(
        other_rank=22, what="size_or_syntax_mismatch", left="[[1025]]", right="[[262144]]"
    )


def test_a_state_that_differs_is_a_rank_that_did_not_come():
    assert read("error msg: Culprit rank 3; Error type: COLLECTIVE_STATE_MISMATCH") == [
        RanksMissing(missing=(3,), what="flight recorder")
    ]


@pytest.mark.parametrize("line", ["missing ranks: {1, 3}", "2025-01-02 03:04:05 [INFO] missing ranks: {1, 3}"])
def test_missing_ranks_are_named(line):
    assert read(line) == [RanksMissing(missing=(1, 3), what="flight recorder")]


@pytest.mark.parametrize("line", ["Error type: MISMATCH", "missing ranks: set()", "no missing ranks: all joined"])
def test_a_near_miss_says_nothing(line):
    assert read(line) == []
