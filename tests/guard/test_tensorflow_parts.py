# SPDX-License-Identifier: Apache-2.0
"""Parts of the TensorFlow adapter that need no process of their own."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from keepstep.guard.adapters.tensorflow.counts import EpochCounts
from keepstep.guard.adapters.tensorflow.exchange import ConfigKeys
from keepstep.guard.adapters.tensorflow.graphs import GraphContent, arguments, contract, read_graph, tensor_words
from keepstep.guard.adapters.tensorflow.pace import late_rank
from keepstep.guard.adapters.tensorflow.traced_functions import Traced
from tests.lazy_framework import lazy_framework


class DeadlineExceededError(Exception):
    """As TensorFlow names it."""


class Service:
    """Stands in for TensorFlow's context: what the real service answered in trials with 2.18 and 2.21."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.there = threading.Condition()

    def set_config_key_value(self, key: str, value: str) -> None:
        if key in self.kept:
            raise ValueError(f"Config key {key} already exists.")
        with self.there:
            self.kept[key] = value
            self.there.notify_all()

    def delete_config_key_value(self, key: str) -> None:
        self.kept.pop(key, None)


class NewService(Service):
    def get_config_key_value(self, key: str, timeout_in_ms: int = 0) -> str:
        if key not in self.kept:
            raise DeadlineExceededError(f"GetKeyValue() timed out with key: {key} and duration: {timeout_in_ms}ms")
        return self.kept[key]


class OldService(Service):
    def get_config_key_value(self, key: str) -> str:
        with self.there:
            self.there.wait_for(lambda: key in self.kept)
        return self.kept[key]


@pytest.mark.parametrize("service", [NewService(), OldService()])
def test_a_key_is_absent_then_there_and_can_be_replaced(service: Any) -> None:
    keys = ConfigKeys(service)
    assert keys.get("a/r0") is None
    keys.put("a/r0", "one")
    found = None
    while found is None:
        found = keys.get("a/r0")
    assert found == "one"
    keys.put("a/r0", "two")
    assert keys.get("a/r0") == "two"


def test_an_error_of_the_service_is_an_error() -> None:
    service = NewService()
    service.get_config_key_value = lambda key, timeout_in_ms=0: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(ZeroDivisionError):
        ConfigKeys(service).get("a")


def test_tracing_becomes_a_storm_only_when_it_goes_on_step_after_step() -> None:
    few = Traced()
    assert all(few.again(0, {"x": f"float32[{n}]"}, 0.1) is None for n in range(20))  # before the first step
    now_and_then = Traced()
    assert all(now_and_then.again(40 * n, {"x": f"float32[{n}]"}, 0.1) is None for n in range(1, 20))
    storm = Traced()
    told = [found for n in range(1, 30) if (found := storm.again(n, {"x": "float32[8]", "rate": str(n)}, 0.25))]
    assert [found["count"] for found in told] == [5, 20]
    assert told[0]["reason"] == "argument rate keeps changing: 1, 2, 3, 4, 5"
    assert told[0]["seconds"] == 0.25 and told[0]["storm"]


def test_functions_made_anew_each_time_are_told_as_that() -> None:
    storm = Traced()
    told = [found for n in range(1, 9) if (found := storm.again(n, {"x": "float32[8]"}, 0.1))]
    assert told[0]["reason"] == "its arguments do not change: a new tf.function is made each time"


def test_a_contract_lists_collectives_and_cuts_a_long_list_alike_on_all_ranks() -> None:
    few = contract(GraphContent(["all-reduce (add) of float32[8] over 2"]), "train_step")
    assert few == {
        "next": "function with 1 collective named train_step",
        "collective 1": "all-reduce (add) of float32[8] over 2",
    }
    many, other = (
        GraphContent([f"all-reduce of float32[{n}]" for n in range(1000)]),
        GraphContent([f"all-reduce of float32[{n}]" for n in range(999)]),
    )
    assert len(contract(many, "f")) < 400
    assert (
        contract(many, "f")["all collectives"]
        != contract(GraphContent([*other.collectives, "broadcast"]), "f")["all collectives"]
    )


def test_shapes_and_arguments_in_words() -> None:
    assert tensor_words(SimpleNamespace(name="float32"), None) == "float32[...]"
    tensor = "TensorSpec(shape=(8, 4), dtype=tf.float32, name=None)"
    spec = f"DistributedIteratorSpec((PerReplicaSpec({tensor}), 139712107540240)"
    parameters = {
        "x": spec,
        "rate": "Literal[0.1]",
        "y": "TensorSpec(shape=(), dtype=tf.int64, name=None)",
        "self": "Any",
    }
    function = SimpleNamespace(function_type=SimpleNamespace(parameters=parameters))
    assert arguments(function) == {"x": "float32[8,4]", "rate": "0.1", "y": "int64[]"}
    assert arguments(function, rows=False)["x"] == "float32[?,4]"


def test_epochs_count_only_steps_that_were_taken() -> None:
    shares = EpochCounts()
    shares.end_epoch()
    shares.steps = 4
    shares.end_epoch()
    shares.end_epoch()
    assert shares.ended == [4] and shares.in_epoch == 0


def test_the_late_rank_is_the_one_that_is_on_its_own_while_all_others_wait() -> None:
    waiting, working = {"own": 0.001, "step": 0.1}, {"own": 0.09, "step": 0.1}
    assert late_rank({0: waiting, 1: working, 2: waiting}, 3) == 1
    assert late_rank({0: waiting, 1: working}, 3) is None  # not all have reported
    assert (
        late_rank({0: waiting, 1: {**working, "ready": 0.9, "crowding": 10.0}}, 2) is None
    )  # it only lacks processor time
    assert late_rank({0: waiting, 1: {**working, "ready": 0.1, "crowding": 10.0}}, 2) == 1
    assert late_rank({0: working, 1: working}, 2) is None  # no rank waits
    assert late_rank({0: waiting, 1: waiting}, 2) is None
    assert (
        late_rank({0: {"own": 0.0001, "step": 0.003}, 1: {"own": 0.002, "step": 0.003}}, 2) is None
    )  # too little to tell


@pytest.mark.frameworks
def test_the_collectives_of_a_graph_are_read_through_loops_and_inner_functions() -> None:
    tf = lazy_framework("tensorflow")
    ops = tf.raw_ops
    weight = tf.Variable([1.0, 2.0])

    def reduce(x: Any) -> Any:
        return ops.CollectiveReduce(
            input=x, group_size=2, group_key=1, instance_key=1, merge_op="Add", final_op="Div", subdiv_offsets=[0]
        )

    @tf.function
    def inner(x: Any) -> Any:
        return reduce(x)

    @tf.function
    def train_step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * x)
        for _ in tf.range(2):
            x = reduce(tf.cast(x, tf.float64))
            x = tf.cast(x, tf.float32)
        weight.assign_sub(tape.gradient(loss, weight))
        return inner(x)

    graph = train_step.get_concrete_function(tf.TensorSpec([2], tf.float32)).graph
    seen = read_graph(graph, tf.get_static_value)
    assert seen.collectives == [
        "all-reduce (add, div) of float64[2] over 2",
        "all-reduce (add, div) of float32[2] over 2",
    ]
    assert seen.trains and seen.whole
    alone = read_graph(
        tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec([2])).graph, tf.get_static_value
    )
    assert not alone.collectives and not alone.trains
