# SPDX-License-Identifier: Apache-2.0
"""Processes that the user's own launcher starts (a shell script, `mpirun`, `subprocess`) come from a process that has
the frameworks, as the ranks of a trial do.

What they start is Python itself, which then stands in for a fork (`guard/stand_in.py`). Where one has failed and its
launcher goes on waiting for the others, these are ended: the verdict is certain.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from keepstep.base.forked_calls import end_with_parent
from keepstep.guard import stand_in

BACKLOG = 64
PATIENCE_S, LAST_S = 3.0, 1.0
"""For the launcher, after one has failed; and for the others, after SIGTERM."""


def begin(become: Callable[[socket.socket], NoReturn]) -> str:
    """Start the process that forks; returns the value of ``stand_in.VARIABLE``. ``become``: what a fork does."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")  # the kernel gives it a name that is no file's
    listener.listen(BACKLOG)
    name = listener.getsockname().hex()
    if not os.fork():  # keepstep: ignore[COD113] nothing has been started: the frameworks are only imported
        end_with_parent()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (1, 2):
            os.dup2(nothing, number)
        try:
            _serve(listener, become)
        finally:
            os._exit(1)
    listener.close()
    return f"{sys.prefix}{os.pathsep}{name}"


def _serve(listener: socket.socket, become: Callable[[socket.socket], NoReturn]) -> NoReturn:
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    forks: dict[int, tuple[int, socket.socket]] = {}
    """By the descriptor of the process, and by that of the connection to who stands in for it."""
    due: float | None = None
    how_to_end = [signal.SIGTERM, signal.SIGKILL]
    while True:
        left_s = None if due is None else max(0.0, due - time.monotonic())
        ready = waiting.poll(None if left_s is None else 1000 * left_s)
        if due is not None and time.monotonic() >= due:
            for pid in {pid for pid, _ in forks.values()}:
                os.kill(pid, how_to_end[0])
            due = time.monotonic() + LAST_S if how_to_end.pop(0) is signal.SIGTERM else None
        for number, _ in ready:
            if number == listener.fileno():
                connection, due = listener.accept()[0], None
                pid = os.fork()  # keepstep: ignore[COD113] as above
                if not pid:
                    listener.close()
                    for held, (_, each) in forks.items():
                        each.close() if held == each.fileno() else os.close(held)
                    stand_in.is_fork = True
                    become(connection)
                _tell(connection, pid)
                process = os.pidfd_open(pid)
                forks[process] = forks[connection.fileno()] = pid, connection
                waiting.register(process, select.POLLIN)
                waiting.register(connection, 0)  # nothing but its end
                continue
            pid, connection = forks.pop(number)
            waiting.unregister(number)
            if number == connection.fileno():
                os.kill(pid, signal.SIGKILL)
                continue
            os.close(number)
            how = os.waitid(
                os.P_PID, pid, os.WEXITED | os.WNOWAIT
            )  # it stays, so that the supervisor sees how it ended
            if how is not None:
                if how.si_status and due is None and how_to_end:
                    due = time.monotonic() + PATIENCE_S
                _tell(connection, how.si_status if how.si_code == os.CLD_EXITED else -how.si_status)
            if forks.pop(connection.fileno(), None):
                waiting.unregister(connection)
            connection.close()


def _tell(connection: socket.socket, number: int) -> None:
    try:
        connection.sendall(stand_in.NUMBER.pack(number))
    except OSError:
        return  # it is gone, which ends its fork
