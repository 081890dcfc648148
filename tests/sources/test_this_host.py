# SPDX-License-Identifier: Apache-2.0
"""Which of this host's devices a job may use."""

from __future__ import annotations

import pytest

from keepstep.sources.host.this_host import hides_its_gpus


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("CUDA_VISIBLE_DEVICES", "-1", True),
        ("CUDA_VISIBLE_DEVICES", "", True),
        ("CUDA_VISIBLE_DEVICES", "0,1", False),
        ("JAX_PLATFORMS", "cpu", True),
        ("JAX_PLATFORMS", "cuda,cpu", False),
    ],
)
def test_a_job_that_is_kept_off_the_gpus(name: str, value: str, hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(each, raising=False)
    assert not hides_its_gpus()
    monkeypatch.setenv(name, value)
    assert hides_its_gpus() is hidden
