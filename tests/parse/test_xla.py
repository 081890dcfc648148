# SPDX-License-Identifier: Apache-2.0
"""Limits that device compilers name, and XLA's rendezvous."""

from __future__ import annotations

import pytest

from keepstep.core.facts.data import DtypeMismatch
from keepstep.core.facts.environment import InternalFault, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.sync import CollectiveMismatch, CollectiveTimeout, RanksMissing
from keepstep.core.facts.training import ProgramTooLarge
from keepstep.parse.tools.xla import programs as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    "text",
    [
        "Invalid argument: Computation requires more parameters (787) than supported (limit 236).",
        "Ran out of memory in memory space vmem. Used 59.79M of 16.00M vmem. Exceeded vmem capacity by 43.79M.",
        "Ran out of memory in memory space smem. Used 1.00M of 1.00M smem. Exceeded smem capacity by 1.7K.",
        "BirCodeGenLoop: Compiler generated too many instructions (6888787).",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 262144, Hardware limit: 232448",
        "ptxas error   : Entry function 'k' uses too much shared data (0x14000 bytes, 0xc000 max)",
    ],
)
def test_a_refused_program_is_read(text):
    assert one(text, ProgramTooLarge).what


def test_a_rendezvous_that_ended_the_program_is_a_timed_out_collective():
    fact = one(
        "Termination timeout for `initialize clique for rank 0; clique=devices=[0,1]; stream=0` of 30 seconds exceeded. Exiting",
        CollectiveTimeout,
    )
    assert (fact.op, fact.timeout_ms) == ("initialize clique for rank 0", 30_000)


def test_a_rendezvous_that_waits_is_not_final():
    fact = one(
        "This thread has been waiting for `initialize clique for rank 6; clique=devices=[0,1]` for 10 seconds and may be stuck.",
        RanksMissing,
    )
    assert (fact.waited_s, fact.final) == (10.0, False)


@pytest.mark.parametrize(
    "text", ["Ran out of memory in memory space hbm. Used 8.41G of 8.00G hbm.", "ptxas info : Used 32 registers"]
)
def test_other_lines_are_no_limits(text):
    assert not any(isinstance(fact, ProgramTooLarge) for fact in facts(text))


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: Mosaic failed to compile TPU kernel: Not Implemented: The last dim size is not 128",
        "Compilation failure: Detected unsupported operations when trying to compile graph c[] on XLA_TPU_JIT: Where",
        "INVALID_ARGUMENT: Squeeze op does not support bounded dynamic dimension. Input shape: <=1,128,128,1",
        "Compilation failure: Dynamic shape is not supported for non trivial window",
        "Compilation failure: Asked to propagate a dynamic dimension from hlo %convert.283",
        "Input 1 to node `x/Reshape` with op Reshape must be a compile-time constant.",
        "No registered 'DecodeJpeg' OpKernel for 'TPU' devices compatible with node",
        "INFO:tensorflow:Error recorded from infeed: No registered 'PyFunc' OpKernel for CPU devices compatible with node {{node PyFunc}}",
        "XlaRuntimeError: UNIMPLEMENTED: bitcast-convert between these types",
    ],
)
def test_what_a_compiled_program_may_not_hold_is_read(text):
    assert one(text, UnsupportedCombination).what


@pytest.mark.parametrize(
    "text",
    [
        "InvalidArgumentError: Unsupported data type for TPU: string, caused by output Pad_1:0",
        "TypeError: <dtype: 'string'> is not a supported TPU infeed type. Supported types are: [tf.float32]",
    ],
)
def test_types_that_a_tpu_cannot_hold_are_read(text):
    assert "string" in one(text, DtypeMismatch).left


def test_a_collective_library_that_is_absent_is_read():
    text = (
        "NCCL operation ncclGetUniqueId(&id) failed: Unable to load NCCL library. Multi-GPU collectives will not work."
    )
    assert one(text, LibraryMissing).name == "NCCL"


@pytest.mark.parametrize(
    "text",
    [
        "XlaRuntimeError: INTERNAL: Failed to execute XLA Runtime executable: custom call 'xla.gpu.graph.launch' failed: x",
        "XlaRuntimeError: INTERNAL: RET_CHECK failure (external/xla/xla/service/spmd/spmd_partitioner.cc:1) false",
        "RuntimeError: Internal: Unexpected shape kind for %after-all.3 = token[] after-all() and shape index {}",
        "XlaRuntimeError: INVALID_ARGUMENT: All buffers must have the same element type and count: while running replica 0",
        "Operand 0 of instruction all-reduce already has a layout constraint f32[3]{0}, cannot add incompatible constraint f32[3]{1}",
    ],
)
def test_a_fault_of_xla_itself_is_read(text):
    assert one(text, InternalFault).what


@pytest.mark.parametrize(
    "text",
    [
        "XlaRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled cuda error.",
        "XlaRuntimeError: INTERNAL: Generated function failed: CpuCallback error: ValueError: bad",
        "XlaRuntimeError: INTERNAL: Core halted unexpectedly",
        "RuntimeError: Internal: From /job:tpu_worker/replica:0/task:0:",
        "XlaRuntimeError: INTERNAL: ptxas exited with non-zero error code 65280, output: fatal : Unsupported .version 7.4",
    ],
)
def test_an_internal_error_with_a_reason_is_not_called_a_fault_of_xla(text):
    assert not any(isinstance(fact, InternalFault) for fact in facts(text))


def test_programs_that_differ_between_hosts_are_read():
    assert one("an unexpected peer shows up in the launch group with a different launch id than", CollectiveMismatch)


@pytest.mark.parametrize("times", [1, 20, 500])
def test_a_lost_peer_behind_many_steps_that_were_handed_over_is_no_fault_of_the_framework(times: int) -> None:
    """XLA says it once for every step that waited for the one that failed."""
    why = "Gloo all-reduce failed: [external/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:6561: Connection reset by peer"
    text = f"jax.errors.JaxRuntimeError: INTERNAL: {'Error dispatching computation: ' * times}{why}\n"
    assert not any(isinstance(fact, InternalFault) for fact in facts(text))
    other = (
        f"jax.errors.JaxRuntimeError: INTERNAL: {'Error dispatching computation: ' * times}Buffer was never defined\n"
    )
    assert one(other, InternalFault).what == "Buffer was never defined"
