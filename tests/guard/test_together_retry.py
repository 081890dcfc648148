# SPDX-License-Identifier: Apache-2.0
"""What is tried again, how often and how long after; and that ranks that act together go on together."""

from __future__ import annotations

import errno
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstep.errors import OutOfStep
from keepstep.guard.together import retry as module
from keepstep.guard.together.retry import retry
from keepstep.guard.together.rounds import Rounds
from keepstep.sources.host.ports import free_ports
from tests.guard.test_together_rounds import at_once, channels


class UnavailableError(Exception):
    """As TensorFlow names it."""


class AbortedError(Exception):
    """As TensorFlow names it."""


class ClientError(Exception):
    """As boto names it."""


class ReadsAgain(ConnectionResetError):
    """A library's own, derived from Python's."""


PASSING = [
    UnavailableError("failed to connect to all addresses"),
    AbortedError("Unable to find a context_id matching the specified one (1767). Perhaps the worker was restarted"),
    ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
    ReadsAgain("by peer"),
    OSError(errno.ESTALE, "Stale file handle"),
    ClientError("An error occurred (SlowDown) when calling the PutObject operation: Please reduce your request rate."),
    TimeoutError("timed out"),
]
LASTING = [
    ValueError("bad shape"),
    FileNotFoundError(errno.ENOENT, "No such file or directory"),
    AbortedError("Input dataset was modified during iteration"),
    UnavailableError("Collective ops is aborted by: Socket closed. Restart your program to reset."),
    RuntimeError("Connection closed by peer [127.0.0.1]:4711"),
]


def failing(*errors: Exception) -> Callable[[], str]:
    """Raises these, one per call, and then succeeds."""
    left: Iterator[Exception] = iter(errors)

    def load() -> str:
        for error in left:
            raise error
        return "loaded"

    return load


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_may_be_over_soon_is_tried_again(error: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    assert retry(failing(error, error), pause_s=0.001) == "loaded"
    assert f"load: {type(error).__name__}: " in capfd.readouterr().err


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_what_would_fail_again_is_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        retry(failing(error))
    assert retry(failing(error), also=(type(error),), pause_s=0.001) == "loaded"


def test_an_iterator_is_refused_because_it_would_go_on_with_the_next_batch() -> None:
    with pytest.raises(TypeError, match="would leave a batch out"):
        retry(next, iter([1, 2]))


def test_the_last_error_is_raised_after_the_last_attempt() -> None:
    with pytest.raises(TimeoutError, match="third"):
        retry(failing(*(TimeoutError(each) for each in ("first", "second", "third"))), attempts=3, pause_s=0.001)


def test_pauses_double_up_to_the_longest_and_leave_the_seeds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(module, "_pause", lambda longest_s, *words: asked.append(longest_s))
    retry(failing(*[TimeoutError()] * 4), longest_pause_s=5.0)
    assert asked == [1.0, 2.0, 4.0, 5.0]
    monkeypatch.undo()
    random.seed(7)
    before, began = random.getstate(), time.monotonic()
    retry(failing(TimeoutError()), pause_s=0.2)
    assert time.monotonic() - began >= 0.1
    assert random.getstate() == before


def together(folder: Path, monkeypatch: pytest.MonkeyPatch, *functions: Callable[[], Any]) -> list[object]:
    """Each function on a rank of its own."""
    waiting = [Rounds(each) for each in channels(folder, len(functions))]
    monkeypatch.setattr(module, "rounds", lambda call: waiting.pop(0))
    return at_once([lambda each=each: retry(each, pause_s=0.01, together=True, wait_s=60.0) for each in functions])


def test_if_it_fails_on_one_rank_all_ranks_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def load() -> str:
        calls.append(1)
        return "loaded"

    def fails() -> str:
        return found()

    found = failing(UnavailableError("socket closed"))
    fails.__name__ = "load"
    assert together(tmp_path, monkeypatch, load, fails) == ["loaded", "loaded"]
    assert len(calls) == 2


def test_if_one_rank_gives_up_no_rank_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = together(tmp_path, monkeypatch, failing(), failing(), failing(ValueError("bad shape")))
    assert isinstance(found[2], ValueError)
    assert all(isinstance(each, OutOfStep) for each in found[:2])
    assert "given up on all ranks, because it failed on rank 2 (ValueError: bad shape)" in str(found[0])


@pytest.mark.frameworks("tensorflow")
@pytest.mark.parametrize("back", ["later", pytest.param("at once", marks=pytest.mark.long)])
def test_a_parameter_server_that_was_killed_and_came_back(back: str, tmp_path: Path) -> None:
    """A real error of gRPC. It may be Unavailable, or from a new server that does not know this client: Aborted."""
    pytest.importorskip("tensorflow")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("tf_lost_server.py"), *addresses, back],
        cwd=tmp_path, env={**os.environ, "KEEPSTEP_COMPANION": "off"}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["begins at 0", "begins at 4", "ended with 20.0"], done.stderr[-3000:]
    wanted = "UnavailableError: " if back == "later" else "(Unavailable|Aborted)Error: "
    assert re.search(rf"keepstep: train_or_bring_it_back: {wanted}.*; attempt 2 of 5", done.stderr)


@pytest.mark.frameworks("torch")
def test_in_loader_workers_a_service_that_is_back_soon_is_asked_again(tmp_path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    (port,) = free_ports(1)
    refused = tmp_path / "refused"

    def fetch(index: int) -> int:
        try:
            with socket.create_connection(("127.0.0.1", port)) as link, link.makefile("rw") as stream:
                stream.write(f"{index}\n")
                stream.flush()
                return int(stream.readline())
        except ConnectionRefusedError:
            refused.touch()
            raise

    class Remote(data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            return retry(fetch, index, attempts=100, pause_s=0.05, longest_pause_s=1.0)

    def serve() -> None:
        while not refused.exists():
            time.sleep(0.01)
        with socket.create_server(("127.0.0.1", port)) as listener:
            for _ in range(6):
                link, _ = listener.accept()
                with link, link.makefile("rw") as stream:
                    stream.write(f"{2 * int(stream.readline())}\n")

    batches = iter(data.DataLoader(Remote(), num_workers=2, multiprocessing_context="fork"))
    server = threading.Thread(target=serve, daemon=True)  # after the fork: workers have no part in its socket
    server.start()
    assert [int(each) for each in batches] == [0, 2, 4, 6, 8, 10]
    server.join()
