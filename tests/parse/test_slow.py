# SPDX-License-Identifier: Apache-2.0
"""Words on slowness."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import Slowness, Throughput
from keepstep.parse import slow as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_every_pattern_compiles() -> None:
    assert all(each.pattern for each in table.SIGNATURES)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "Your program is HIGHLY input-bound because 67.1% of the total step time sampled is waiting for input.",
            "input",
        ),
        ("Your program is MODERATELY input-bound because 12.0% of the total step time sampled is waiting", "input"),
        ("STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [3]", "straggler"),
    ],
)
def test_what_is_slow_is_read(text, what):
    assert one(text, Slowness).what == what


def test_a_benchmark_tells_its_rate_and_devices():
    fact = one("Total img/sec on 4 GPU(s): 68.1 +-0.9", Throughput)
    assert (fact.rate, fact.devices) == (68.1, 4)


@pytest.mark.parametrize(
    "text",
    [
        "Your program is NOT input-bound because only 1.2% of the total step time sampled is waiting for input.",
        "✓ No stragglers detected.",
        "100\timages/sec: 300.18 +/- 0.1 (jitter = 0.6)",
        "# Avg bus bandwidth    : 187.2",
        "|  get_train_batch  |  0.002  |  100  |  0.2  |  1.31  |",
        "started worker 3 on a host with 4 GPUs",
    ],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []
