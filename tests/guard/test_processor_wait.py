# SPDX-License-Identifier: Apache-2.0
"""How long the training's thread waits for a processor, as the guard's own thread reads it from the kernel."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from keepstep.guard.own_rank import Identity
from keepstep.guard.record.processor_wait import Held
from keepstep.guard.session import Session
from keepstep.signals import blackbox
from keepstep.signals.blackbox import RecordKind

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count it")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    env = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path), "KEEPSTEP_SUPERVISOR": "1"}
    return Session(Identity(rank=0, world=1), env)


def held(session: Session) -> list[blackbox.Record]:
    assert session.folder is not None
    (path,) = session.folder.glob("*.box")
    return [each for each in blackbox.read(path.read_bytes()).records if each.kind == RecordKind.HELD]


def test_a_thread_that_shares_a_processor_waits_for_it(session: Session) -> None:
    """Two busy threads on one processor: each is ready all the time, and runs for half of it."""

    def busy() -> None:
        os.sched_setaffinity(threading.get_native_id(), {min(os.sched_getaffinity(0))})
        session.step_done()
        end = time.monotonic() + 60
        while len(held(session)) < 4 and time.monotonic() < end:
            os.getrandom(1 << 20)  # in the kernel, without the GIL
            session.step_done()

    def other() -> None:
        os.sched_setaffinity(threading.get_native_id(), {min(os.sched_getaffinity(0))})
        while trains.is_alive():
            os.getrandom(1 << 20)

    trains = threading.Thread(target=busy)
    trains.start()
    threading.Thread(target=other).start()
    trains.join()
    session.close()
    first, *_, last = held(session)
    passed = last.at - first.at
    assert 0.05 * passed < last.extra - first.extra < 0.9 * passed, "it ran for a part of the time"
    assert 0.2 * passed < last.value - first.value < 1.1 * passed, "and was ready for the rest"


def test_a_training_that_goes_on_in_another_thread_is_followed(session: Session) -> None:
    look = Held(session)
    session.open()
    look()
    assert not session.trainer, "nobody trains yet"
    one = threading.Thread(target=session.step_done)
    one.start()
    one.join()
    while Path(f"/proc/self/task/{session.trainer}").exists():
        time.sleep(0.01)
    look()
    assert not session.trainer
    session.step_done()
    look()
    assert session.trainer == threading.get_native_id() and not session.is_off(Held.part)
    session.close()


def test_a_kernel_that_does_not_count_is_told_once(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keepstep.guard.record.processor_wait.THREADS", tmp_path)
    session.open()
    session.step_done()
    (tmp_path / str(session.trainer)).mkdir()
    Held(session)()
    session.close()
    assert session.is_off(Held.part)
    assert '"the kernel does not count it"' in next(tmp_path.glob("*.notes.jsonl")).read_text()
