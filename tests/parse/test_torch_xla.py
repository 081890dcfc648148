# SPDX-License-Identifier: Apache-2.0
"""What torch_xla's processes say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.data import DtypeMismatch
from keepstep.core.facts.environment import VersionConflict
from keepstep.core.facts.network import PeerLost, RendezvousTimeout
from keepstep.core.facts.platform import TpuInitFailed
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.sync import CollectiveTimeout, ForkOrThread
from keepstep.parse.tools.xla import torch_xla as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_the_core_that_raised_is_named():
    assert one("Exception in device=TPU:7: Invalid argument: From /job:tpu_worker", ProcessExited).rank == 7


def test_a_closed_mesh_is_a_lost_peer():
    assert (
        one("mesh_service.cc:243 : Failed to meet rendezvous 'init': Socket closed (14)", PeerLost).how
        == "Socket closed"
    )


@pytest.mark.parametrize("text", ["Process 0 is using TPU:0", "torch_xla version: 1.5"])
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


def test_a_count_of_devices_that_differs_is_read():
    fact = one("RuntimeError: Cannot replicate if number of devices (1) is different from 8", WorldSizeConflict)
    assert (fact.seen, fact.expected) == ("1", "8")


def test_a_type_that_xla_lacks_is_read():
    assert (
        one("torch_xla/csrc/tensor_util.cpp:880 : Type not supported: ComplexDouble", DtypeMismatch).left
        == "ComplexDouble"
    )


def test_a_device_used_before_the_spawn_is_read():
    text = "RuntimeError: Runtime is already initialized. Do not use the XLA device before calling xmp.spawn."
    assert one(text, ForkOrThread)


def test_a_module_of_another_release_is_read():
    assert (
        one("module 'torch_xla.core.xla_model' has no attribute 'rendezvous'", VersionConflict).component == "torch_xla"
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("init", RendezvousTimeout), ("pl.Trainer.run_test_evaluation", CollectiveTimeout)]
)
def test_a_rendezvous_is_of_the_start_or_a_barrier(name, kind):
    assert one(f"Failed to meet rendezvous '{name}': Deadline Exceeded (4)", kind)


@pytest.mark.parametrize(("module", "count"), [("torch_xla/_internal/pjrt", 1), ("pool/start", 0)])
def test_a_pool_of_no_processes_is_a_host_without_devices(module, count, read):
    text = f"""  File "/usr/lib/python3.10/site-packages/{module}.py", line 169, in run_multiprocess
    with concurrent.futures.ProcessPoolExecutor(
  File "/usr/lib/python3.10/concurrent/futures/process.py", line 611, in __init__
    raise ValueError("max_workers must be greater than 0")
ValueError: max_workers must be greater than 0
"""
    assert [type(fact) for fact in read(table, text)] == [TpuInitFailed] * count
