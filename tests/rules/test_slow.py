# SPDX-License-Identifier: Apache-2.0
"""Runs that are slow."""

from __future__ import annotations

import pytest

from keepstep.model.finding import Severity
from tests.rules.explained import causes, findings

STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))

RETRACED = (
    "WARNING:tensorflow:{n} out of the last {n} calls to <function step at 0x7f> "
    "triggered tf.function retracing. Tracing is\n"
)


def test_a_storm_of_retracing_is_a_warning(tmp_path):
    text = "".join(RETRACED.format(n=n) for n in range(5, 10)) + STEPS
    assert [(f.cause.value, f.severity) for f in findings(tmp_path, rank0=text)] == [
        ("slow.recompilation", Severity.WARNING)
    ]


@pytest.mark.parametrize("times", [1, 2])
def test_a_few_traces_give_nothing(tmp_path, times):
    assert findings(tmp_path, rank0=RETRACED.format(n=5) * times + STEPS) == ()


def test_a_profiler_that_says_so_once_is_enough(tmp_path):
    text = (
        STEPS
        + "Your program is HIGHLY input-bound because 67.1% of the total step time sampled is waiting for input.\n"
    )
    assert causes(tmp_path, rank0=text) == ["slow.input_bound"]


TIMED = (
    "2024-05-01 10:00:0{n} - mmdet - INFO - Epoch [1][5{n}/7330] lr: 1.9e-03, "
    "time: 0.80, data_time: {data}, loss: 1.2\n"
)


def test_a_rank_that_waits_for_data_while_the_others_wait_for_it_is_named(tmp_path):
    fast, slow = ("".join(TIMED.format(n=n, data=data) for n in range(10)) for data in (0.01, 0.7))
    found = findings(tmp_path, rank0=fast, rank1=slow, rank2=fast)
    assert [(each.cause.value, each.ranks) for each in found] == [("slow.input_bound", (1,))]


def test_steps_that_mostly_wait_for_data_are_told(tmp_path):
    assert causes(tmp_path, rank0="".join(TIMED.format(n=n, data=0.6) for n in range(10))) == ["slow.input_bound"]


def test_a_first_step_that_waits_gives_nothing(tmp_path):
    assert findings(tmp_path, rank0="".join(TIMED.format(n=n, data=0.01 if n else 0.7) for n in range(10))) == ()


@pytest.mark.parametrize(("rate", "expected"), [(68.1, ["slow.network_bound"]), (640.1, [])])
def test_a_benchmark_that_collapses_over_more_devices_is_network_bound(tmp_path, rate, expected):
    text = f"Total img/sec on 2 GPU(s): 342.8 +-1.8\nTotal img/sec on 4 GPU(s): {rate} +-0.9\n"
    assert causes(tmp_path, rank0=text) == expected


def test_a_count_of_compilations_that_explodes_is_told(tmp_path):
    text = "".join(f"Metric: CompileTime\n  TotalSamples: {n}\n  Accumulator: 08s\n" for n in (4, 500))
    assert causes(tmp_path, rank0=text) == ["slow.recompilation"]


def test_a_loader_that_gave_up_waiting_is_the_cause_of_the_end(tmp_path):
    text = (
        'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in <module>\n    for batch in loader:\n'
        "RuntimeError: DataLoader timed out after 300 seconds\n"
    )
    found = findings(tmp_path, run=STEPS + text)
    assert found[0].cause.value == "slow.input_bound"
    assert "300 seconds" in found[0].title


def test_a_few_long_waits_weigh_as_much_as_many_short_ones(tmp_path):
    waits = [(0.15, 0.0), (67.6, 67.5), (0.16, 0.0), (3.06, 2.99), (0.15, 0.0), (15.2, 15.1)]
    text = "".join(
        f"Epoch: [0][{n + 14}/5005]\tTime {t:.3f} (8.0)\tData {d:.3f} (7.7)\n" for n, (t, d) in enumerate(waits)
    )
    assert causes(tmp_path, rank0=text) == ["slow.input_bound"]


