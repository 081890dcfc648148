# SPDX-License-Identifier: Apache-2.0
"""What the guards recorded, and what it means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keepstep.model.codec import from_dict
from keepstep.model.evidence import EvidenceSet
from keepstep.model.report import Report
from keepstep.rules import builtin_rules
from keepstep.story.engine import diagnose


def noted(fact: str, rank: int | None = 0, **fields: Any) -> Any:
    line: dict[str, Any] = {
        "fact": fact,
        "fields": fields,
        "origin": {"source": f"rank{rank}.notes.jsonl"},
        "at": 100.0,
    }
    if rank is not None:
        line["rank"] = {"index": rank}
    return from_dict(line)


def report(*items: Any) -> Report:
    return diagnose(EvidenceSet(items=items), builtin_rules())


def told(*items: Any) -> list[tuple[str, str, tuple[int, ...], str]]:
    return [(f.rule, f.cause.value, f.ranks, f.severity.value) for f in report(*items).findings]


def broken(subject: str, what: str, *values: tuple[str, list[int]], certain: bool = True) -> Any:
    return noted(
        "ContractBroken", subject=subject, ordinal=0, what=what, values=list(values), certain=certain, before=True
    )


EXITED = {"reporter": "torchrun", "code": 1}


@pytest.mark.parametrize(
    ("item", "rule", "cause", "ranks", "severity"),
    [
        (broken("program step", "collective 3", ("all-reduce f32[8]", [0, 1]), ("all-gather f32[8]", [2])),
         "SYN201", "sync.collective_mismatch", (2,), "fatal"),
        (broken("model", "layer.weight", ("float32[4]", [0]), ("float32[5]", [1])),
         "SYN201", "sync.collective_mismatch", (0, 1), "fatal"),
        (broken("program step", "argument 0", ("float32[16,4]", [0, 1]), ("float32[12,4]", [2])),
         "DAT201", "data.shape_mismatch", (2,), "fatal"),
        (broken("batch", "batch[0]", ("float32[4]", [0, 1]), ("float32[5]", [2]), certain=False),
         "DAT201", "data.shape_mismatch", (2,), "warning"),
        (broken("batch", "batch[0]", ("float32[4]", [0, 1]), ("float64[4]", [2]), certain=False),
         "DAT202", "data.dtype_mismatch", (2,), "warning"),
        (broken("batch", "rows", ("16", [0, 1]), ("12", [2]), certain=False),
         "DAT203", "data.sharding_uneven_or_empty", (2,), "warning"),
        (broken("batches", "in an epoch", ("100", [0]), ("80", [1]), certain=False),
         "DAT203", "data.sharding_uneven_or_empty", (1,), "warning"),
        (broken("versions", "torch", ("2.5.1", [0, 1]), ("2.13.0", [2]), certain=False),
         "ENV201", "env.version_mismatch_between_nodes", (2,), "warning"),
        (broken("options", "backend", ("nccl", [0, 1]), ("gloo", [2]), certain=False),
         "SYN202", "sync.collective_mismatch", (2,), "warning"),
        (broken("optimizer", "lr", ("0.1", [0, 1]), ("0.2", [2]), certain=False),
         "SYN203", "sync.replica_desync", (2,), "warning"),
        (noted("BatchOdd", 1, kind="shape", part="batch[0]", seen="[4, 5]", wanted="[4, 6]", step=3),
         "DAT204", "data.shape_mismatch", (1,), "warning"),
        (noted("BatchOdd", 1, kind="dtype", part="batch[0]", seen="float64", wanted="float32"),
         "DAT205", "data.dtype_mismatch", (1,), "warning"),
        (noted("BatchOdd", 1, kind="label", part="batch[1]", seen="0 to 99", wanted="0 to 9", declared=True),
         "DAT206", "data.label_out_of_range", (1,), "warning"),
        (noted("BatchOdd", 1, kind="empty", part="batch[0]", seen="[0, 4]", wanted="[16, 4]"),
         "DAT207", "data.sharding_uneven_or_empty", (1,), "warning"),
        (noted("BatchOdd", 1, kind="not finite", part="batch[0]", seen="NaN", wanted="finite"),
         "NUM201", "numeric.nan_or_divergence", (1,), "warning"),
        (noted("RankLate", 1, phase="compute", seconds=0.4, usual_s=0.01, against="peers", steps=30),
         "SLO201", "slow.straggler", (1,), "warning"),
        (noted("Recompiling", 1, function="step", count=9, reason="argument x: [3], [4], [5]", storm=True),
         "SLO004", "slow.recompilation", (1,), "warning"),
        (noted("WorldFormed", 1, size=1, meant=4, meant_by="torchrun", framework="torch", at_step=True),
         "CFG201", "config.trains_alone", (1,), "fatal"),
        (noted("WorldFormed", 1, size=1, meant=4, meant_by="Slurm", framework="jax", at_step=True),
         "CFG201", "config.trains_alone", (1,), "warning"),
        (noted("LossNotFinite", 1, step=41, own=True, world=2, times=10),
         "NUM202", "numeric.nan_or_divergence", (1,), "fatal"),
        (noted("LossNotFinite", 1, step=41, own=True, world=2, times=1),
         "NUM202", "numeric.nan_or_divergence", (1,), "warning"),
        (noted("LossNotFinite", 0, step=41, own=True, world=1, times=10),
         "NUM202", "numeric.nan_or_divergence", (), "fatal"),
        (noted("LossNotFinite", 0, step=41, world=2), "NUM202", "numeric.nan_or_divergence", (), "fatal"),
        (noted("LossNotFinite", 0, step=41, world=2, began=[1]), "NUM202", "numeric.nan_or_divergence", (1,), "fatal"),
        (noted("TrainsApart", 1, framework="tensorflow", world=2, steps=80),
         "SYN207", "sync.variable_outside_strategy_scope", (1,), "fatal"),
        (noted("NeverExchanged", 0, framework="torch", world=2, steps=80, parameters=1000, exchanged=80),
         "CFG206", "config.trains_alone", (0, 1), "fatal"),
        (noted("DevicesLeft", 1, what="GPU", used=4, there=8),
         "CFG012", "config.world_size_mismatch", (1,), "warning"),
        (broken("collective #7", "operation", ("barrier", [0, 1]), ("all_reduce float32[2]", [2])),
         "SYN206", "sync.collective_mismatch", (2,), "fatal"),
        (noted("PeerSilent", 0, subject="program step", ordinal=0, missing=[3], waited_s=10.0),
         "SYN204", "sync.deadlock_or_hang_waiting_rank", (3,), "fatal"),
    ],
)  # fmt: skip
def test_what_one_note_means(item: Any, rule: str, cause: str, ranks: tuple[int, ...], severity: str) -> None:
    assert told(item) == [(rule, cause, ranks, severity)]


def test_the_operation_that_gave_the_first_nan_is_named() -> None:
    lost = noted("LossNotFinite", 1, step=41, own=True, world=2, times=10)
    first = noted("FirstNonFinite", 1, step=41, op="sqrt", layer="head", sure=True, batch="float32[3, 4], hash ab")
    (found,) = report(lost, first).findings
    assert found.because.startswith("the operation sqrt after layer head gave the first such value; rank 1 had")
    assert found.evidence[0].fact == first.fact
    assert not [fix for fix in found.fixes if "operation that gives the first NaN" in fix.do]
    assert "(float32[3, 4], hash ab)" in found.fixes[0].do


def test_the_line_of_the_first_nan_is_named_or_called_not_established() -> None:
    lost = noted("LossNotFinite", 0, step=41, own=True, world=1, times=10)
    known = noted("FirstNonFinite", 0, step=41, op="div", own=True, line="train.py:31")
    (found,) = report(lost, known).findings
    assert found.because.startswith("the operation div at train.py:31 gave the first such value; ")
    unknown = noted("FirstNonFinite", 0, step=41, op="div", no_line="it needs a collective")
    (found,) = report(lost, unknown).findings
    assert "(its line is not established: it needs a collective)" in found.because


def test_a_weight_that_was_lost_before_the_loss_leaves_the_question_what_lost_it() -> None:
    lost = noted("LossNotFinite", 0, step=41, own=True, world=1, times=10)
    (found,) = report(lost, noted("FirstNonFinite", 0, step=41, layer="head.weight", own=True)).findings
    assert "head.weight was not finite before that step: an earlier gradient was not, or an update was" in found.because
    assert any(fix.code == "torch.autograd.set_detect_anomaly(True)" for fix in found.fixes)


def past(rank: int) -> Any:
    return noted(
        "RankLate", rank, phase="input", seconds=0.4, usual_s=0.01, against="past", steps=30, step_s=0.5, before_s=0.01
    )


def world(size: int) -> Any:
    return noted("WorldFormed", 0, size=size, index=0, meant=size, framework="torch")


def test_a_rank_that_does_worse_than_itself_is_named_where_nobody_compared_it_with_others() -> None:
    assert told(world(4), past(2)) == [("SLO201", "slow.straggler", (2,), "warning")]
    held = noted(
        "RankLate", 1, phase="compute", seconds=0.4, usual_s=0.01, against="peers", steps=30, held=True, before_s=0.02
    )
    found = report(world(4), past(2), held).findings
    assert (
        [f.ranks for f in found] == [(1,)]
        and "waits for a CPU" in found[0].title
        and "earlier it lost 20 ms itself" in found[0].because
    )


@pytest.mark.parametrize(
    "items",
    [
        (world(2), past(0), past(1)),
        (past(0),),
        (noted("ContractStated", 0, subject="batch", ordinal=0, stated=[["rows", "8"]]),
         noted("ContractStated", 1, subject="batch", ordinal=0, stated=[["rows", "8"]])),
        (noted("ContractStated", 0, subject="batch", ordinal=0, stated=[["rows", "8"]]),
         noted("ContractStated", 1, subject="batch", ordinal=1, stated=[["rows", "6"]])),
        (noted("WorldFormed", 0, size=2, index=0, meant=2, meant_by="torchrun", framework="torch"),
         noted("WorldFormed", 0, size=2, meant=2, at_step=True)),
        (noted("WorldFormed", 0, size=1, meant=None, at_step=True),),
        (noted("PlanNamed", 0, number=1, name="step"), noted("GuardPart", 0, part="x", why="y")),
        (noted("PeerSilent", 0, subject="program", ordinal=0, missing=[1], waited_s=10.0),
         noted("ContractStated", 1, subject="program", ordinal=0, stated=[["a", "1"]])),
        tuple(noted("RankDoing", rank, phase="end", steps=100, silent_s=30.0, usual_step_s=0.1) for rank in range(2)),
        (
            noted("NeverExchanged", 0, framework="torch", world=2, steps=80, parameters=9, exchanged=4),
            noted("NeverExchanged", 0, framework="torch", world=2, steps=900, over=True),
        ),
        (noted("TrainsApart", 0, framework="tensorflow", world=2, steps=80),
         noted("TrainsApart", 0, framework="tensorflow", world=2, steps=900, over=True)),
        # the other may only evaluate
        (noted("NeverExchanged", 0, framework="torch", world=2, steps=96, parameters=1000, exchanged=0, own=True),),
        tuple(noted("CollectivesIssued", rank, group="0", steps=5,
                    issued=[[n, "barrier", "barrier", ""] for n in range(1, 9 + rank)]) for rank in range(2)),
        tuple(noted("RankDoing", rank, phase="compile", steps=0, silent_s=60.0) for rank in range(2)),
        tuple(noted("RankDoing", rank, phase="evaluation", steps=50, silent_s=60.0, usual_step_s=0.1)
              for rank in range(2)),
    ],
)  # fmt: skip
def test_healthy_notes_mean_nothing(items: tuple[Any, ...]) -> None:
    assert told(*items) == []


@pytest.mark.parametrize(
    ("states", "culprits"),
    [
        ({0: ("compute", 40), 1: ("compute", 40), 2: ("input", 40)}, (2,)),
        ({0: ("compute", 40), 1: ("compute", 40), 2: ("compute", 39)}, (2,)),
        ({0: ("compute", 50), 1: ("end", 50)}, (1,)),
        ({0: ("compute", 40), 1: ("compute", 40)}, ()),
    ],
)
def test_a_run_that_stopped_is_told_by_its_boxes(states: dict[int, tuple[str, int]], culprits: tuple[int, ...]) -> None:
    items = [
        noted("RankDoing", rank, phase=phase, steps=steps, silent_s=90.0, usual_step_s=0.1)
        for rank, (phase, steps) in states.items()
    ]
    found = told(*items)
    assert [(rule, ranks) for rule, _, ranks, _ in found] == [("SYN205", culprits)]


@pytest.mark.parametrize(
    ("silent_s", "steps", "rule"),
    [(18.0, 25, "SYN205"), (2.0, 25, "UNK003"), (18.0, 80, "UNK003")],
    ids=["still waits", "just ended", "went on"],
)
def test_who_was_waited_for_is_the_cause_when_somebody_ended_the_job_at_last(
    silent_s: float, steps: int, rule: str
) -> None:
    wait = noted(
        "PeersWait",
        0,
        waiting=[0],
        late=[1],
        seconds=2.6,
        where="elsewhere, at train.py:18, in load()",
        phase="compute",
        steps=25,
    )
    ends = [
        noted("RankEnded", rank, goodbye=False, steps=steps, phase="compute", pid=rank + 7, world=2)
        for rank in range(2)
    ]
    doing = [
        noted("RankDoing", rank, phase="compute", steps=steps, silent_s=silent_s, usual_step_s=0.1, pid=rank + 7)
        for rank in range(2)
    ]
    found = told(wait, *ends, *doing)
    assert found[0][0] == rule
    assert rule != "SYN205" or found[0][2] == (1,)


def test_an_uneven_share_explains_the_hang_at_its_end() -> None:
    found = told(
        broken("batches", "in an epoch", ("100", [0]), ("80", [1]), certain=False),
        noted("RankStopped", 0, phase="compute", steps=80, seconds=12.0, proven=True),
        noted("RankDoing", 0, phase="compute", steps=80, silent_s=12.0, usual_step_s=0.1),
        noted("RankDoing", 1, phase="end", steps=80, silent_s=0.0, usual_step_s=0.1),
    )
    assert found[0] == ("DAT203", "data.sharding_uneven_or_empty", (1,), "fatal")


def test_a_label_out_of_range_explains_the_crash_after_it() -> None:
    found = told(
        noted("BatchOdd", 1, kind="label", part="batch[1]", seen="0 to 99", wanted="0 to 9", declared=True),
        noted("FatalSignal", 1, signal="SIGSEGV"),
    )
    assert found[0][:3] == ("DAT206", "data.label_out_of_range", (1,))


def killed(rank: int) -> Any:
    return noted("ProcessExited", rank, reporter="keepstep run", signal="SIGKILL", first=True)


def test_a_kill_in_the_middle_of_an_epoch_is_not_blamed_on_batches_that_differ() -> None:
    lengths = broken("batch", "batch['input_ids']", ("int64[9]", [0]), ("int64[12]", [1]), certain=False)
    shares = broken("batches", "in an epoch", ("150", [0]), ("155", [1]), certain=False)
    doing = noted("RankDoing", 0, phase="compute", steps=60)
    for found in (report(lengths, killed(1)), report(shares, doing, killed(1))):
        assert not found.findings[0].cause.value.startswith("data.")
        assert [f.severity.value for f in found.findings if f.cause.value.startswith("data.")] == ["warning"]


def issued(rank: int, *ops: tuple[int, str, str], group: str = "0") -> Any:
    return noted(
        "CollectivesIssued", rank, group=group, issued=[[number, key, key, line] for number, key, line in ops], steps=6
    )


def test_what_each_rank_issued_last_names_the_one_that_issued_another_collective() -> None:
    common = [(n, "all_reduce float32x169", "") for n in range(1, 14)]
    alone = (14, "all_reduce float32x1", "train.py:57")
    in_ddp = issued(1, *common, (14, "all_reduce float32x169", ""))
    for mine in (issued(0, *common, alone), issued(0, alone, group="script")):
        found = report(mine, in_ddp, noted("ProcessExited", 0, **EXITED)).findings[0]
        assert (found.rule, found.ranks) == ("SYN206", (0,)) and "at train.py:57" in found.title


@pytest.mark.parametrize(
    ("kind", "in_framework", "blamed"),
    [("IndexError", True, False), ("KeyError", False, False), ("RuntimeError", True, True)],
)
def test_a_collective_that_a_rank_meets_on_its_way_out_is_not_blamed(
    kind: str, in_framework: bool, blamed: bool
) -> None:
    raised = noted(
        "RankRaised",
        1,
        type=kind,
        message="Target 7 is out of bounds.",
        file="train.py",
        line=11,
        how="leaving",
        in_framework=in_framework,
    )
    differ = broken("collective #66", "operation", ("all_reduce", [0]), ("barrier", [1]))
    assert any(each[0] == "SYN206" for each in told(raised, differ)) is blamed


@pytest.mark.parametrize(("noted_at", "is_named"), [(100.03, True), (108.0, False)])
def test_a_rank_whose_end_was_noted_a_moment_after_others_lost_it_had_finished(noted_at: float, is_named: bool) -> None:
    ended = noted("RankEnded", 1, goodbye=True, status=0, raised="", steps=30, pid=12, phase="compute", world=2)
    lost = noted("PeerLost", 0, how="connection closed by peer", final=True)
    found = report(replace(ended, at=noted_at), lost).findings
    assert any(each.rule == "SYN208" and each.ranks == (1,) for each in found) == is_named, found


def test_the_batch_that_ran_out_of_memory_is_in_the_advice() -> None:
    full = noted("DeviceMemoryExhausted", 1, requested="2.00 GiB")
    raised = noted("RankRaised", 1, type="torch.OutOfMemoryError", message="out of memory", batch="batch[0] [64, 3]")
    found = report(full, raised, noted("ProcessExited", 1, **EXITED)).findings[0]
    assert found.rule == "RES001"
    assert "the step took batch[0] [64, 3]" in " ".join(fix.do for fix in found.fixes)
