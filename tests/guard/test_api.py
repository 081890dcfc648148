# SPDX-License-Identifier: Apache-2.0
"""``keepstep.guard.attach()`` as a script calls it, the checks of batches, and the notes of other hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from keepstep.errors import OutOfStep
from keepstep.guard.api import Guard
from keepstep.guard.batches.batch_contract import leaves
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session
from keepstep.signals import blackbox
from keepstep.signals.blackbox import BoxPhase, RecordKind


class Array:
    """Has a shape and a type, like every framework's arrays."""

    def __init__(
        self, *shape: int, dtype: str = "float32", least: float = 0.0, largest: float = 1.0, finite: bool = True
    ) -> None:
        self.shape, self.dtype, self.values = shape, dtype, (least, largest, finite)


def session_in(folder: Path, mode: str = "on") -> Session:
    env = {"KEEPSTEP": mode, "KEEPSTEP_DIR": str(folder), "KEEPSTEP_SUPERVISOR": "1"}
    session = Session(Identity(rank=0, world=1), env)
    session.values = lambda thing: thing.values
    return session


def notes(folder: Path, fact: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for path in folder.glob("*.notes.jsonl") for line in path.read_text().splitlines()]
    return [line["fields"] for line in lines if line["fact"] == fact]


def records(folder: Path) -> tuple[blackbox.Record, ...]:
    (path,) = folder.glob("*.box")
    return blackbox.read(path.read_bytes()).records


def test_a_loop_by_steps_is_recorded_with_its_phases(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    guard = Guard(session)
    for number, batch in enumerate(guard.steps([Array(4, 8)] * 5)):
        assert batch.shape == (4, 8)
        session.step_done()  # a hook that sees the same step: the script's own count wins
        if number == 2:
            with guard.phase("checkpoint"):
                pass
    session.close()
    found = records(tmp_path)
    assert [r.value for r in found if r.kind == RecordKind.STEP] == [1, 2, 3, 4, 5]
    phases = [BoxPhase(r.value).name for r in found if r.kind == RecordKind.PHASE]
    assert phases[:3] == ["START", "INPUT", "COMPUTE"] and phases[-1] == "END" and "CHECKPOINT" in phases


def test_a_decorated_step_is_a_step_and_stays_the_same_function(tmp_path: Path) -> None:
    session = session_in(tmp_path)

    @Guard(session).step
    def train(a: int, *, b: int = 2) -> int:
        """Doc."""
        return a + b

    assert [train(1), train(1, b=5)] == [3, 6] and train.__doc__ == "Doc." and train.__name__ == "train"
    with pytest.raises(TypeError):
        train()  # type: ignore[call-arg]
    session.close()
    assert session.steps == 2


def test_a_script_that_saves_by_a_function_of_its_own_is_saving_until_its_next_step(tmp_path: Path) -> None:
    session = session_in(tmp_path)

    def save_weights() -> None:
        end = time.monotonic() + 60
        while session.phase_now != BoxPhase.CHECKPOINT and time.monotonic() < end:
            time.sleep(0.01)

    session.step_done()
    session.phase(int(BoxPhase.COMPUTE))
    save_weights()
    assert session.phase_now == BoxPhase.CHECKPOINT
    session.step_done()
    assert session.phase_now == BoxPhase.COMPUTE
    session.close()


def test_a_phase_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="no such phase: 'lunch'; there are checkpoint"),
        Guard(session_in(tmp_path)).phase("lunch"),
    ):
        pass


@pytest.mark.parametrize(
    ("usual", "odd", "kind"),
    [
        (Array(4, 8), Array(4, 8, dtype="float64"), "dtype"),
        (Array(4, 8), Array(0, 8), "empty"),
        (Array(4, 8), Array(4, 8, finite=False), "not finite"),
        ({"image": Array(4, 8)}, {"image": Array(4, 9)}, "shape"),
        ({"image": Array(4, 8)}, {"image": Array(4, 8, 1)}, "shape"),
        (
            {"x": Array(4, 8), "label": Array(4, dtype="int64", largest=9)},
            {"x": Array(4, 8), "label": Array(4, dtype="int64", largest=10)},
            "label",
        ),
    ],
)
def test_an_odd_batch_is_noted_and_stops_only_in_strict_mode(tmp_path: Path, usual: Any, odd: Any, kind: str) -> None:
    for mode in ("on", "strict"):
        session = session_in(tmp_path / mode, mode)
        session.open()
        session.batches._value_ns = -(10**12)  # let values be looked at every time
        Guard(session).batches(labels={"label']": (0, 9)}, shapes={"image']": (None, 8)})
        for _ in range(5):
            session.see_batch(usual)
        if mode == "strict":
            with pytest.raises(OutOfStep, match=kind):
                session.see_batch(odd)
        else:
            session.see_batch(odd)
            session.see_batch(odd)
        session.close()
        assert [n["kind"] for n in notes(tmp_path / mode, "BatchOdd")] == [kind]


