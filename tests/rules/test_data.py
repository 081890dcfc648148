# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import (
    BatchNotDivisible,
    CorruptData,
    DataMissing,
    EndOfData,
    LabelOutOfRange,
    ShapeMismatch,
)
from keepstep.model.facts.process import ExceptionRaised, Frame, ProcessExited
from keepstep.model.facts.sync import CollectiveTimeout, GroupShutDown
from keepstep.model.facts.training import Phase, PhaseSeen, StepSeen, StreamEnded
from keepstep.model.finding import Confidence, Found
from keepstep.model.identity import Rank
from keepstep.model.rule import Rule
from keepstep.rules.data.batch_not_divisible import batch_not_divisible
from keepstep.rules.data.corrupt_or_truncated import corrupt_or_truncated
from keepstep.rules.data.label_out_of_range import label_out_of_range
from keepstep.rules.data.missing_on_some import missing_on_some
from keepstep.rules.data.out_of_range_end_of_sequence import out_of_range_end_of_sequence
from keepstep.rules.data.shape_mismatch import shape_mismatch
from keepstep.rules.data.sharding_uneven_or_empty import sharding_uneven_or_empty
from keepstep.rules.sync.left_early import left_early


def seen(*facts: tuple[int | None, Fact]) -> EvidenceSet:
    return EvidenceSet(
        items=tuple(
            Evidence(
                fact=fact,
                origin=Origin(source=f"rank{rank}.log", line=line),
                rank=Rank(index=rank) if rank is not None else None,
            )
            for line, (rank, fact) in enumerate(facts, 1)
        )
    )


def asked(rule: Rule, *facts: tuple[int | None, Fact]) -> list[Found]:
    return list(rule.find(seen(*facts)))


def test_shapes_that_do_not_fit_are_told_with_the_rank() -> None:
    (found,) = asked(shape_mismatch, (2, ShapeMismatch(left="[3]", right="[4]")))
    assert "rank 2" in found.title and "[3] and [4]" in found.title


def test_what_a_library_says_of_shapes_is_no_name_of_an_operation() -> None:
    (named,) = asked(shape_mismatch, (1, ShapeMismatch(op="layer norm")))
    (said,) = asked(shape_mismatch, (1, ShapeMismatch(op="Split sizes doesn't match total dim 0 size")))
    assert named.title == "rank 1 got shapes that do not match in layer norm"
    assert said.title == "rank 1 got shapes that do not match: Split sizes doesn't match total dim 0 size"


def test_a_bad_file_that_training_survived_is_not_told() -> None:
    went_on = ((0, StepSeen(step=2)), (0, StepSeen(step=3)))
    assert asked(corrupt_or_truncated, (0, CorruptData(what="truncated")), *went_on) == []


def test_a_bare_device_assert_is_only_a_guess() -> None:
    (found,) = asked(label_out_of_range, (0, LabelOutOfRange(certain=False)))
    assert found.confidence is Confidence.HYPOTHESIS


def test_the_end_of_a_sequence_that_is_only_logged_is_healthy() -> None:
    assert asked(out_of_range_end_of_sequence, (0, EndOfData(what="logged"))) == []


def test_a_rank_that_finished_while_the_other_timed_out_had_less_data() -> None:
    (found,) = asked(sharding_uneven_or_empty, (1, PhaseSeen(phase=Phase.FINISHED)), (0, CollectiveTimeout(op="recv")))
    assert found.ranks == (1,)


def test_all_ranks_finished_is_no_uneven_data() -> None:
    facts = [(rank, PhaseSeen(phase=Phase.FINISHED)) for rank in (0, 1)]
    assert asked(sharding_uneven_or_empty, *facts, (0, CollectiveTimeout(op="recv"))) == []


def _refused(*ranks: int) -> list[tuple[int | None, Fact]]:
    return [
        (rank, fact)
        for rank in ranks
        for fact in (
            GroupShutDown(how="Horovod has been shut down"),
            ExceptionRaised(type="RuntimeError", message="Horovod has been shut down"),
        )
    ]


