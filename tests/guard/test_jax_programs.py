# SPDX-License-Identifier: Apache-2.0
"""What is read from the text of a compiled program. Nothing here needs JAX; the texts are XLA's own."""

from __future__ import annotations

from typing import Any

import pytest

from keepstep.guard.adapters.jax import program_text as words
from keepstep.guard.adapters.jax.recompiles import are_of_one, changing

NEW = """\
HloModule jit_update, is_scheduled=true, entry_computation_layout={(f32[4,3]{1,0}, f32[8,4]{1,0}, \
f32[])->(f32[4,3]{1,0}, f32[])}, allow_spmd_sharding_propagation_to_parameters={false,false,false}, num_partitions=2

FileNames
1 "/home/someone/train.py"

%add.clone (x.1: f32[], y.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0)
  %y.1 = f32[] parameter(1)
  ROOT %add.1 = f32[] add(%x.1, %y.1)
}

ENTRY %main.0_spmd (param: f32[4,3], param.2: f32[8,4], param.1: f32[]) -> (f32[4,3], f32[]) {
  %param = f32[4,3]{1,0} parameter(0), sharding={replicated}, metadata={op_name="state[\\'w\\']"}
  %param.1 = f32[] parameter(2), sharding={replicated}, metadata={op_name="rate"}
  %param.2 = f32[8,4]{1,0} parameter(1), sharding={devices=[2,1]<=[2]}, metadata={op_name="xx"}
  %all-reduce.2 = (f32[3,4]{1,0}, f32[]) all-reduce(%dot.1, %multiply_reduce_fusion), channel_id=1, \
replica_groups=mesh['axis_0'=2,'axis_1'=1] {'axis_0'}, use_global_device_ids=true, to_apply=%add.clone, \
metadata={op_name="jit(update)" stack_frame_id=5}
  %get-tuple-element = f32[3,4]{1,0} get-tuple-element(%all-reduce.2), index=0
  ROOT %tuple.2 = (f32[4,3]{1,0}, f32[]) tuple(%copy_subtract_fusion, %wrapped_multiply)
}
"""
OLD = """\
HloModule jit_update, is_scheduled=true, entry_computation_layout={(f32[4,3]{1,0}, f32[8,4]{1,0}, \
f32[])->(f32[4,3]{1,0}, f32[])}, num_partitions=2

%region_0.16.clone (Arg_0.0: f32[], Arg_1.0: f32[]) -> f32[] {
  %Arg_0.0 = f32[] parameter(0), metadata={op_name="jit(update)/jit(main)/reduce_max"}
  %Arg_1.0 = f32[] parameter(1), metadata={op_name="jit(update)/jit(main)/reduce_max"}
  ROOT %maximum.2 = f32[] maximum(f32[] %Arg_0.0, f32[] %Arg_1.0), metadata={op_name="x" source_file="/home/a/t.py" \
source_line=43}
}

ENTRY %main.29_spmd (param: f32[4,3]) -> (f32[4,3], f32[]) {
  %all-reduce.1 = f32[] all-reduce(f32[] %fusion), channel_id=2, replica_groups=[1,2]<=[2], \
use_global_device_ids=true, to_apply=%region_0.16.clone, metadata={op_name="jit(update)/reduce_max" \
source_file="/tmp/probe.py" source_line=43}
  %ag = (f32[8]{0}, f32[16]{0}) all-gather-start(f32[8]{0} %p), channel_id=3, replica_groups={{0,1},{2,3}}, \
dimensions={0}
  %ag.done = f32[16]{0} all-gather-done((f32[8]{0}, f32[16]{0}) %ag)
  ROOT %cp = f32[16]{0} collective-permute(f32[16]{0} %ag.done), channel_id=4, source_target_pairs={{0,1},{1,0}}, \
metadata={op_name="y"}
}
"""


def test_arguments_outputs_and_names_are_read() -> None:
    module = words.read_module(NEW)
    assert module.ins == ["f32[4,3]", "f32[8,4]", "f32[]"]
    assert module.outs == ["f32[4,3]", "f32[]"]
    assert module.names == {0: "state['w']", 1: "xx", 2: "rate"}


def test_collectives_are_told_with_operation_shape_and_group() -> None:
    assert words.read_module(NEW).collectives == [
        "all-reduce add (f32[3,4], f32[]) over mesh['axis_0'=2,'axis_1'=1] {'axis_0'}"
    ]
    assert words.read_module(OLD).collectives == [
        "all-reduce maximum f32[] over [1,2]<=[2]",
        "all-gather (f32[8], f32[16]) over {{0,1},{2,3}}",
        "collective-permute f32[16] over {{0,1},{1,0}}",
    ]


