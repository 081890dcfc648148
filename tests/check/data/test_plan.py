# SPDX-License-Identifier: Apache-2.0
"""What every plan must hold, whatever the policy; its problems, and its picture."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.check.checkup import judge
from keepstep.check.data.labels import Labels
from keepstep.check.data.plan.evidence import evidence_of
from keepstep.check.data.plan.picture import picture, shares_seen
from keepstep.check.data.plan.policies import POLICIES, FileRecords, plan
from keepstep.check.data.plan.runs import between, count, every, head, meets
from keepstep.model.facts.plan import (
    BatchesUneven,
    LabelsSkewed,
    LoaderRefuses,
    RecordsRepeated,
    RecordsUnseen,
    ShareEmpty,
    ShareSeen,
    StepsUneven,
    WorkersIdle,
)
from keepstep.render.rank_shares import shares_markup
from tests.check.data.fed import assert_totals, batch_sizes, named, numbers_of_ranks, planned, sizes_of_files

many = settings(max_examples=60, deadline=None)
runs = st.builds(
    lambda start, size, step: range(start, start + size * step, step),
    st.integers(0, 9),
    st.integers(1, 9),
    st.integers(1, 4),
)
streams = st.lists(runs, max_size=4).map(tuple)


@many
@given(stream=streams, first=st.integers(0, 12), step=st.integers(1, 5), stop=st.integers(0, 30))
def test_runs_are_cut_like_the_lists_they_stand_for(
    stream: tuple[range, ...], first: int, step: int, stop: int
) -> None:
    listed = [record for run in stream for record in run]
    assert [r for run in every(stream, first, step) for r in run] == listed[first::step]
    assert [r for run in head(stream, stop) for r in run] == listed[:stop]
    assert [r for run in between(stream, first, stop) for r in run] == listed[first:stop]
    assert count(stream) == len(listed)
    for run in stream:
        assert meets(run, first, stop) == any(first <= record < stop for record in run)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@many
@given(sizes=sizes_of_files, ranks=numbers_of_ranks, batch=batch_sizes, workers=st.integers(0, 3), drop=st.booleans())
def test_the_numbers_of_a_plan_agree_with_each_other(
    policy: str, sizes: list[int], ranks: int, batch: int, workers: int, drop: bool
) -> None:
    if policy == "mds" and not sum(sizes):
        sizes = [1]
    made = planned(sizes, ranks=ranks, batch=batch, policy=policy, workers=workers, drop_last=drop)
    listed = [[r for stream in share.streams for run in stream for r in run] for share in made.shares]
    assert_totals(made, listed)
    names = [each.name for each in made.asked.files]
    for share, records in zip(made.shares, listed, strict=True):
        assert share.records == len(records) <= share.steps * max(share.rows, default=0)
        if not made.split.shuffled:
            touched = {made.file_of(record).name for record in records}
            assert made.files_of(share.rank) == tuple(name for name in names if name in touched)
    assert len(picture(made, 80).splitlines()) >= ranks
    assert shares_markup(shares_seen(made)).count("<tr>") == ranks


def test_a_billion_records_are_planned_without_a_list() -> None:
    files = named([10**6] * 1000)
    for policy in POLICIES:
        made = plan(files, ranks=64, batch=256, policy=policy, workers=2)
        assert made.records == 10**9 and sum(made.steps) > 0
        assert len(picture(made, 100).splitlines()) < 25


def _kinds(sizes: list[int], **asked: object) -> set[type]:
    return {type(each) for each in planned(sizes, **asked).problems}


@pytest.mark.parametrize(
    ("sizes", "asked", "expected"),
    [
        ([8, 8], {"ranks": 2, "batch": 4, "policy": "webdataset"}, set()),
        ([8, 4], {"ranks": 2, "batch": 4, "policy": "webdataset"}, {StepsUneven}),
        ([8, 8], {"ranks": 3, "batch": 4, "policy": "tf-file"}, {LoaderRefuses, ShareEmpty, StepsUneven}),
        ([8, 8], {"ranks": 3, "batch": 4, "policy": "tf-shard-files"}, {ShareEmpty, StepsUneven}),
        ([16], {"ranks": 2, "batch": 4, "policy": "tf-off"}, {RecordsRepeated}),
        ([15], {"ranks": 2, "batch": 4, "policy": "torch-sampler"}, {RecordsRepeated}),
        ([17], {"ranks": 2, "batch": 4, "policy": "jax"}, {RecordsUnseen}),
        ([18], {"ranks": 2, "batch": 4, "policy": "jax"}, {BatchesUneven}),
        ([8, 8], {"ranks": 2, "batch": 4, "policy": "huggingface", "workers": 2}, {WorkersIdle}),
        ([10], {"ranks": 3, "batch": 5, "policy": "tf-data"}, {BatchesUneven}),
    ],
)
def test_each_problem_is_seen_where_it_is_and_only_there(
    sizes: list[int], asked: dict[str, object], expected: set[type]
) -> None:
    assert _kinds(sizes, **asked) == expected


def test_who_hangs_and_at_which_step() -> None:
    made = planned([5000, 5000, 3200, 5000], ranks=4, batch=100, policy="torch-iterable-files")
    uneven = next(each for each in made.problems if isinstance(each, StepsUneven))
    assert (uneven.short, uneven.least, uneven.most, uneven.hangs) == ((2,), 32, 50, True)
    under_a_strategy = planned([5000, 5000, 3200, 5000], ranks=4, batch=400, policy="tf-file")
    assert not next(each for each in under_a_strategy.problems if isinstance(each, StepsUneven)).hangs


def test_files_sorted_by_label_are_seen() -> None:
    files = [FileRecords(f"{name}s", 100, Labels((name,), bytes(100))) for name in ("cat", "dog")]
    skewed = [
        each for each in plan(files, ranks=2, batch=4, policy="webdataset").problems if isinstance(each, LabelsSkewed)
    ]
    assert [(each.label, each.of_rank, each.share) for each in skewed] == [("cat", 1, 0.0)]
    mixed = [FileRecords(name, 100, Labels(("cat", "dog"), bytes([0, 1]) * 50)) for name in "ab"]
    assert not plan(mixed, ranks=2, batch=4, policy="webdataset").problems
    assert not plan(files, ranks=2, batch=4, policy="tf-shard").problems


@pytest.mark.parametrize(
    ("codes", "skewed"),
    [
        (bytes([0] * 100 + [1] * 100), {"jax", "grain", "huggingface-map"}),
        (bytes([0, 1] * 100), {"tf-shard", "grain-slice"}),
        (bytes([0, 0, 1, 1] * 50), {"tf-data"}),
    ],
)
def test_an_order_that_follows_the_label_is_seen_where_the_loader_keeps_it(codes: bytes, skewed: set[str]) -> None:
    """Sorted, alternating, and alternating by the halves of a global batch of four."""
    files = [
        FileRecords("a", 120, Labels(("x", "y"), codes[:120])),
        FileRecords("b", 80, Labels(("x", "y"), codes[120:])),
    ]
    found = set()
    for policy in ("jax", "grain", "grain-slice", "tf-shard", "tf-data", "tf-off", "torch-sampler", "huggingface-map"):
        problems = plan(files, ranks=2, batch=4, policy=policy).problems
        if any(isinstance(each, LabelsSkewed) and each.share == 0.0 for each in problems):
            found.add(policy)
    assert found == skewed


def test_the_picture_shows_who_gets_what() -> None:
    text = picture(planned([8, 4, 4], ranks=2, batch=4, policy="webdataset"), 68)
    assert text.splitlines() == [
        "who would be fed what, by webdataset (█ all of a piece, ░ a little, · nothing):",
        "files     |       |   |    3 files",
        "rank 0    ████████····████ 12 records  3 steps",
        "rank 1    ········████····  4 records   1 step  done 2 steps early",
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"policy": "best"}, "no such policy"),
        ({"ranks": 0}, "ranks"),
        ({"batch": 0}, "batch"),
        ({"workers": -1}, "workers"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        planned([1], **{"ranks": 2, "batch": 2, "policy": "jax", **wrong})


def test_a_plan_becomes_a_report() -> None:
    made = planned([5000, 5000, 3200, 5000], ranks=4, batch=100, policy="torch-iterable-files")
    looked = evidence_of(made)
    report = judge(looked)
    assert [(each.rule, each.ranks) for each in report.findings] == [("DAT062", (2,))]
    assert report.findings[0].because == "the others wait for it at step 33"
    assert sum(isinstance(each.fact, ShareSeen) for each in looked.evidence) == 4
    healthy = judge(evidence_of(planned([800, 800], ranks=2, batch=100, policy="webdataset")))
    assert not healthy.findings and healthy.exit_status == 0
