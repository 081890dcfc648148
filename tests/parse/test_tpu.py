# SPDX-License-Identifier: Apache-2.0
"""What libtpu, the TPU runtime and Cloud TPU say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.platform import Preempted, TpuBusy, TpuInitFailed, TpuUnhealthy
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.parse.tools.tpu import runtime as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "requested", "capacity"),
    [
        (
            "Compilation failure: Ran out of memory in memory space hbm. Used 8.41G of 8.00G hbm. Exceeded",
            "8.41G",
            "8.00G",
        ),
        (
            "XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 63.80G of 30.75G hbm.",
            "63.80G",
            "30.75G",
        ),
        (
            "RESOURCE_EXHAUSTED: Attempting to reserve 10.71G at the bottom of memory. That was not possible.",
            "10.71G",
            None,
        ),
        (
            "RESOURCE_EXHAUSTED: Attempting to allocate 1.50G. That was not possible. There are 512.00M free.",
            "1.50G",
            None,
        ),
        (
            "Aborting compilation early because it's unlikely to have enough device memory. Requires 3.47E, has 14.49G available.",
            "3.47E",
            "14.49G",
        ),
    ],
)
def test_an_exhausted_hbm_is_read(text, requested, capacity):
    fact = one(text, DeviceMemoryExhausted)
    assert (fact.kind, fact.requested, fact.capacity) == ("tpu", requested, capacity)


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        ("ABORTED: The TPU is already in use by process with pid 48211. Not attempting to load libtpu.so", 48211),
        ("libtpu.so already in use by another process probably owned by another user.", None),
        ("TPU initialization failed: open(/dev/vfio/1): Device or resource busy: Device or resource busy", None),
        ('Internal error when accessing libtpu multi-process lockfile. Run "$ sudo rm /tmp/libtpu_lockfile".', None),
    ],
)
def test_a_held_tpu_is_read(text, pid):
    assert one(text, TpuBusy).pid == pid


@pytest.mark.parametrize(
    "text",
    [
        "UNKNOWN: TPU initialization failed: No ba16c7433 device found.",
        "Failed to initialize TPU system with error: FAILED_PRECONDITION",
        "RuntimeError: Unable to initialize backend 'tpu': DEADLINE_EXCEEDED: Failed to establish SliceBuilder grpc channel",
        "Unable to initialize backend 'tpu': UNAVAILABLE: no TPU (set JAX_PLATFORMS='' to automatically choose a backend)",
        "Invalid --2a886c8_slice_builder_worker_addresses specified. Expected 4 worker addresses, got 1.",
        "pytorch_lightning.utilities.exceptions.MisconfigurationException: No TPU devices were found.",
        "FailedPreconditionError: The TPU system has not been initialized.",
        "NotFoundError: TPUs not found in the cluster. Failed in initialization: No OpKernel was registered",
        "InvalidArgumentError: No OpKernel was registered to support Op 'ConfigureDistributedTPU' used by {{node C}}",
    ],
)
def test_a_failed_set_up_is_read(text):
    assert one(text, TpuInitFailed).what


@pytest.mark.parametrize(
    "text",
    [
        "Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device check-failure.",
        "RuntimeError: TPU node-v3-32 is not HEALTHY yet. Re-run when all TPUs are HEALTHY",
        "[/dev/accel0 tpu1013:pe1:0] !!!! FATAL ERROR !!!! for [/dev/accel0 tpu1013:pe1:0] , fatal_error: true",
        "tpunetd_client.cc:311] Detected failure SLICE_FAILURE_CHIP_DRIVER_ERROR in session e6c88; Start failure handling",
        "status: Session master detected TPU session error from worker job-15.headless-svc:8471. The reporting TPU",
        "  (0) Failed precondition: Driver must be Open to DMA map.",
        '  File "/x/tensorflow/python/tpu/preempted_hook.py", line 89, in run',
        "0x0x0_TC0: *** Halt is unexpected, all pending programs will fail. This is likely an XLA compiler bug",
    ],
)
def test_ill_health_is_read(text):
    assert one(text, TpuUnhealthy).what


def test_a_pre_emption_of_a_tpu_is_read():
    assert one("INFO:tensorflow:Found TPU in state PREEMPTED, and health UNKNOWN.", Preempted).by == "Cloud TPU"


@pytest.mark.parametrize(
    "text",
    [
        "I0820 xla_bridge.py:353] Unable to initialize backend 'tpu': INVALID_ARGUMENT: TpuPlatform is not available.",
        "Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file",
        "INFO:tensorflow:Found TPU in state READY, and health HEALTHY.",
        "WARNING:root:libtpu.so and TPU device found. Setting PJRT_DEVICE=TPU.",
        "GPU available: False, used: False, TPU available: True, using: 8 TPU cores",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
    ],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Deadline exceeded: Failed to connect to remote server at address: grpc://10.59.106.169:8470.",
        "ValueError: Could not lookup TPU metadata from name 'x'. Please doublecheck the tpu argument",
        'RuntimeError: TPU "my-tpu" is not yet ready; state: "CREATING"',
        'RuntimeError: Timed out waiting for TPU "x" to become healthy',
    ],
)
def test_a_cloud_tpu_that_is_not_there_is_read(text):
    assert one(text, TpuInitFailed).what


def test_a_file_of_the_client_is_not_seen_by_the_tpu():
    text = "UnimplementedError: File system scheme '[local]' not implemented (file: 'train-images-idx3-ubyte')"
    assert one(text, UnsupportedCombination)


def test_a_tpu_that_was_taken_is_not_merely_late():
    assert one('RuntimeError: TPU "my-tpu" is not yet ready; state: "PREEMPTED"', Preempted)


def test_gcloud_names_the_host_that_failed():
    fact = one("##### Command execution on worker 6 failed with exit status 137. Continuing.", ProcessExited)
    assert (fact.rank, fact.code) == (6, 137)


def test_a_mesh_of_mesh_tensorflow_must_fit():
    assert one("ValueError: physical and logical shapes must have the same product", WorldSizeConflict)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("RESOURCE_EXHAUSTED: Failed to allocate request for 6.27GiB (6727663616B) on device ordinal 0", "gpu"),
        ("TPU: RESOURCE_EXHAUSTED: Failed to allocate request for 6.27GiB (6727663616B) on device ordinal 0", "tpu"),
    ],
)
def test_the_allocator_that_all_devices_share_means_a_gpu_unless_a_tpu_is_named(text, kind):
    assert one(text, DeviceMemoryExhausted).kind == kind


def test_a_device_that_the_kernel_calls_busy_is_held_by_another_process() -> None:
    text = "Error setting number simples: ioctl failed [ErrorSpacePayload='util::PosixErrorSpace::Device or resource busy']"
    assert one(text, TpuBusy)


def test_a_device_that_the_user_may_not_open_is_a_failed_set_up() -> None:
    assert one("PermissionError: [Errno 13] Permission denied: '/dev/accel0'", TpuInitFailed)


def test_a_slice_of_more_hosts_than_were_started_is_a_matter_of_sizes() -> None:
    text = "Internal: Invalid system configuration: 2x2 host topology with 0 missing hosts, but 1 hosts in total."
    assert one(text, WorldSizeConflict).seen == "1"


def test_a_container_without_the_loopback_that_libtpu_wants_is_a_failed_set_up() -> None:
    assert one(
        "F0928 enforce_kernel_ipv6_support.cc:72] Check failed: loopback6_ok || !loopback4_ok This machine",
        TpuInitFailed,
    )