def test_the_gradients_of_many_layers_in_one_collective_are_seen() -> None:
    """XLA counts in comments where it sums more than five at once, as for every model but the smallest."""
    kinds = [f"f32[{size}]{{0}}" for size in range(1, 9)]
    long = ", ".join(
        f"/*index={number}*/{kind}" if number and number % 5 == 0 else kind for number, kind in enumerate(kinds)
    )
    text = NEW.replace("(f32[3,4]{1,0}, f32[]) all-reduce(", f"({long}) all-reduce(")
    assert words.read_module(text).collectives == [
        "all-reduce add (f32[1], f32[2], f32[3], f32[4], f32[5], f32[6], f32[7], f32[8]) "
        "over mesh['axis_0'=2,'axis_1'=1] {'axis_0'}"
    ]


@pytest.mark.parametrize(
    "change", [lambda t: t.replace("/home/someone", "/data/other"), lambda t: t.replace("%add.clone", "%add.77")]
)
def test_paths_and_names_of_instructions_do_not_count(change: Any) -> None:
    assert words.read_module(change(NEW)) == words.read_module(NEW)


@pytest.mark.parametrize(
    ("ins", "outs", "size"),
    [
        (["f32[4,3]", "f32[8,4]"], ["f32[4,3]", "f32[]"], 12),
        (["f32[4,3]", "f32[8,4]"], ["f32[]"], 0),
        (["f32[4,3]", "f32[8,4]"], ["f32[8,3]"], 0),
        (["f32[4,3]", "f32[4,3]"], ["f32[4,3]", "f32[4,3]"], 24),
        ([], [], 0),
    ],
)
def test_a_training_step_gives_back_most_of_what_it_takes(ins: list[str], outs: list[str], size: int) -> None:
    assert words.Module(ins=ins, outs=outs).carried_size == size


def test_the_batch_is_stated_before_the_weights() -> None:
    module = words.read_module(NEW)
    stated = words.stated(module, [("state['w']", "float32[4,3]"), ("xx", "float32[16,4]"), ("rate", "float")], [0, 1])
    assert list(stated)[:3] == ["argument xx", "argument rate", "state state['w']"]
    assert stated["devices"] == "2: 0, 1"
    assert stated["collectives"] == "1"


def test_a_large_program_is_stated_within_bounds_and_no_difference_is_lost() -> None:
    module = words.Module(collectives=[f"all-reduce add f32[{n}]" for n in range(500)])
    arguments = [(f"p{n}", f"float32[{n}]") for n in range(2000)]
    stated = words.stated(module, arguments, range(64))
    assert len(stated) < 400
    other = words.stated(
        words.Module(collectives=[*module.collectives[:-1], "all-gather f32[1]"]),
        [*arguments[:-1], ("p1999", "float16[1999]")],
        range(64),
    )
    assert {name for name in stated if stated[name] != other[name]} == {"all 2000 arguments", "all collectives"}


def test_hostile_text_is_read_in_bounded_time() -> None:
    assert words.read_module("%a = " + "f32[" * 200_000).collectives == []
    assert words.read_module("HloModule x, entry_computation_layout={(" + "(" * 100_000).ins == []
    assert words.read_module("").carried_size == 0


def test_names_of_executables_are_made_plain() -> None:
    assert words.plain_name("jit(update)") == "update"
    assert words.plain_name("jit(<lambda>)") == "<lambda>"
    assert words.plain_name("parallel computation") == "parallel computation"


def test_operations_are_counted_and_the_whole_is_hashed() -> None:
    one = words.lowered_words("%0 = stablehlo.tanh %a : tensor<f32>\n%1 = stablehlo.add %0, %a")
    other = words.lowered_words("%0 = stablehlo.cosine %a : tensor<f32>\n%1 = stablehlo.add %0, %a")
    assert {name for name in {**one, **other} if one.get(name) != other.get(name)} == {
        "operation tanh",
        "operation cosine",
        "the whole text",
    }
    assert one["the whole text"] != other["the whole text"]


def test_the_argument_that_keeps_changing_is_named_with_its_values() -> None:
    versions = [{"x": f"float32[{n},8]", "w": "float32[8,8]"} for n in range(5)]
    assert changing(versions) == "argument x was float32[2,8], then float32[3,8], then float32[4,8]"
    assert changing([{"x": "float32[8]"}] * 5) is None


def test_functions_that_only_share_a_name_are_no_storm() -> None:
    """JAX's own pmap_test has ten functions, and JAX calls the inside of every pmap ``_fun``."""
    assert are_of_one([{"x": f"float32[{size}, 8]", "n": "int32[]"} for size in (4, 5, 6)])
    assert are_of_one([{"x": "float32[4]"}] * 3)
    assert not are_of_one([{"x": "float32[4]"}, {"x": "int32[4]"}])
    assert not are_of_one([{"x": "float32[4]"}, {"x": "float32[4, 1]"}])
    assert not are_of_one([{"x": "float32[4]"}, {"x": "float32[]"}])
    assert not are_of_one([{"x": "float32[4]"}, {"x": "float32[4]", "y": "float32[4]"}])
