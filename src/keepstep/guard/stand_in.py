# SPDX-License-Identifier: Apache-2.0
"""For `keepstep shrink`: in place of a Python process that a launcher of the user's starts runs a fork of one that has
imported the frameworks. The process only waits, passes signals on, and ends as its fork ends.

Works only where a trial says who forks, and for a plain script or module; all else goes on as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import struct
import sys
from typing import NoReturn

from keepstep.guard.python_command import FRAME, split_command

VARIABLE = "KEEPSTEP_TRIAL_FORKS"
"""The installation of Python, and the socket of who forks."""
NUMBER = struct.Struct("<i")
PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")

is_fork = False


def begin() -> None:
    """Called as Python starts. Does not return if a fork runs."""
    prefix, _, name = os.environ.get(VARIABLE, "").partition(os.pathsep)
    if name and prefix == sys.prefix and not is_fork and _is_plain():
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(bytes.fromhex(name))
            except OSError:
                return
            _wait(connection)


def _is_plain() -> bool:
    """Whether a fork would do the same: no options but ``-u``, and nothing is open but the output, and the file that
    Python has this from."""
    found = split_command(sys.orig_argv)
    if found is None or set(found[0]) - {"-u"} or (found[1][0] == "-m" and found[1][1].startswith("keepstep")):
        return False
    more = []
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the descriptor that lists them is gone again
            more += (
                [name] if number > 2 and not (name := os.readlink(f"/proc/self/fd/{number}")).endswith(".pth") else []
            )
    return not more and stat.S_ISCHR(os.fstat(0).st_mode)


def _wait(connection: socket.socket) -> NoReturn:
    order = {"env": dict(os.environ), "argv": sys.orig_argv, "executable": sys.executable, "cwd": os.getcwd()}
    data = json.dumps({**order, "limits": []}).encode()
    socket.send_fds(connection, [FRAME.pack(len(data))], [1, 2])
    connection.sendall(data)
    fork = _number(connection)

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(fork, number)

    for name in PASSED_ON:
        signal.signal(getattr(signal, name), pass_on)
    code = _number(connection)
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def _number(connection: socket.socket) -> int:
    data = connection.recv(NUMBER.size, socket.MSG_WAITALL)
    return NUMBER.unpack(data)[0] if len(data) == NUMBER.size else 1
