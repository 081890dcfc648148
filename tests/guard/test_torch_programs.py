# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs as users write them: the right rank and line of a bug, and not a word of what is healthy."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.codec import from_dict
from tests.guard.torch_ranks import ranks

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]

SCRIPT = Path(__file__).with_name("torch_as_users_write.py")


def line_of(words: str) -> str:
    """``name:line`` of the first line of the program that holds these words."""
    lines = SCRIPT.read_text().splitlines()
    return f"{SCRIPT.name}:{next(number for number, line in enumerate(lines, 1) if words in line)}"


@pytest.mark.long
def test_sentences_padded_to_their_longest_and_a_short_last_batch_are_healthy(tmp_path: Path) -> None:
    with ranks(tmp_path / "without", "healthy", script=SCRIPT, KEEPSTEP="off") as run:
        assert run.ended() == [0, 0], run.logs()
        weights = run.results()
    with ranks(tmp_path / "with", "healthy", script=SCRIPT, KEEPSTEP="strict") as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights
        assert "keepstep" not in run.logs()
        assert not run.notes("BatchOdd", "ContractBroken", "LossNotFinite", "NeverExchanged")
        assert not run.troubles()


@pytest.mark.long
def test_a_dataset_in_the_place_of_one_that_is_gone_is_another(tmp_path: Path) -> None:
    """Found with Accelerate's test_script: batches were said to differ, since Python had reused memory on one rank."""
    with ranks(tmp_path, "looked over before", script=SCRIPT) as run:
        assert run.ended() == [0, 0], run.logs()
        assert "keepstep" not in run.logs()
        assert not run.notes("ContractBroken")
        stated = [
            dict(note["fields"]["stated"])
            for note in run.notes("ContractStated")
            if note["fields"]["subject"] == "batch"
        ]
        assert [sorted(each) for each in stated] == [["batch['input_ids']", "batch['labels']", "rows"]] * 2, (
            "of what is trained on, not of what was gone through before"
        )


@pytest.mark.parametrize(
    ("bug", "issued", "call"),
    [
        ("all_gather on rank 0", "all_gather float32[6]", "dist.all_gather("),
        pytest.param("objects on rank 0", "all_gather_object", "dist.all_gather_object(", marks=pytest.mark.long),
    ],
)
def test_a_collective_on_one_rank_is_named_with_its_line_while_the_other_is_in_ddps_broadcast(
    tmp_path: Path, bug: str, issued: str, call: str
) -> None:
    with ranks(tmp_path, bug, script=SCRIPT) as run:
        note = run.wait_for(lambda: run.notes("ContractBroken"))[0]
        from_dict(note)
        assert note["fields"]["odd"] == [0]
        places = dict(note["fields"]["places"])
        assert places[0].startswith(line_of(call)) and places[1].startswith(line_of("loss = cross_entropy"))
        assert [each for each in note["fields"]["values"] if each[1] == [0]] == [[issued, [0]]]
    finding = explain_paths([run.guard]).report.findings[0]
    assert (finding.cause.value, finding.ranks) == ("sync.collective_mismatch", (0,))
    assert f"rank 0 issued {issued} at {line_of(call)}" in finding.title


def test_it_is_named_with_its_line_also_where_gloo_ends_the_process_for_sizes_that_differ(tmp_path: Path) -> None:
    with ranks(tmp_path, "all_reduce on rank 0", script=SCRIPT) as run:
        codes = run.ended()
        assert all(codes), run.logs()
    finding = explain_paths([run.guard, tmp_path / "rank0.log", tmp_path / "rank1.log"]).report.findings[0]
    assert (finding.cause.value, finding.ranks) == ("sync.collective_mismatch", (0,)), run.logs()
    assert line_of("dist.all_reduce(loss.detach())") in finding.title


def test_a_loss_that_is_nan_is_told_when_it_appears_with_the_rank_where_it_began(tmp_path: Path) -> None:
    with ranks(tmp_path, "nan", script=SCRIPT) as run:
        assert run.ended() == [0, 0], run.logs()
        first = min(run.notes("LossNotFinite"), key=lambda note: note["fields"]["step"])
        assert (first["rank"]["index"], first["fields"]["step"]) == (1, 41)
        place = line_of('float("nan")')
        assert f"keepstep: rank 1: the loss is nan in step 41: mul at {place} gives the first such" in run.log(1)
    finding = explain_paths([run.guard]).report.findings[0]
    assert (finding.cause.value, finding.ranks, finding.severity.value) == ("numeric.nan_or_divergence", (1,), "fatal")


@pytest.mark.long
def test_strict_mode_stops_the_rank_whose_loss_is_nan(tmp_path: Path) -> None:
    with ranks(tmp_path, "nan", script=SCRIPT, KEEPSTEP="strict") as run:
        assert all(run.ended()), run.logs()
        assert "OutOfStep: rank 1: the loss is nan in step 41" in run.log(1)
        assert "OutOfStep" not in run.log(0)


@pytest.mark.long
def test_ranks_that_only_average_their_losses_are_told_to_train_alone(tmp_path: Path) -> None:
    with ranks(tmp_path, "no DDP", script=SCRIPT) as run:
        assert run.ended() == [0, 0], run.logs()
        note = run.notes("NeverExchanged")[0]
        assert 80 <= note["fields"]["steps"] <= 120 and note["fields"]["exchanged"] < note["fields"]["parameters"] / 2
        assert "no gradient was averaged" in run.log(0)
    finding = explain_paths([run.guard]).report.findings[0]
    assert (finding.cause.value, finding.ranks) == ("config.trains_alone", (0, 1))
