# SPDX-License-Identifier: Apache-2.0
"""check_data on real tf.data pipelines: each mistake is named, good ones are not, and nothing is left changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import keepstep
from keepstep.model.report import Report
from tests.lazy_framework import lazy_framework

tf = lazy_framework("tensorflow")
pytestmark = pytest.mark.frameworks("tensorflow")


def _rules(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings}


def _good(rank: int = 0, ranks: int = 2) -> Any:
    return tf.data.Dataset.range(64).shard(ranks, rank).shuffle(64, seed=1).batch(4).prefetch(1)


MISTAKES = {
    "shuffle without a seed before shard": (lambda d: d.shuffle(10).shard(2, 0).batch(4).prefetch(1), {"DAT070"}),
    "batch before shard": (lambda d: d.batch(4).shard(2, 0).prefetch(1), {"DAT071"}),
    "shuffle after batch": (lambda d: d.batch(4).shuffle(4, seed=1).prefetch(1), {"NUM060"}),
    "repeat before shuffle": (lambda d: d.repeat(2).shuffle(9, seed=1).batch(4).prefetch(1), {"NUM060"}),
    "cache after shuffle": (lambda d: d.shuffle(9, seed=1).cache().batch(4).prefetch(1), {"NUM060"}),
    "no prefetch": (lambda d: d.shuffle(9, seed=1).batch(4), {"SLO061"}),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_mistake_in_the_graph_is_named(name: str) -> None:
    build, expected = MISTAKES[name]
    assert _rules(keepstep.check_data(build(tf.data.Dataset.range(40)))) == expected


def test_a_good_pipeline_is_healthy() -> None:
    report = keepstep.check_data(_good(), step_s=10.0)
    assert not report.findings and report.exit_status == 0


def test_list_files_shuffles_by_default(tmp_path: Path) -> None:
    for index in range(4):
        (tmp_path / f"part-{index}").write_text("row\n" * 4)
    names = tf.data.Dataset.list_files(str(tmp_path / "part-*"))
    dataset = names.shard(2, 0).interleave(tf.data.TextLineDataset).batch(4).prefetch(1)
    assert _rules(keepstep.check_data(dataset)) == {"DAT070"}


def test_reading_a_sample_leaves_the_order_the_caches_and_the_seeds_alone(tmp_path: Path) -> None:
    def build() -> Any:
        tf.random.set_seed(7)
        dataset = tf.data.Dataset.range(32).shuffle(32, seed=3).cache(str(tmp_path / "cache"))
        return dataset.map(lambda x: x).batch(4).prefetch(1)

    expected = [batch.tolist() for batch in build().as_numpy_iterator()]
    for file in tmp_path.iterdir():
        file.unlink()
    dataset = build()
    before = tf.random.uniform([3]).numpy().tolist()
    tf.random.set_seed(7)
    keepstep.check_data(dataset)
    assert not list(tmp_path.iterdir())
    assert tf.random.uniform([3]).numpy().tolist() == before
    assert [batch.tolist() for batch in dataset.as_numpy_iterator()] == expected


def test_ranks_that_get_the_same_rows_are_named() -> None:
    report = keepstep.check_data(lambda rank, ranks: tf.data.Dataset.range(64).batch(4).prefetch(1), ranks=3)
    found = next(finding for finding in report.findings if finding.rule == "DAT073")
    assert found.ranks == (0, 1, 2) and "in the same order" in found.title


def test_ranks_with_disjoint_rows_are_healthy() -> None:
    assert not keepstep.check_data(_good, ranks=4).findings


def test_seeds_that_differ_between_ranks_are_named() -> None:
    def make(rank: int, ranks: int) -> Any:
        return tf.data.Dataset.range(64).shuffle(64, seed=rank).shard(ranks, rank).batch(4).prefetch(1)

    assert "DAT070" in _rules(keepstep.check_data(make, ranks=2))


def test_a_slow_stage_is_named_as_what_limits_the_input() -> None:
    def slow(x: Any) -> Any:
        return tf.py_function(lambda value: (time.sleep(0.01), value)[1], [x], tf.int64)

    dataset = tf.data.Dataset.range(400).map(slow).map(lambda x: x + 1).batch(4).prefetch(1)
    report = keepstep.check_data(dataset, step_s=0.001, batches=6)
    found = next(finding for finding in report.findings if finding.rule == "SLO060")
    assert "stage map (MapDataset)" in found.because and float(found.title.split()[3]) > 30


def test_batches_of_changing_shapes_are_named() -> None:
    dataset = tf.data.Dataset.range(1, 20).map(lambda x: tf.zeros([x % 3 + 1, 2])).prefetch(1)
    found = next(each for each in keepstep.check_data(dataset).findings if each.rule == "DAT072")
    assert "float32[1,2]" in found.title
    ragged_end = tf.data.Dataset.range(10).batch(4).prefetch(1)
    assert not keepstep.check_data(ragged_end).findings
