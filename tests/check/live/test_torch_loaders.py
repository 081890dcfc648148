# SPDX-License-Identifier: Apache-2.0
"""check_data on real DataLoaders and plain iterables."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

import keepstep
from keepstep.errors import UserError
from keepstep.model.report import Report
from tests.lazy_framework import lazy_framework

torch = lazy_framework("torch")
pytestmark = pytest.mark.frameworks("torch")


def _rules(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings}


def _data() -> Any:
    return torch.utils.data.TensorDataset(torch.arange(64.0)[:, None], torch.arange(64))


def _loader(rank: int, ranks: int, **how: Any) -> Any:
    sampler = torch.utils.data.DistributedSampler(_data(), num_replicas=ranks, rank=rank, seed=3)
    return torch.utils.data.DataLoader(_data(), batch_size=4, sampler=sampler, **how)


def test_ranks_with_a_distributed_sampler_are_healthy_but_for_workers() -> None:
    assert _rules(keepstep.check_data(_loader, ranks=3)) == {"SLO061"}


def test_a_loader_that_deals_everything_to_every_rank_is_named() -> None:
    def make(rank: int, ranks: int) -> Any:
        return torch.utils.data.DataLoader(_data(), batch_size=4)

    assert _rules(keepstep.check_data(make, ranks=2)) == {"DAT073", "DAT074", "SLO061"}


def test_a_loader_alone_is_only_named_in_a_job_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = torch.utils.data.DataLoader(_data(), batch_size=4, shuffle=True)
    assert "DAT074" not in _rules(keepstep.check_data(loader))
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert "DAT074" in _rules(keepstep.check_data(loader))
    own = torch.utils.data.DataLoader(_data(), batch_size=4, sampler=keepstep.shard(_data(), batch=4))
    assert "DAT074" not in _rules(keepstep.check_data(own))


@pytest.mark.parametrize("workers", [0, 2])
def test_reading_a_sample_leaves_all_random_state_alone(workers: int) -> None:
    def order(check: bool) -> tuple[list[Any], float, list[float]]:
        torch.manual_seed(5)
        random.seed(5)
        generator = torch.Generator().manual_seed(9)
        loader = torch.utils.data.DataLoader(
            _data(), batch_size=8, shuffle=True, generator=generator, num_workers=workers,
            persistent_workers=bool(workers),
        )  # fmt: skip
        if check:
            keepstep.check_data(loader)
        return [batch[1].tolist() for batch in loader], random.random(), torch.rand(2).tolist()

    assert order(True) == order(False)


def test_what_can_be_read_only_once_is_refused_unread() -> None:
    class Once(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            self.left = iter(range(20))

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            return next(self.left)

    data = Once()
    with pytest.raises(UserError, match="only once"):
        keepstep.check_data(torch.utils.data.DataLoader(data, batch_size=2))
    assert next(data) == 0
    numbers = iter(range(5))
    with pytest.raises(UserError, match="only once"):
        keepstep.check_data(numbers)
    assert list(numbers) == [0, 1, 2, 3, 4]
    sampler = iter([3, 1, 2])
    with pytest.raises(UserError, match="sampler"):
        keepstep.check_data(torch.utils.data.DataLoader(_data(), sampler=sampler))
    assert list(sampler) == [3, 1, 2]
    with pytest.raises(UserError, match="no pipeline"):
        keepstep.check_data(5)


class _Slow:
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.005)
        return torch.tensor(index)


def test_slow_reading_of_records_is_named_as_the_limit() -> None:
    report = keepstep.check_data(torch.utils.data.DataLoader(_Slow(), batch_size=4), step_s=0.001, batches=5)
    found = next(finding for finding in report.findings if finding.rule == "SLO060")
    assert "_Slow.__getitem__" in found.because


def test_a_list_of_batches_is_a_pipeline_too() -> None:
    torch_batches = [torch.full((4, 2), float(index)) for index in range(6)]
    assert not keepstep.check_data(torch_batches, step_s=10.0).findings
    changing = [*torch_batches, torch.zeros(4, 3), *torch_batches[:1]]
    assert _rules(keepstep.check_data(changing)) == {"DAT072"}


def test_a_rank_that_would_be_done_first_or_has_nothing_is_named() -> None:
    def uneven(rank: int, ranks: int) -> Any:
        return [torch.arange(4.0 * 9).reshape(9, 4) + 100 * rank + step for step in range(5 - rank)]

    found = next(each for each in keepstep.check_data(uneven, ranks=2).findings if each.rule == "DAT062")
    assert found.ranks == (1,) and "done after step 4, the longest after step 5" in found.title
    empty = keepstep.check_data(lambda rank, ranks: [] if rank else [torch.arange(8.0)] * 2, ranks=2)
    assert {each.rule: each.ranks for each in empty.findings} == {"DAT061": (1,), "DAT062": (1,)}


def test_rows_that_cannot_be_told_apart_are_not_compared() -> None:
    report = keepstep.check_data(lambda rank, ranks: [torch.zeros(8, 2)] * 4, ranks=2)
    assert not report.findings
    assert any("same rows" in each.what and each.state.value == "unavailable" for each in report.coverage)
