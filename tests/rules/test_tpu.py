# SPDX-License-Identifier: Apache-2.0
"""TPUs that are full, held, ill or not set up."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def causes(folder: Path, **logs: str) -> list[str]:
    return [found.cause.value for found in findings(folder, **logs)]


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "RuntimeError: Compilation failure: Ran out of memory in memory space hbm. Used 8.41G of 8.00G hbm.",
            "resource.tpu_hbm_oom",
        ),
        ("RuntimeError: ABORTED: The TPU is already in use by process with pid 48211.", "tpu.device_busy_in_use"),
        ("RuntimeError: TPU initialization failed: No ba16c7433 device found", "tpu.initialization_failure"),
        ("ERROR: Core halted unexpectedly:", "hardware.tpu_unhealthy"),
    ],
)
def test_each_kind_of_tpu_trouble_is_told_apart(tmp_path, text, cause):
    assert causes(tmp_path, rank0=text + "\n")[0] == cause


def test_a_held_chip_explains_the_failed_set_up(tmp_path):
    text = (
        "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed: open(/dev/vfio/1): "
        "Device or resource busy; Couldn't open iommu group /dev/vfio/1 (set JAX_PLATFORMS='' to choose)\n"
    )
    assert causes(tmp_path, rank0=text)[0] == "tpu.device_busy_in_use"


def test_a_backend_that_is_absent_on_a_gpu_host_gives_nothing(tmp_path):
    text = "INFO:jax._src.xla_bridge:Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so\n" + STEPS
    assert findings(tmp_path, rank0=text) == ()


def test_a_run_that_trains_on_gives_nothing(tmp_path):
    assert findings(tmp_path, rank0="libtpu.so already in used by another process.\n" + STEPS) == ()


SLOW = (
    "UserWarning: TPU backend initialization is taking more than 60.0 seconds. Did you run your code on all "
    "TPU hosts?\n"
)


def test_a_set_up_that_never_ended_is_told(tmp_path):
    assert causes(tmp_path, rank0=SLOW) == ["tpu.initialization_failure"]


def test_a_crash_on_one_host_comes_before_those_that_waited_for_it(tmp_path):
    crash = (
        "*** SIGSEGV (@(nil)) received by PID 11743 (TID 12350) on cpu 17; stack trace: ***\nSegmentation "
        "fault (core dumped)\n"
    )
    found = findings(tmp_path, rank0=SLOW + crash, rank1=SLOW)
    assert found[0].cause.value == "framework.bug_segfault"
    assert found[0].ranks == (0,)


def test_a_helper_that_prints_the_libtpu_line_and_trains_gives_nothing(tmp_path):
    assert findings(tmp_path, rank0="libtpu.so already in used by another process.\nstep 20 loss 1.1\n") == ()


def test_a_rendezvous_after_the_set_up_speaks_of_the_process_that_is_gone(tmp_path):
    text = """Traceback (most recent call last):
  File "train.py", line 91, in main
    xm.rendezvous('done')
  File "/lib/python3.6/site-packages/torch_xla/core/xla_model.py", line 861, in rendezvous
    return torch_xla._XLAC._xla_rendezvous(get_ordinal(), tag, payload, replicas)
RuntimeError: tensorflow/compiler/xla/xla_client/mesh_service.cc:316 : Check failed: impl_->channel->WaitForConnected(1)
*** Begin stack trace ***
*** End stack trace ***
Failed to connect to client mesh master: host.internal:38973
"""
    assert causes(tmp_path, log=text) == ["network.connection_reset_peer_died"]
