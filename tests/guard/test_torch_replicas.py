# SPDX-License-Identifier: Apache-2.0
"""Replicas under DDP: bits that are changed from outside are found; what ranks may lawfully do is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.store.ledger.verify import State, latest_good, verify
from tests.guard.torch_ranks import ranks
from tests.lazy_framework import lazy_framework

SCRIPT = Path(__file__).with_name("replicas_training.py")
TWO = Path(__file__).with_name("two_replicas_training.py")
ROOT = str(Path(__file__).parents[2])
LAWFUL = "plain", "no_broadcast", "unused", "local_sgd", "no_sync", "bypassed", "average_on_rank_0", "apart"


@pytest.mark.frameworks("torch")
@pytest.mark.slow
def test_changed_bits_are_named_with_rank_and_tensor_and_lawful_differences_are_not(tmp_path: Path) -> None:
    faults = "flip_weight:1", "flip_state:1"
    with ranks(tmp_path, *faults, *LAWFUL, count=3, script=SCRIPT, KEEPSTEP_FINGERPRINTS="8") as run:
        assert run.ended() == [0, 0, 0], run.logs()
        found = [note["fields"] for note in run.notes("ReplicaOdd")]
        assert [each["ranks"] for each in found] == [[1], [1]], run.logs()
        assert found[0]["tensor"] == "flip_weight.3.weight"
        assert found[1]["tensor"].endswith("flip_state.3.weight")
        (finding,) = [each for each in explain_paths([run.guard]).report.findings if each.rule == "NUM204"]
        assert finding.ranks == (1,)
        assert "odd again" in finding.because
        assert verify(tmp_path / "ckpt" / "step_23.pt").state is State.SUSPECT
        assert latest_good(tmp_path / "ckpt") == tmp_path / "ckpt" / "step_16.pt"


@pytest.mark.frameworks("torch")
@pytest.mark.slow
@pytest.mark.long
def test_shards_that_two_ranks_hold_alike_are_compared_with_each_other_and_with_no_others(tmp_path: Path) -> None:
    with ranks(tmp_path, "shards", "flip_shards:1", count=4, script=SCRIPT, KEEPSTEP_FINGERPRINTS="8") as run:
        assert run.ended() == [0, 0, 0, 0], run.logs()
        found = [note["fields"] for note in run.notes("ReplicaOdd")]
        assert [(each["ranks"], each["majority"], each["tensor"]) for each in found] == [
            ([1, 3], False, "flip_shards.3.weight")
        ], run.logs()


OF_TWO = {
    "once:1": ([], "it happened once"),
    "huge:0": ([0], "holds"),
    "stuck:1": ([1], "double precision"),
    "erring:0": ([0], "gave other bits"),
    "outside:1": ([1], "between two steps"),
    "clipped:1": ([], "gradients differ"),
    "closure:0": ([], "it happened once"),
}


@pytest.mark.frameworks("torch")
@pytest.mark.slow
@pytest.mark.parametrize(
    "faults", [("once:1", "erring:0"), pytest.param(tuple(OF_TWO), marks=pytest.mark.long)], ids=["two", "all"]
)
def test_of_two_replicas_the_wrong_one_is_named_or_it_is_said_why_not(tmp_path: Path, faults: tuple[str, ...]) -> None:
    with ranks(tmp_path, *faults, count=2, script=TWO, KEEPSTEP_FINGERPRINTS="8", PYTHONPATH=ROOT) as run:
        assert run.ended() == [0, 0], run.logs()
        found = [note["fields"] for note in run.notes("OddOfTwo")]
        assert [each["ranks"] for each in found] == [OF_TWO[each][0] for each in faults], run.logs()
        for fault, each in zip(faults, found, strict=True):
            assert OF_TWO[fault][1] in each["why"]
            assert fault.partition(":")[0] in each["tensor"]


def test_a_changed_bit_and_swapped_words_change_the_sums() -> None:
    torch = lazy_framework("torch")
    from keepstep.guard.adapters.torch.numbers.sums import Sums

    sums = Sums(torch)

    def of(tensor: object) -> tuple[object, object]:
        return tuple(sums.of([tensor], by_column=by).read() for by in (False, True))  # type: ignore[return-value]

    made = torch.Generator().manual_seed(0)
    for kind in (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool):
        for shape in ((), (3,), (5, 7), (64, 129), (3, 5, 2048)):
            tensor = (torch.rand(shape, generator=made) * 100).to(kind)
            before = of(tensor)
            assert before == of(tensor.clone())
            words = tensor.view(-1).view(torch.uint8)
            words[-1] ^= 1
            assert all(one != other for one, other in zip(before, of(tensor), strict=True))
    table = torch.arange(40_000.0).reshape(200, 200)
    swapped = table.clone()
    swapped[3, 6:8], swapped[7, 6:8] = table[7, 6:8], table[3, 6:8]
    assert of(swapped) != of(table)
    last = torch.rand(2, 8, 4, 4).to(memory_format=torch.channels_last)
    assert of(last) == of(last.clone())