def test_the_one_rank_that_was_not_refused_and_whose_bar_was_full_had_less_data() -> None:
    done: list[tuple[int | None, Fact]] = [(0, StepSeen(step=925, of=925)), (0, StreamEnded(last="925/925"))]
    (found,) = asked(sharding_uneven_or_empty, *_refused(1, 2), *done)
    assert found.ranks == (0,)


def test_the_one_quiet_rank_was_done_where_another_is_named_as_the_first_that_failed() -> None:
    ended: tuple[int | None, Fact] = (3, StreamEnded(last="0/4"))
    first: tuple[int | None, Fact] = (None, ProcessExited(reporter="mpirun", rank=0, code=1, first=True))
    (found,) = asked(sharding_uneven_or_empty, *_refused(0, 1, 2), ended, first)
    assert found.ranks == (3,)
    assert asked(sharding_uneven_or_empty, *_refused(0, 1, 2), ended) == []
    killed: tuple[int | None, Fact] = (None, ProcessExited(reporter="mpirun", rank=3, signal="SIGKILL", first=True))
    assert asked(sharding_uneven_or_empty, *_refused(0, 1, 2), ended, killed) == []


def test_an_early_stop_on_one_rank_is_told_as_such() -> None:
    facts: list[tuple[int | None, Fact]] = [
        (0, PhaseSeen(phase=Phase.STOPPING_EARLY)),
        (1, GroupShutDown(how="Horovod has been shut down")),
    ]
    (found,) = asked(left_early, *facts)
    assert found.ranks == (0,)
    assert asked(sharding_uneven_or_empty, *facts) == []


def test_a_receive_cancelled_on_the_last_step_is_a_guess_at_an_uneven_batch() -> None:
    cut = (0, GroupShutDown(how="RecvAsync is cancelled"))
    (found,) = asked(batch_not_divisible, (0, StepSeen(step=600, of=600)), cut)
    assert found.confidence is Confidence.HYPOTHESIS
    assert asked(batch_not_divisible, (0, StepSeen(step=5, of=600)), cut) == []


def test_numbers_that_do_not_divide_are_told() -> None:
    (found,) = asked(batch_not_divisible, (0, BatchNotDivisible(batch="19", parts="4")))
    assert "19 over 4" in found.title


def test_a_data_file_that_one_rank_misses_is_named() -> None:
    (found,) = asked(missing_on_some, (0, StepSeen(step=1)), (1, DataMissing(path="/data/points-01.tfrecord")))
    assert "rank 1" in found.title and "points-01.tfrecord" in found.title


def test_a_data_file_that_all_ranks_miss_is_the_programs_own_matter() -> None:
    missing = DataMissing(path="/data/points.tfrecord")
    assert not asked(missing_on_some, (0, missing), (1, missing))


@pytest.mark.parametrize(
    ("line", "none"), [("loss = total / len(self.eval_dataloader)", True), ("mean = total / len(names)", False)]
)
def test_a_mean_over_no_batches_tells_of_an_empty_share(line: str, none: bool) -> None:
    raised = ExceptionRaised(
        type="ZeroDivisionError",
        message="float division by zero",
        frames=(Frame(file="train.py", line=90, function="evaluate"),),
        code=(line,),
    )
    found = asked(sharding_uneven_or_empty, (1, raised))
    assert [each.title for each in found] == (["rank 1 had no batches at all"] if none else [])


def test_a_function_that_shares_out_data_and_finds_none_had_too_little() -> None:
    raised = ExceptionRaised(
        type="IndexError",
        message="index 2 is out of bounds for axis 0 with size 2",
        frames=(Frame(file="megatron/energon/flavors/webdataset/sharder.py", line=65, function="_split_shards"),),
    )
    (found,) = asked(sharding_uneven_or_empty, (3, raised))
    assert found.confidence is Confidence.SUPPORTED