@pytest.mark.parametrize(
    ("usual", "new", "kind"),
    [
        (Array(4, 8), Array(4, 9), "shape"),
        (Array(4, 8), Array(4, 8, 3), "shape"),
        (Array(4, 8), Array(3, 8), "short"),
        (Array(4, 8), (Array(4, 8), Array(4)), "structure"),
    ],
)
def test_a_batch_of_a_new_shape_is_told_only_where_its_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], usual: Any, new: Any, kind: str
) -> None:
    for fails in (False, True):
        session = session_in(tmp_path / str(fails), "strict")
        session.open()
        for batch in (usual,) * 60 + (new,):
            session.see_batch(batch)
        if fails:
            monkeypatch.setattr(sys, "last_type", RuntimeError, raising=False)
        session.close()
        assert [n["kind"] for n in notes(tmp_path / str(fails), "BatchOdd")] == [kind] * fails
        assert capsys.readouterr().err == ""


def test_healthy_batches_are_passed_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = session_in(tmp_path)
    session.open()
    for length in (5, 9, 7, 30, 2):
        session.see_batch({"tokens": Array(16, length), "mask": Array(16, length, dtype="bool")})
    session.see_batch({"tokens": Array(3, 11), "mask": Array(3, 11, dtype="bool")})
    session.see_batch("not a batch")
    session.see_batch(None)
    session.close()
    assert notes(tmp_path, "BatchOdd") == [] and capsys.readouterr().err == ""


def test_a_batch_check_that_breaks_is_turned_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Strange:
        shape = (1,)

        @property
        def dtype(self) -> str:
            raise RuntimeError("do not touch")

    session = session_in(tmp_path)
    session.open()
    session.see_batch(Strange())
    session.see_batch(Strange())
    session.close()
    assert capsys.readouterr().err.count("batch checks is off") == 1


def test_leaves_have_names_that_one_can_find() -> None:
    batch = ({"image": Array(2, 3), "meta": ["text", Array(2)]}, Array(2, dtype="int64"))
    assert [(name, shape, dtype) for name, shape, dtype, _ in leaves(batch)] == [
        ("batch[0]['image']", (2, 3), "float32"),
        ("batch[0]['meta'][1]", (2,), "float32"),
        ("batch[1]", (2,), "int64"),
    ]


def test_a_forked_child_leaves_the_box_alone(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    session.step_done()
    child = os.fork()
    if child == 0:
        session.step_done()
        session.note("GuardPart", {"part": "x", "why": "from the child"}, "x")
        session.close()
        os._exit(0)
    os.waitpid(child, 0)
    session.close()
    assert [r.value for r in records(tmp_path) if r.kind == RecordKind.STEP] == [1]
    assert notes(tmp_path, "GuardPart") == []


def test_rank_0_writes_down_what_other_hosts_tell(tmp_path: Path) -> None:
    sessions = []
    for rank in range(2):
        env = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path / f"host{rank}"), "KEEPSTEP_COMPANION": "off"}
        session = Session(Identity(rank=rank, world=2), env)
        session.open()
        session.use_exchange(SharedFolder(tmp_path / "exchange"))
        sessions.append(session)
    fields = {"kind": "dtype", "part": "batch", "seen": "float64", "wanted": "float32"}
    sessions[1].note("BatchOdd", fields, "odd")
    end = time.monotonic() + 30
    while time.monotonic() < end and not notes(tmp_path / "host0", "BatchOdd"):
        time.sleep(0.05)
    for session in sessions:
        session.close()
    assert notes(tmp_path / "host0", "BatchOdd") == [fields]


def test_secrets_do_not_reach_the_notes(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    session.open()
    session.note("GuardPart", {"part": "x", "why": "https://me:hunter22secret@host/"}, "password=hunter22secret")
    session.close()
    (path,) = tmp_path.glob("*.notes.jsonl")
    assert "hunter22secret" not in path.read_text()


def test_a_script_may_ask_for_the_guard_without_any_variable(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import keepstep\nguard = keepstep.guard.attach()\nfor batch in guard.steps(range(3)):\n    print(batch)\n"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("KEEPSTEP")}
    for mode, boxes in ((None, 1), ("off", 0)):
        folder = tmp_path / str(mode)
        folder.mkdir()
        more = {} if mode is None else {"KEEPSTEP": mode}
        done = subprocess.run([sys.executable, str(script)], cwd=folder, env=env | more, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("0\n1\n2\n", "")
        assert len(list(folder.rglob("*.box"))) == boxes


@pytest.mark.frameworks("jax")
def test_buddy_steps_that_cannot_be_are_answered_when_they_are_asked_for(tmp_path: Path) -> None:
    script = "import jax, keepstep; keepstep.guard.attach(buddy=5); keepstep.guard.attach(buddy=5)"
    env = {**os.environ, "KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_COMPANION": "off"}
    ended = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300)
    said = "keepstep: no buddy steps: jax has none, only PyTorch's DistributedDataParallel\n"
    assert (ended.returncode, ended.stderr) == (0, said)


def test_a_process_without_a_rank_gives_itself_none(tmp_path: Path) -> None:
    session = Session(Identity(), {"KEEPSTEP": "strict", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_COMPANION": "off"})
    session.open()
    Guard(session).batches(shapes={"[0]": (8, 4)})
    with pytest.raises(OutOfStep, match=r"^batch\[0\] has \[4, 4\]"):
        session.see_batch((Array(4, 4),))
    session.close()


def test_what_batches_must_be_is_stated_by_their_parts(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="shapes must be a dictionary by part of the batch, not list"):
        Guard(session_in(tmp_path, "on")).batches(shapes=[(8, 4)])  # type: ignore[arg-type]
