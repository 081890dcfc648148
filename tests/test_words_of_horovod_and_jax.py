# SPDX-License-Identifier: Apache-2.0
"""Messages of Horovod, MPI and JAX, each alone in a log, and the cause they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths

TOLD = (
    ("horovodrun does not find an installed MPI.", "env.missing_shared_library"),
    ("bash: horovodrun: command not found", "env.missing_shared_library"),
    ("error: None of TensorFlow, PyTorch, or MXNet plugins were built. See errors "
     "above.", "env.missing_shared_library"),
    ("  ERROR: Failed building wheel for horovod", "env.missing_shared_library"),
    ("mpirun was unable to find the specified executable file, and therefore did not launch the job.",
     "env.missing_shared_library"),
    ("Exception: Security error: digest did not match the message.", "env.version_mismatch_between_nodes"),
    ("Exception: Unable to find a port to bind to.", "network.port_in_use"),
    ("ValueError: Cannot run in fault tolerance mode with fewer than 2 hosts.", "config.cluster_spec"),
    ("mpirun has detected an attempt to run as root.", "config.cluster_spec"),
    ("horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: invalid usage", "config.cluster_spec"),
    ("mxnet.base.MXNetError: src/kvstore/nccl.cc:32: Check failed: e == ncclSuccess (5 vs. 0)", "config.cluster_spec"),
    ("horovod.common.exceptions.HorovodInternalError: No Allreduce operation enabled",
     "framework.unsupported_combination"),
    ("ValueError: cannot broadcast torch.optim.LBFGS state", "framework.unsupported_combination"),
    ("RuntimeError: jaxlib is version 0.3.0, but this version of jax requires version >= 0.4.1.",
     "env.framework_cuda_mismatch"),
    ("jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: Couldn't get ptxas version string: INTERNAL: x",
     "env.framework_cuda_mismatch"),
    ("jaxlib.xla_extension.XlaRuntimeError: INVALID_ARGUMENT: Executable expected parameter 0 of size 8 but got buffer "
     "with incompatible size 16", "data.shape_mismatch"),
    ("ValueError: DATA_LOSS: Error reading \"params/0.0\": Expected 1024 bytes", "checkpoint.corrupt_or_missing"),
    ("flax.errors.ScopeParamNotFoundError: Could not find parameter named \"kernel\" in scope \"/Dense_0\".",
     "checkpoint.mismatch_keys_shapes"),
    ("terminate called after throwing an instance of 'gloo::IoException'\n"
     "  what():  [gloo/transport/tcp/pair.cc:245] bind: "
     "Cannot assign requested address", "config.cluster_spec"),
    ("jax.errors.JaxRuntimeError: INTERNAL: Coordination service has stopped. RecordHeartbeat() from task: "
     "/job:jax_worker/replica:0/task:1 failed.", "network.connection_reset_peer_died"),
    ("XlaRuntimeError: NOT_FOUND: No registered implementation for custom call to \"te_fused\" for platform CUDA",
     "framework.unsupported_combination"),
    ("jaxlib.xla_extension.XlaRuntimeError: INVALID_ARGUMENT: Argument does not match host shape or layout of "
     "computation "
     "parameter 0: want s32[8]{0}, got s32[16]{0}", "data.shape_mismatch"),
    ('>>> jax.distributed.initialize(coordinator_address="localhost:1234", num_processes=2, process_id=1)\n'
     "RuntimeError: UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1234: "
     "Failed to "
     "connect to remote host: Connection refused", "config.localhost_address"),
    ("RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job "
     "to be "
     "terminated. The first process to do so was:\nProcess name: 1\nExit code: 143", "preemption.sigterm"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), TOLD)
def test_a_message_alone_tells_its_cause(tmp_path: Path, text: str, cause: str) -> None:
    (tmp_path / "log.txt").write_text(text + "\n")
    assert explain_paths([tmp_path]).report.findings[0].cause.value == cause


HARMLESS = (
    "W tensorflow/stream_executor/gpu/asm_compiler.cc:63] Internal: Couldn't invoke ptxas --version\nstep 1 loss 0.1",
    "-- Could NOT find NVTX (missing: NVTX_INCLUDE_DIR)",
    "[W socket.cpp:426] The server socket cannot be initialized on [::]:29500 (errno: 97)\n"
    "Cannot assign requested address [::1]",
    "".join(
        f"Compiling convert_element_type with global shapes and types [ShapedArray(int32[{n}])].\n" for n in range(9)
    ),
    "Compiling train_step with global shapes and types [ShapedArray(int32[8])].\n" * 2,
)


@pytest.mark.parametrize("text", HARMLESS)
def test_chatter_of_a_healthy_run_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "log.txt").write_text(text + "\n")
    assert not explain_paths([tmp_path]).report.findings


def test_a_training_step_that_jax_compiles_for_each_length_is_a_storm(tmp_path: Path) -> None:
    lines = (f"Compiling train_step with global shapes and types [ShapedArray(int32[8,{n}])].\n" for n in range(4))
    (tmp_path / "log.txt").write_text("".join(lines))
    assert explain_paths([tmp_path]).report.findings[0].cause.value == "slow.recompilation"
