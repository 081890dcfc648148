# SPDX-License-Identifier: Apache-2.0
"""keepstep.shard for any number of records, ranks, batch size, epoch and place to go on from."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keepstep
from keepstep.feed.shard import REMAINDERS, Shard, shard

sizes = st.integers(1, 120)
ranks_ = st.integers(1, 9)
batches_ = st.integers(1, 9)
seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 50)
many = settings(max_examples=200, deadline=None)


@st.composite
def _quarantined(draw: st.DrawFn) -> tuple[int, frozenset[int]]:
    records = draw(sizes)
    return records, frozenset(draw(st.sets(st.integers(0, records - 1), max_size=records - 1)))


def _all_ranks(records: int, ranks: int, batch: int, **how: object) -> list[Shard]:
    return [shard(records, batch=batch, rank=rank, ranks=ranks, **how) for rank in range(ranks)]  # type: ignore[arg-type]


def _fed(shards: list[Shard]) -> Counter[int]:
    return Counter(record for each in shards for record in each)


@many
@given(
    data=_quarantined(), ranks=ranks_, batch=batches_, seed=seeds, epoch=epochs, shuffle=st.booleans(),
    remainder=st.sampled_from(REMAINDERS),
)  # fmt: skip
def test_every_rank_has_the_same_steps_and_rows(
    data: tuple[int, frozenset[int]], ranks: int, batch: int, seed: int, epoch: int, shuffle: bool, remainder: str
) -> None:
    records, skip = data
    shards = _all_ranks(records, ranks, batch, seed=seed, epoch=epoch, shuffle=shuffle, remainder=remainder, skip=skip)
    rows = [[len(step) for step in each.batches()] for each in shards]
    assert all(each == rows[0] for each in rows)
    assert {len(each) for each in shards} == {sum(rows[0])}
    assert {each.steps for each in shards} == {len(rows[0])}
    assert all(size == batch for size in rows[0][: -1 if remainder == "pad" else None])
    assert not set(_fed(shards)) & skip


@many
@given(data=_quarantined(), ranks=ranks_, batch=batches_, seed=seeds, epoch=epochs, shuffle=st.booleans())
def test_pad_feeds_everything_and_repeats_fewer_than_there_are_ranks(
    data: tuple[int, frozenset[int]], ranks: int, batch: int, seed: int, epoch: int, shuffle: bool
) -> None:
    records, skip = data
    fed = _fed(_all_ranks(records, ranks, batch, seed=seed, epoch=epoch, shuffle=shuffle, skip=skip))
    assert set(fed) == set(range(records)) - skip
    assert fed.total() - len(fed) == -len(fed) % ranks


@many
@given(data=_quarantined(), ranks=ranks_, batch=batches_, seed=seeds, epoch=epochs, shuffle=st.booleans())
def test_drop_feeds_nothing_twice_and_leaves_out_less_than_one_step(
    data: tuple[int, frozenset[int]], ranks: int, batch: int, seed: int, epoch: int, shuffle: bool
) -> None:
    records, skip = data
    fed = _fed(_all_ranks(records, ranks, batch, seed=seed, epoch=epoch, shuffle=shuffle, skip=skip, remainder="drop"))
    assert set(fed.values()) <= {1}
    assert records - len(skip) - fed.total() == (records - len(skip)) % (ranks * batch)


@many
@given(data=_quarantined(), ranks=ranks_, batch=batches_, seed=seeds, epochs=st.integers(1, 5))
def test_carry_feeds_every_record_once_per_pass(
    data: tuple[int, frozenset[int]], ranks: int, batch: int, seed: int, epochs: int
) -> None:
    records, skip = data
    left = records - len(skip)
    shards = _all_ranks(records, ranks, batch, seed=seed, remainder="carry", skip=skip)
    stream: list[int] = []
    for epoch in range(epochs):
        for each in shards:
            each.set_epoch(epoch)
        stream += [record for step in zip(*shards, strict=True) for record in step]
    assert len(stream) >= epochs * left > len(stream) - ranks * batch
    for epoch in range(epochs):
        assert sorted(stream[epoch * left : (epoch + 1) * left]) == sorted(set(range(records)) - skip)


@many
@given(
    data=_quarantined(),
    worlds=st.lists(st.tuples(ranks_, batches_, st.integers(0, 12)), min_size=1, max_size=4),
    seed=seeds,
    epoch=epochs,
    shuffle=st.booleans(),
    remainder=st.sampled_from(REMAINDERS),
)
def test_a_run_goes_on_with_any_number_of_ranks_without_losing_or_repeating(
    data: tuple[int, frozenset[int]],
    worlds: list[tuple[int, int, int]],
    seed: int,
    epoch: int,
    shuffle: bool,
    remainder: str,
) -> None:
    records, skip = data
    left = records - len(skip)
    how = {"seed": seed, "shuffle": shuffle, "remainder": remainder, "skip": skip}
    fed: list[int] = []
    state = None
    begin = world = per_step = 0
    for number, (ranks, batch, steps) in enumerate(worlds):
        shards = _all_ranks(records, ranks, batch, **how)
        for each in shards:
            if state is None:
                each.set_epoch(epoch)
            else:
                each.resume(state)
        if number == 0:
            begin = shards[0].first if remainder == "carry" else epoch * left
        current = shards[0].epoch
        if current != epoch:
            break
        world, per_step = ranks, ranks * batch
        steps = shards[0].steps if number == len(worlds) - 1 else min(steps, shards[0].steps)
        taken = [list(each)[: steps * batch] for each in shards]
        fed += [record for step in zip(*taken, strict=True) for record in step]
        assert len({json.dumps(each.state(steps)) for each in shards}) == 1
        state = json.loads(json.dumps(shards[0].state(steps)))
    once = Counter(fed)
    if remainder == "pad":
        assert set(once) == set(range(records)) - skip
        assert once.total() - left < world
    elif remainder == "drop":
        assert set(once.values()) <= {1}
        assert left - once.total() < per_step
    else:
        end = begin + len(fed)
        assert end >= (epoch + 1) * left
        own = fed[: max(0, (epoch + 1) * left - begin)]
        assert set(Counter(own).values()) <= {1}
        assert set(own) | set(_of(records, 0, begin - epoch * left, epoch, **how)) == set(range(records)) - skip


def _of(records: int, start: int, stop: int, epoch: int, **how: object) -> list[int]:
    """The records at these places of an epoch's order."""
    alone = shard(records, batch=1, rank=0, ranks=1, epoch=epoch, **how)  # type: ignore[arg-type]
    return alone[start:stop]


