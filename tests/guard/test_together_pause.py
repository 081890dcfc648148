# SPDX-License-Identifier: Apache-2.0
"""A pause that another rank does not answer, or that is withdrawn before all have answered: nobody waits for long."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from keepstep.guard.own_rank import Identity
from keepstep.guard.same_step import pause
from keepstep.guard.session import Session
from keepstep.store import pause_request


@pytest.fixture
def session(tmp_path: Path) -> Session:
    env = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(tmp_path / "guard"), "KEEPSTEP_SUPERVISOR": "1"}
    found = Session(Identity(rank=0, world=2), {**env, "KEEPSTEP_EXCHANGE": str(tmp_path / "exchange")})
    (tmp_path / "exchange").mkdir()
    pause.begin(found)
    return found


def asked(session: Session) -> tuple[Path, pause.Pausing]:
    """It has taken a step, and knows of a request."""
    session.step_done()
    assert session.folder is not None
    pause_request.ask(session.folder, 60.0)
    (after_step,) = session.at_step
    pausing: pause.Pausing = after_step.__self__  # type: ignore[attr-defined]
    pausing.look()
    assert pausing.call.reason is not None
    return session.folder, pausing


def test_where_a_rank_does_not_answer_none_pauses_and_that_is_said(
    session: Session, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pause_request, "AGREE_S", 0.2)
    folder, pausing = asked(session)
    session.step_done()
    assert "not all ranks could agree on a step" in (said := capfd.readouterr().err) and "no rank pauses" in said
    assert pause_request.asked(folder) is None and pausing.call.reason is None
    session.step_done()
    assert session.steps == 3
    session.close()


def test_a_request_that_is_withdrawn_holds_nobody(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    folder, pausing = asked(session)
    step = threading.Thread(target=session.step_done)
    step.start()
    pause_request.withdraw(folder)
    step.join(pause_request.AGREE_S / 2)
    assert not step.is_alive() and pausing.call.reason is None and "pause" not in capfd.readouterr().err
    session.close()
