# SPDX-License-Identifier: Apache-2.0
"""A run that hides all GPUs of its host is for the CPU: nothing is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.sources.host import nvidia, this_host


@pytest.mark.parametrize(("visible", "count"), [(None, 2), ("0,1", 2), ("1", 1), ("", None), ("-1", None)])
def test_gpus_are_those_that_the_run_may_use(
    visible: str | None, count: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [Path("/dev/nvidia0"), Path("/dev/nvidia1")]
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(devices))
    monkeypatch.setattr(Path, "exists", lambda self: True)
    monkeypatch.setattr(nvidia.shutil, "which", lambda name: None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert this_host.accelerators() == count
    assert nvidia.gpus() == ([], None if count is None else "nvidia-smi is not installed")
