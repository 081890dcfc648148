# SPDX-License-Identifier: Apache-2.0
"""Hashes of batches go from guard to guard, bounded in size and time; the data itself is left as it is."""

from __future__ import annotations

import gc
import json
import time
import weakref
from pathlib import Path

import pytest

from keepstep.guard.batches.batch_hashes import BETWEEN, PIECE, PIECES, Fed, content_of, digest_of
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.session import Session
from tests.guard.test_contracts import guard_of

numpy = pytest.importorskip("numpy")


@pytest.fixture
def three(tmp_path: Path) -> list[Session]:
    guards = [guard_of(rank, 3, tmp_path) for rank in range(3)]
    for guard in guards:
        guard.use_exchange(SharedFolder(tmp_path / "exchange"))
    return guards


def feed(guard: Session, seed: int, batches: int = 4) -> Fed:
    fed, source = Fed(guard), numpy.random.default_rng(seed)
    for number in range(1, batches + 1):
        name = fed.wants(1, number)
        assert name == f"batch {number}"
        fed.see(name, 1, number, {"x": source.normal(size=(4, 3)), "y": source.integers(9, size=4)})
        fed.stepped(data_parallel=True)
    return fed


def told(folder: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for path in folder.rglob("*.notes.jsonl") for line in path.read_text().splitlines()]
    return [line["fields"] for line in lines if line["fact"] == "RanksFedAlike"]


def test_rank_0_says_once_who_is_fed_the_same(
    three: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    three[0].open()
    for guard, seed in zip(three, (5, 6, 5), strict=True):
        feed(guard, seed)
    for guard in reversed(three):
        guard.fed_alike.look()
    three[0].fed_alike.look()
    said = capsys.readouterr().err
    assert said.count("ranks 0 and 2 are fed the same records: the first 4 batches of these ranks have the same") == 1
    for guard in three:
        guard.close()
    assert [(each["ranks"], each["step"]) for each in told(tmp_path)] == [([0, 2], 0)]


def test_where_the_groups_are_not_known_nothing_is_said_or_sent(
    three: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for guard in three:
        fed = Fed(guard)
        fed.see("batch 1", 1, 1, numpy.arange(4))
        fed.stepped(data_parallel=False)
        guard.fed_alike.look()
    assert not capsys.readouterr().err
    assert not list((tmp_path / "exchange").glob("*fed*"))


def test_an_exchange_that_is_gone_ends_the_comparison_without_a_word(
    three: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(three[0], 5)

    class Gone:
        name, overwrites = "gone", True

        def put(self, key: str, value: str) -> None:
            raise ConnectionError("the first rank has left")

        def get(self, key: str) -> str | None:
            raise ConnectionError("the first rank has left")

    three[0]._exchange = Gone()
    three[0].fed_alike.look()
    three[0].fed_alike.look()
    assert "keepstep" not in capsys.readouterr().err


def test_a_few_batches_are_hashed_and_no_more(three: list[Session]) -> None:
    guard, fed = three[0], Fed(three[0])
    names = []
    for step in range(2000):
        guard.steps = step
        name = fed.wants(1 + step // 500, 1 + step % 500)
        names += [name] if name else []
    first = [f"batch {number}" for number in range(1, 5)]
    assert names[:4] == first
    assert set(names[4:]) == {f"step {BETWEEN * 2**n}" for n in range(6)} | {f"epoch {n}" for n in (2, 3, 4)}


def test_a_hash_reads_a_bounded_part_from_all_over_and_keeps_nothing() -> None:
    large = numpy.zeros((64, 3, 224, 224), "float32")
    content = content_of(large)
    assert content is not None and len(content) <= PIECES * PIECE
    for place in ((0, 0, 0, 0), (-1, -1, -1, -1)):
        other = large.copy()
        other[place] = 1.0
        assert content_of(other) != content
    turned = large.transpose(0, 2, 3, 1)
    found = content_of(turned)
    assert found is not None and len(found) <= 2 * PIECES * PIECE
    alive = weakref.ref(large)
    del large, turned, other
    gc.collect()
    assert alive() is None
    assert digest_of({"text": numpy.array([b"one", b"two"], object)}) is not None
    assert digest_of({"any": numpy.array([{}, {}], object)}) is None


def test_a_large_batch_costs_less_than_a_few_milliseconds() -> None:
    batch = (numpy.zeros((256, 3, 224, 224), "float32"), numpy.zeros(256, "int64"))
    took = []
    for _ in range(5):
        began = time.thread_time()
        assert digest_of(batch) is not None
        took.append(time.thread_time() - began)
    assert min(took) < 0.005
