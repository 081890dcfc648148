# SPDX-License-Identifier: Apache-2.0
"""Functions that are traced again and again."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import Recompiling
from keepstep.parse.tools.programs import recompile as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_retracing_is_read():
    fact = one(
        "WARNING:tensorflow:5 out of the last 9 calls to <function train_step at 0x7f> triggered tf.function retracing.",
        Recompiling,
    )
    assert (fact.count, fact.function) == (5, "train_step")


def test_a_recompile_limit_is_read():
    assert one("torch._dynamo hit config.cache_size_limit (8)", Recompiling).count == 8
    assert one("torch._dynamo hit config.recompile_limit (8)", Recompiling).count == 8


def test_compile_counts_of_torch_xla_are_read_over_a_line_break():
    assert one("Metric: CompileTime\n  TotalSamples: 12", Recompiling).count == 12


@pytest.mark.parametrize("text", ["tf.function is traced", "Compiling model"])
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


def test_each_long_compilation_of_jax_is_read():
    fact = one("WARNING:absl:Finished XLA compilation of pmap(train_step) in 41.2 sec", Recompiling)
    assert (fact.function, fact.seconds) == ("pmap(train_step)", 41.2)
