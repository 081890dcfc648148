# SPDX-License-Identifier: Apache-2.0
"""Hashes of a few batches: ranks that train on the same records are named, others are not.

test_fed.py has the same with words during the run, and test_torch_harmless.py holds that ranks with data of their own
hear nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.guard.batches.batch_hashes import digest_of
from keepstep.signals.same_batches import FIRST
from tests.guard.torch_ranks import ranks
from tests.lazy_framework import lazy_framework

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]


@pytest.mark.long
def test_ranks_that_are_fed_the_same_records_are_named(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "same data") as run:
        assert run.ended() == [0, 0], run.logs()
        assert len(run.notes("BatchFed")) == 2 * FIRST
        found = [each for each in explain_paths([run.guard]).report.findings if each.rule == "DAT075"]
        assert [each.ranks for each in found] == [(0, 1)]
        assert found[0].title == "ranks 0 and 1 were fed the same records"


@pytest.mark.long
def test_ranks_with_data_of_their_own_are_not(tmp_path: Path) -> None:
    with ranks(tmp_path) as run:
        assert run.ended() == [0, 0], run.logs()
        assert len(run.notes("BatchFed")) == 2 * FIRST
        assert not [each for each in explain_paths([run.guard]).report.findings if each.rule == "DAT075"]


def test_a_hash_depends_on_content_type_and_place() -> None:
    torch = lazy_framework("torch")
    numpy = pytest.importorskip("numpy")
    one = {"x": torch.arange(6.0).reshape(2, 3), "y": torch.tensor([1, 2])}
    again = {"x": torch.arange(6.0).reshape(2, 3), "y": torch.tensor([1, 2])}
    assert digest_of(one) == digest_of(again) is not None
    for other in (
        {**one, "y": torch.tensor([2, 1])},
        {**one, "x": one["x"].double()},
        {**one, "x": one["x"].reshape(3, 2)},
        {"x": one["y"], "y": one["x"]},
    ):
        assert digest_of(other) != digest_of(one)
    assert digest_of(numpy.arange(3)) == digest_of(numpy.arange(3)) != digest_of(numpy.arange(3) + 1)
    assert digest_of(torch.zeros(3, device="meta")) is None
    assert digest_of(torch.zeros(3, dtype=torch.bfloat16)) is None
    assert digest_of([1, 2]) is None
    assert digest_of((torch.tensor(3), torch.tensor(0.5))) is None
