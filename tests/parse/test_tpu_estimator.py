# SPDX-License-Identifier: Apache-2.0
"""What TPUEstimator says, and what a client and its TPU's host tell each other."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import NotScheduled, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.data import EndOfData, ShapeMismatch
from keepstep.core.facts.environment import UnsupportedCombination, VersionConflict
from keepstep.core.facts.network import ConnectFailed
from keepstep.core.facts.platform import MemberRestarted, TpuInitFailed
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import DeviceMemoryExhausted, DiskFull
from keepstep.core.facts.sync import OutsideScope
from keepstep.core.facts.training import MessageTooLarge, ProgramTooLarge
from keepstep.parse.tools.tensorflow import tpu_estimator as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ValueError: The features to the model returned by input_fn must have static shape. Tensor: T", ShapeMismatch),
        (
            "The tensor with key (a) in TPUEstimatorSpec.predictions has dynamic shape (should be static).",
            ShapeMismatch,
        ),
        (
            "RuntimeError: All tensors outfed from TPU should preserve batch size dimension, but got scalar T",
            ShapeMismatch,
        ),
        ("Output shapes of then and else branches do not match: (f32[8]) vs. (f32[9])", ShapeMismatch),
        ("Expected multiples argument to be a vector of length 3 but got length 2", ShapeMismatch),
        ("Error recorded from infeed: From /job:worker/replica:0/task:0:\nEnd of sequence\n\t [[node a]]", EndOfData),
        ("Error recorded from infeed: End of sequence", EndOfData),
        ("End of sequence\n\t [[Node: input_pipeline_task0/IteratorGetNext = IteratorGetNext[]", EndOfData),
        ("    End of sequence\n    \t [[Node: input_pipeline_task0/IteratorGetNext = IteratorGetNext[]", EndOfData),
        ("TPUEstimator.predict is only supported under three conditions: 1. num_hosts=1;", UnsupportedCombination),
        (
            "NotImplementedError: Operation of type Abs (a/b) is not supported on the TPU for inference.",
            UnsupportedCombination,
        ),
        ("RuntimeError: TPU is already initialized for embeddings. This may be caused by", UnsupportedCombination),
        (
            "Assigned device '/job:worker/replica:0/task:0/device:TPU:0' does not have registered OpKernel support for _Arg",
            UnsupportedCombination,
        ),
        ("in replica context when the metric was not created in TPUStrategy scope. Make sure", OutsideScope),
        ("`tpu_cores` can only be 1, 8 or [<1-8>]", WorldSizeConflict),
        ("KeyError: 'COLAB_TPU_ADDR'", TpuInitFailed),
        ("KeyError: 'TPU_NAME'", TpuInitFailed),
        ("KeyError: 'XRT_SHARD_WORLD_SIZE'", RankVariableMissing),
        (
            "(Invalid argument: No matching devices found for '/job:c_tpu_worker/task:0/device:TPU_SYSTEM:0'",
            TpuInitFailed,
        ),
        ('<HttpError 403 when requesting https://tpu.googleapis.com/v1/projects/x returned "disabled">', TpuInitFailed),
        ("`TPUAccelerator` can not run on your system since the accelerator is not available.", TpuInitFailed),
        ('There is no more capacity in the zone "us-central1-f"; you can try in another zone', NotScheduled),
        ("Quota limit 'TPUV2sPerProjectPerZoneForConsumerAPI' has been exceeded. Limit: 0", NotScheduled),
        ("eval_metrics The transfer size is larger than the protobuf limit. Please consider", MessageTooLarge),
        ("in order to run TensorDataset: Unable to parse tensor proto", MessageTooLarge),
        (
            "InvalidArgumentError: Unable to find the relevant tensor remote_handle: Op ID: 12, Output num: 0",
            MemberRestarted,
        ),
        ("Not found: Resource worker/_AnonymousVar10/N10tensorflow3VarE does not exist.", MemberRestarted),
        (
            "Unexpected PJRT_Plugin_Attributes_Args size: expected 32, got 24. The plugin is likely built with a later version",
            VersionConflict,
        ),
        ("INTERNAL: Unsupported Mosaic version: 3", VersionConflict),
        ("UnimplementedError: unknown service tensorflow.WorkerService", VersionConflict),
        ("grpc_tpu_driver.cc:1070] Failed to open the gRPC driver: 4: Deadline Exceeded:", TpuInitFailed),
        ("ERROR: Not connected to a TPU runtime; please see the previous cell", TpuInitFailed),
        (
            "xrt_computation_client.cc:1403 : Check failed: parsed_device.id <= topology_proto->num_tpu_devices_per_task() (5 vs. 4)",
            TpuInitFailed,
        ),
        (
            "could not find registered transfer manager for platform Host -- check target linkage",
            UnsupportedCombination,
        ),
        ("ERROR: (gcloud.alpha.compute.tpus.tpu-vm.ssh) [/usr/bin/ssh] exited with return code [143].", ProcessExited),
        ("bounds_check.cc:427) allocation_size_words <= std::numeric_limits<int32>::max()", ProgramTooLarge),
        ("RESOURCE_EXHAUSTED: TPU backend error: ResourceExhausted.", DeviceMemoryExhausted),
        ("InternalError: Could not write to the internal temporary file.", DiskFull),
        (
            "AbortedError: All 10 retry attempts failed. The last failure: Unavailable: Error executing an HTTP request: libcurl code 28",
            ConnectFailed,
        ),
        ("UnavailableError: Error executing an HTTP request: HTTP response code 503", ConnectFailed),
    ],
)
def test_a_failure_around_a_tpu_is_read(text: str, kind: type) -> None:
    assert any(isinstance(fact, kind) for fact in facts(text))


def test_the_numbers_of_cores_are_read() -> None:
    (fact,) = facts(
        "TPUConfig.num_cores_per_replica, is larger than the total num of TPU cores in the system. "
        "num_cores_per_replica: 16, num cores in the system: 8"
    )
    assert isinstance(fact, WorldSizeConflict)
    assert (str(fact.expected), str(fact.seen)) == ("16", "8")


@pytest.mark.parametrize(
    "text",
    [
        "ERROR:tensorflow:Operation of type Placeholder (reduced_shape_0) is not supported on the TPU. Execution will fail",
        "INFO:tensorflow:infeed marked as finished",
        "INFO:tensorflow:Error reported to Coordinator: <class 'OutOfRangeError'>, End of sequence",
        "INFO:tensorflow:training_loop marked as finished",
        "The operation failed and will be automatically retried in 1.3 seconds (attempt 1 out of 10), caused by: Unavailable",
        "Error while reading resource variable _AnonymousVar10 from Container: localhost.",
        "TPU_NAME=my-tpu python train.py",
    ],
)
def test_the_chatter_of_a_healthy_run_is_not_a_failure(text: str) -> None:
    assert facts(text) == []
