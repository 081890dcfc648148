# SPDX-License-Identifier: Apache-2.0
"""``jax.distributed.initialize()`` without arguments finds the world that the supervisor made."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import ClassVar

import pytest

from keepstep.guard.adapters.jax import detect_cluster as jax_cluster
from keepstep.guard.adapters.jax.detect_cluster import register
from keepstep.sources.host.ports import free_ports

OLD = Path(__file__).parents[2] / ".venv-old" / "bin" / "python"
SCRIPT = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
jax.distributed.initialize()
print("world", jax.process_index(), jax.process_count(), flush=True)
"""


def clusters() -> types.SimpleNamespace:
    """As JAX's own registry, in miniature."""

    class ClusterEnv:
        _cluster_types: ClassVar[list[type]] = []

        def __init_subclass__(cls, **kwargs: object) -> None:
            cls._cluster_types.append(cls)

    class Slurm(ClusterEnv):
        pass

    return types.SimpleNamespace(ClusterEnv=ClusterEnv, Slurm=Slurm)


def test_it_is_asked_before_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    known = clusters()
    found = register(known)
    assert known.ClusterEnv._cluster_types == [found, known.Slurm]
    assert not found.is_env_present()
    for name, value in (("COORDINATOR", "127.0.0.1:1234"), ("RANK", "1"), ("WORLD", "3")):
        monkeypatch.setenv(f"KEEPSTEP_{name}", value)
    assert found.is_env_present()
    assert (found.get_process_id(), found.get_process_count()) == (1, 3)
    # versions of JAX call it with one or with two arguments
    assert found.get_coordinator_address(timeout_secs=300) == "127.0.0.1:1234"
    assert found.get_coordinator_address(timeout_secs=300, override_coordinator_port="99") == "127.0.0.1:99"


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.parametrize("python", [sys.executable, str(OLD)], ids=["this version", "an old version"])
def test_a_bare_initialize_forms_the_world(python: str, tmp_path: Path) -> None:
    if python == sys.executable and importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax")
    if python == str(OLD) and not OLD.exists():
        pytest.skip("`make lab-old` sets it up")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    ranks = []
    for rank in range(2):
        env = {
            **os.environ,
            "KEEPSTEP": "on",
            "KEEPSTEP_DIR": str(tmp_path / "guard"),
            "KEEPSTEP_SUPERVISOR": str(os.getpid()),
        }
        env |= {"KEEPSTEP_COORDINATOR": address, "KEEPSTEP_RANK": str(rank), "KEEPSTEP_WORLD": "2"}
        # a scheduler that started the supervisor, not the ranks
        env |= {
            "SLURM_JOB_ID": "7",
            "SLURM_PROCID": "0",
            "SLURM_NTASKS": "1",
            "SLURM_LOCALID": "0",
            "SLURM_STEP_NODELIST": "nohost",
        }
        ranks.append(
            subprocess.Popen(
                [python, str(script)],
                env=env,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        told = [each.communicate(timeout=150)[0] for each in ranks]
    finally:
        for each in ranks:
            each.kill()
    for rank, text in enumerate(told):
        assert f"world {rank} 2" in text, text


def supervised(monkeypatch: pytest.MonkeyPatch, rank: int) -> int:
    """A world that the supervisor made, and the port of its coordinator."""
    (port,) = free_ports(1)
    monkeypatch.setenv("KEEPSTEP_COORDINATOR", f"127.0.0.1:{port}")
    monkeypatch.setenv("KEEPSTEP_RANK", str(rank))
    monkeypatch.delenv("JAX_COORDINATOR_ADDRESS", raising=False)
    monkeypatch.setattr(jax_cluster, "MEETING_S", 60.0)
    return port


@pytest.mark.parametrize("arguments", [(), (None, 2, 1)], ids=["a bare call", "a call with its number"])
def test_a_rank_waits_for_the_door_of_the_coordinator(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...]
) -> None:
    port = supervised(monkeypatch, rank=1)
    waiting = threading.Thread(target=jax_cluster.await_coordinator, args=arguments, daemon=True)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive(), "nobody is there yet"
    with socket.socket() as door:
        door.bind(("127.0.0.1", port))
        door.listen()
        waiting.join(30.0)
        assert not waiting.is_alive()


@pytest.mark.parametrize(
    ("rank", "arguments"),
    [(0, ()), (1, (None, 2, 0)), (1, ("10.0.0.1:99", 2, 1))],
    ids=["rank 0", "another number", "another coordinator"],
)
def test_nobody_waits_for_a_coordinator_of_its_own_or_of_others(
    monkeypatch: pytest.MonkeyPatch, rank: int, arguments: tuple[object, ...]
) -> None:
    supervised(monkeypatch, rank)
    looks: list[int] = []
    monkeypatch.setattr(jax_cluster, "_is_open", looks.append)
    jax_cluster.await_coordinator(*arguments)
    assert not looks


def test_a_coordinator_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    supervised(monkeypatch, rank=1)
    monkeypatch.setattr(jax_cluster, "MEETING_S", 0.05)
    jax_cluster.await_coordinator()
