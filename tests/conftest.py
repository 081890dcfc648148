# SPDX-License-Identifier: Apache-2.0
"""What every test relies on: no launcher's variables around it, and frameworks only where they are installed."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

FRAMEWORKS = ("tensorflow", "torch", "jax")
LAUNCHER_VARIABLES = ("SLURM_", "OMPI_", "PMI_", "RAY_", "TORCHELASTIC_", "KUBERNETES_", "KEEPSTEP")
RANK_VARIABLES = ("TF_CONFIG", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
LONG = Path(__file__).with_name("long_tests.txt")
NUMBERS = itertools.count()


hypothesis.settings.register_profile("keepstep", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("keepstep")


def pytest_configure() -> None:
    """A shell starts background jobs with SIGINT ignored, and every process that a test starts would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip ``@pytest.mark.frameworks("torch")`` where torch is not installed; without names, all are needed.

    Tests that load a framework into their own process come last: whatever forks after that is slow.
    """
    long = tuple(f"tests/{line}" for line in LONG.read_text().splitlines() if line and not line.startswith("#"))
    for item in items:
        if item.nodeid.startswith(long):
            item.add_marker(pytest.mark.long)
        for mark in item.iter_markers("frameworks"):
            absent = [name for name in mark.args or FRAMEWORKS if importlib.util.find_spec(name) is None]
            if absent:
                item.add_marker(pytest.mark.skip(reason=f"not installed: {', '.join(absent)}"))
    loading = [item for item in items if _loads_a_framework(item)]
    light = [item for item in items if not _loads_a_framework(item)]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)  # xdist gives each a share of this list
    shares = [_share(some, worker, workers) for worker in range(workers) for some in (light, loading)]
    items[:] = [item for share in shares for item in share]


def _loads_a_framework(item: pytest.Item) -> bool:
    return hasattr(getattr(item, "module", None), "lazy_framework")


def _share(items: list[pytest.Item], worker: int, workers: int) -> list[pytest.Item]:
    return items[len(items) * worker // workers : len(items) * (worker + 1) // workers]


@pytest.fixture(autouse=True, scope="session")
def outside_of_the_users_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep keepstep's caches and settings out of the home of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(autouse=True)
def outside_of_any_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test gives the same answer under Slurm, in a pod, or at a desk."""
    for name in list(os.environ):
        if name in RANK_VARIABLES or name.startswith(LAUNCHER_VARIABLES):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def without_a_past(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What earlier tests made keepstep remember about hosts does not count."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{next(NUMBERS)}"))
