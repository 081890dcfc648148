# SPDX-License-Identifier: Apache-2.0
"""The guard on PyTorch changes nothing: the same weights to the bit, silence in healthy runs, even if parts fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keepstep.model.codec import from_dict
from keepstep.signals import blackbox
from keepstep.signals.blackbox import LEAN, BoxPhase, RecordKind
from tests.guard.torch_ranks import ranks

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]

QUIET = {"BatchFed", "ContractStated", "WorldFormed", "PlanNamed", "CollectivesIssued", "RankEnded"}
COMPILED = Path(__file__).with_name("torch_compiled.py")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The results of the training without the guard."""
    with ranks(tmp_path_factory.mktemp("without"), KEEPSTEP="off") as run:
        assert run.ended() == [0, 0], run.logs()
        assert not run.guard.exists()
        return run.results()


def test_a_healthy_run_is_the_same_to_the_bit_and_silent(tmp_path: Path, weights: list[str]) -> None:
    with ranks(tmp_path) as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights
        assert "keepstep" not in run.logs()
        assert run.noted() <= QUIET
        stated = {note["fields"]["subject"] for note in run.notes("ContractStated")}
        assert stated == {"versions", "options", "model", "optimizer", "batches", "batch"}
        for note in run.notes():
            from_dict(note)
        assert len(list(run.guard.glob("*.box"))) == 2
        assert not run.troubles()


@pytest.mark.long
def test_lean_steps_are_the_same_to_the_bit_counted_and_silent(tmp_path: Path, weights: list[str]) -> None:
    with ranks(tmp_path, "--first", "from keepstep.guard import startup_hook as s; s.session().every = 5") as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights
        assert run.noted() <= QUIET
        assert not run.troubles()
        for path in run.guard.glob("*.box"):
            records = blackbox.read(path.read_bytes()).records
            steps = [record for record in records if record.kind == RecordKind.STEP]
            assert [step.value for step in steps] == list(range(1, 31))
            assert [step.value for step in steps if step.spare != LEAN] == [1, 6, 11, 16, 21, 26]
            waits = [
                record.extra for record in records if record.kind == RecordKind.PHASE and record.value == BoxPhase.INPUT
            ]
            assert waits == [0, 5, 10, 15, 20, 25, 30], "by the steps that were done before"


@pytest.mark.long
def test_a_run_under_fsdp_is_the_same_to_the_bit(tmp_path: Path) -> None:
    found = []
    for guard in ("off", "on"):
        with ranks(tmp_path / guard, "--wrap", "fully_shard", KEEPSTEP=guard) as run:
            assert run.ended() == [0, 0], run.logs()
            assert "keepstep" not in run.logs()
            found.append(run.results())
    assert found[0] == found[1]


@pytest.mark.long
def test_compiled_steps_compile_and_give_equal_results(tmp_path: Path) -> None:
    found = []
    for guard in ("off", "on"):
        with ranks(tmp_path / guard, script=COMPILED, KEEPSTEP=guard) as run:
            assert run.ended() == [0, 0], run.logs()
            assert "keepstep:" not in run.logs()
            found.append(run.results())
    assert found[0] == found[1]


BREAKS = {
    "hooks that raise, and another torch": """
import types
from keepstep.guard.adapters.torch import attach as t, loaders as l, steps as s, models as m, checkpoints as k
from keepstep.guard.adapters.torch.collectives import progress_watch as w, script_calls as c
def broken(*args, **kwargs): raise RuntimeError("made to fail")
l.Loaders.got = l.Loaders.begun = s.TorchSteps.before = s.TorchSteps.after = broken
c.Collectives.begin = m._signature = w.TorchWatch.tick = broken
def other(state, module): k.hook(state, types.ModuleType("torch.serialization"))
t.PARTS = tuple((name, part, other if part == "checkpoints" else hook) for name, part, hook in t.PARTS)
""",
    "a store that is gone": """
import keepstep.guard.adapters.torch.world as w
def gone(*args, **kwargs): raise ConnectionError("made to fail")
w.Store.put = w.Store.get = gone
""",
}


@pytest.mark.parametrize(
    "part", [part if n == 0 else pytest.param(part, marks=pytest.mark.long) for n, part in enumerate(BREAKS)]
)
def test_parts_that_fail_leave_the_training_as_it_is(tmp_path: Path, weights: list[str], part: str) -> None:
    with ranks(tmp_path, "--first", BREAKS[part]) as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights
        assert "the training is not affected" in run.log(0)
        if "hooks" in part:
            off = {note["fields"]["part"] for note in run.notes("GuardPart")}
            assert off >= {"loaders", "optimizer steps", "collectives", "DDP models"}, off


@pytest.mark.long
def test_an_unwritable_folder_leaves_the_training_as_it_is(tmp_path: Path, weights: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with ranks(tmp_path, "--late", KEEPSTEP_DIR=str(tmp_path / "file" / "guard"), KEEPSTEP="strict") as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights


def test_a_rank_that_is_slow_is_waited_for_and_not_called_out_of_step(tmp_path: Path, weights: list[str]) -> None:
    with ranks(tmp_path, "--fault", "sleep") as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights
        assert not run.notes("ContractBroken")
        waits = [note["fields"] for note in run.notes("PeersWait")]
        assert any(
            each["late"] == [1] and each["waiting"] == [0] and "torch_training.py" in each["where"] for each in waits
        ), waits


@pytest.mark.long
def test_the_server_of_the_store_leaving_first_is_no_news(tmp_path: Path, weights: list[str]) -> None:
    with ranks(tmp_path, "--fault", "leaves without a word", "--rank", "0") as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights
        assert "TCPStore" not in run.logs() and "keepstep" not in run.logs()


def test_a_store_that_is_still_asked_when_the_process_leaves_does_not_abort_it(
    tmp_path: Path, weights: list[str]
) -> None:
    """As on a machine so busy that an answer comes too late: Python ends threads, and C++ aborts on that."""
    busy = """
import keepstep.guard.adapters.torch.world as w
close = w.Store.close
def closed(self):
    for _ in range(20000): self._ask(lambda store: store.check(["no such key"]), wait=False)
    close(self)
w.Store.close = closed
"""
    with ranks(tmp_path, "--first", busy) as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.results() == weights


def test_nothing_is_imported_that_the_training_did_not(tmp_path: Path) -> None:
    ask = "import sys, torch; print(sorted(m for m in sys.modules if m.split('.')[0] not in ('keepstep', 'torch')))"
    import subprocess
    import sys

    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    told = [
        subprocess.run(
            [sys.executable, "-c", ask],
            env=kept | {"KEEPSTEP": on},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        ).stdout
        for on in ("off", "on")
    ]
    before, after = (set(eval(each)) for each in told)
    assert {name for name in after - before if name.split(".")[0] not in sys.stdlib_module_names} == set()


def test_one_call_with_a_wrong_type_turns_nothing_off(tmp_path: Path) -> None:
    first = """
import torch.distributed as dist
real = dist.init_process_group
def start(*args, **kwargs):
    real(*args, **kwargs)
    for wrong in ("x", 3, [1.0]):
        try:
            dist.all_reduce(wrong)
        except Exception as error:
            print("refused", type(error).__name__)
dist.init_process_group = start
"""
    with ranks(tmp_path, "--first", first) as run:
        assert run.ended() == [0, 0], run.logs()
        assert run.logs().count("refused TypeError") == 6, run.logs()
        assert "is off" not in run.logs() and not run.notes("GuardPart")
