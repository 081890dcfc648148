# SPDX-License-Identifier: Apache-2.0
"""gloo and ring in place of NCCL, where the supervisor asks for them; else nothing changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.sources.host.ports import free_ports
from tests.lazy_framework import need_framework

pytestmark = pytest.mark.frameworks
TORCH = """
import keepstep, torch, torch.distributed as dist
dist.init_process_group("nccl", device_id=None)
value = torch.ones(1)
dist.all_reduce(value)
print(dist.get_backend(), value.item())
dist.destroy_process_group()
"""
TENSORFLOW = """
import keepstep, tensorflow as tf
kinds = tf.distribute.experimental.CommunicationImplementation
asked = tf.distribute.experimental.CommunicationOptions(implementation=kinds.NCCL, bytes_per_pack=1024)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=asked)
used = strategy.extended._communication_options
print(used.implementation.value, used.bytes_per_pack)
"""


def run(folder: Path, script: str, ranks: int = 1, **env: str) -> list[str]:
    """What each rank printed last."""
    (folder / "job.py").write_text(script)
    port = str(free_ports(1)[0])
    started = []
    for rank in range(ranks):
        who = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        own = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(folder / "guard"), "KEEPSTEP_COMPANION": "off", **who, **env}
        started.append(
            subprocess.Popen(
                [sys.executable, "job.py"],
                cwd=folder,
                env={**os.environ, **own, "TF_CPP_MIN_LOG_LEVEL": "2"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [each.communicate(timeout=120)[0].splitlines() for each in started]
    return [next((line for line in reversed(lines) if line and not line.startswith("keepstep:")), "") for lines in said]


def test_torch_uses_gloo_instead_of_nccl(tmp_path: Path) -> None:
    need_framework("torch")
    assert run(tmp_path, TORCH, 2, KEEPSTEP_COLLECTIVES="gloo") == ["gloo 2.0", "gloo 2.0"]


@pytest.mark.long
def test_tensorflow_uses_its_ring_instead_of_nccl_and_nothing_else_changes(tmp_path: Path) -> None:
    need_framework("tensorflow")
    assert run(tmp_path, TENSORFLOW, KEEPSTEP_COLLECTIVES="ring") == ["RING 1024"]
    assert run(tmp_path, TENSORFLOW) == ["NCCL 1024"]