@pytest.mark.parametrize(("slow", "expected"), [(101.7, [("slow.straggler", (2,))]), (355.0, [])])
def test_a_rank_that_is_behind_in_every_step_is_a_straggler(tmp_path, slow, expected):
    text = "".join(
        f"[{rank}]<stdout>:step {step} images/sec: {slow if rank == 2 else 365.0 + rank}\n"
        for step in (1200, 1300, 1400)
        for rank in range(4)
    )
    assert [(f.cause.value, f.ranks) for f in findings(tmp_path, run=text)] == expected


def test_a_rank_that_is_late_only_once_is_no_straggler(tmp_path):
    text = "".join(
        f"[{rank}]<stdout>:step {step} images/sec: {101.0 if rank == 2 and step == 10 else 365.0}\n"
        for step in (10, 20, 30, 40)
        for rank in range(4)
    )
    assert findings(tmp_path, run=text) == ()


def test_a_detector_names_the_slow_rank(tmp_path):
    text = "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [5]\n"
    assert findings(tmp_path, run=STEPS + text)[0].ranks == (5,)


@pytest.mark.parametrize(("after", "expected"), [("520ms", ["slow.network_bound"]), ("31ms", [])])
def test_steps_that_get_much_longer_over_more_workers_wait_for_the_network(tmp_path, after, expected):
    text = (
        "60/60 [==============================] - 2s 31ms/step - loss: 2.28\n"
        "INFO:tensorflow:MultiWorkerMirroredStrategy with cluster_spec = {}, num_workers = 2, local_devices = ()\n"
        f"60/60 [==============================] - 31s {after}/step - loss: 2.29\n"
    )
    assert causes(tmp_path, rank0=text) == expected


def test_gradients_that_take_most_of_a_step_are_told(tmp_path):
    text = "time (ms) | forward: 121.10 | backward: 3120.33 | backward_allreduce: 2799.91 | step: 12.01\n" * 3
    assert causes(tmp_path, rank0=text) == ["slow.network_bound"]


def test_a_function_compiled_at_every_step_is_told(tmp_path):
    line = "WARNING:absl:Finished XLA compilation of pmap(train_step) in 41.2 sec\nstep {n} loss {n}.31 time 43.9s\n"
    assert causes(tmp_path, rank0="".join(line.format(n=n) for n in range(4))) == ["slow.recompilation"]


def test_functions_compiled_once_on_each_rank_give_nothing(tmp_path):
    line = "WARNING:absl:Finished XLA compilation of pmap(train_step) in 41.2 sec\n" + STEPS
    assert findings(tmp_path, rank0=line, rank1=line, rank2=line) == ()


def test_a_refusal_to_compile_once_more_ends_the_run(tmp_path):
    text = (
        'Traceback (most recent call last):\n  File "/srv/torch/_dynamo/convert_frame.py", line 981, in _compile\n'
        "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with one_graph=True.\n"
    )
    root = findings(tmp_path, run=text)[0]
    assert (root.cause.value, root.severity) == ("slow.recompilation", Severity.FATAL)


MISS = "jax._src.interpreters.partial_eval WARNING: TRACING CACHE MISS at /srv/app/train.py:{line}:24 (main):\n"


def test_the_first_trace_of_each_place_on_each_rank_gives_nothing(tmp_path):
    once = "".join(MISS.format(line=line) for line in (53, 64, 71, 80))
    assert causes(tmp_path, rank0=once, rank1=once) == []


def test_one_place_that_is_traced_again_and_again_is_told(tmp_path):
    assert causes(tmp_path, rank0=MISS.format(line=53) * 4) == ["slow.recompilation"]


def test_a_compilation_that_two_loggers_tell_of_happened_once(tmp_path):
    line = "jax._src.dispatch DEBUG: Finished XLA compilation of jit(_normal) in {} sec\n"
    assert causes(tmp_path, rank0=line.format(4.1) * 2 + line.format(10.8) * 2) == []