@many
@given(records=sizes, ranks=ranks_, batch=batches_, epoch=epochs, seed=seeds)
def test_a_step_holds_the_same_records_however_it_is_divided(
    records: int, ranks: int, batch: int, epoch: int, seed: int
) -> None:
    divided = _all_ranks(records, ranks, batch, seed=seed, epoch=epoch, remainder="drop")
    whole = shard(records, batch=ranks * batch, rank=0, ranks=1, seed=seed, epoch=epoch, remainder="drop")
    for together, *parts in zip(whole.batches(), *(each.batches() for each in divided), strict=True):
        assert sorted(together) == sorted(record for part in parts for record in part)


@many
@given(records=sizes, ranks=ranks_, batch=batches_, epoch=epochs, index=st.integers(-200, 200))
def test_it_is_a_sequence(records: int, ranks: int, batch: int, epoch: int, index: int) -> None:
    own = shard(records, batch=batch, rank=ranks - 1, ranks=ranks, epoch=epoch)
    everything = list(own)
    assert [own[place] for place in range(len(own))] == everything
    assert own[2:7:2] == everything[2:7:2]
    if -len(own) <= index < len(own):
        assert own[index] == everything[index]
    else:
        with pytest.raises(IndexError):
            own[index]
    assert list(pickle.loads(pickle.dumps(own))) == everything


def test_epochs_differ_and_are_the_same_again() -> None:
    own = shard(1000, batch=10, rank=0, ranks=2, seed=5)
    first = list(own)
    own.set_epoch(1)
    second = list(own)
    own.set_epoch(0)
    assert list(own) == first != second
    assert list(shard(1000, batch=10, rank=0, ranks=2, seed=6)) != first


def test_a_state_of_other_data_is_refused() -> None:
    state = shard(100, batch=4, rank=0, ranks=2, seed=1).state(3)
    for other in ({"seed": 2}, {"shuffle": False}, {"skip": [7]}, {"remainder": "drop"}):
        with pytest.raises(ValueError, match=f"saved with {next(iter(other))}"):
            shard(100, batch=4, rank=0, ranks=2, **{"seed": 1, **other}).resume(state)
    with pytest.raises(ValueError, match="saved with records"):
        shard(101, batch=4, rank=0, ranks=2, seed=1).resume(state)
    with pytest.raises(ValueError, match="version"):
        shard(100, batch=4, rank=0, ranks=2, seed=1).resume({})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"source": 0, "batch": 1, "rank": 0, "ranks": 1}, "no record is left"),
        ({"source": 3, "batch": 1, "rank": 0, "ranks": 1, "skip": [0, 1, 2]}, "no record is left"),
        ({"source": 3, "batch": 1, "rank": 0, "ranks": 1, "skip": [3]}, "record 3"),
        ({"source": 3, "batch": 0, "rank": 0, "ranks": 1}, "batch"),
        ({"source": 3, "batch": 1, "rank": 2, "ranks": 2}, "rank"),
        ({"source": 3, "batch": 1, "rank": 1}, "both rank and ranks"),
        ({"source": 3, "batch": 1, "rank": 0, "ranks": 1, "remainder": "keep"}, "remainder"),
        ({"source": iter([1]), "batch": 1, "rank": 0, "ranks": 1}, "has no length"),
        ({"source": 3, "batch": 1, "rank": 0, "ranks": 1, "epoch": -1}, "epoch"),
    ],
)
def test_what_cannot_be_divided_is_refused_with_a_reason(how: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shard(how.pop("source"), **how)  # type: ignore[arg-type]


def test_the_rank_comes_from_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    own = keepstep.shard([1] * 100, batch=5)
    assert (own.rank, own.ranks, len(own)) == (2, 4, 25)


def test_it_imports_no_framework_and_no_numpy() -> None:
    code = (
        "import sys, keepstep; s = keepstep.shard(10**9, batch=8, rank=1, ranks=4); s[123456]; next(s.batches());"
        "print([m for m in ('torch', 'tensorflow', 'jax', 'numpy', 'keepstep.check') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
