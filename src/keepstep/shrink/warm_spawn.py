# SPDX-License-Identifier: Apache-2.0
"""Processes that a script spawns (`mp.spawn`) come from a process that has the frameworks, as the ranks of a trial do.

That is Python's own fork server, forked from the rank before its script begins: what it forks is as empty as what would
have been spawned, but for the frameworks.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
from collections.abc import Mapping
from multiprocessing import context, forkserver, spawn
from types import ModuleType
from typing import Any, NoReturn

ENVIRONMENT = "keepstep_environment"


def begin(modules: Mapping[str, ModuleType]) -> None:
    """From here on this process has such a server, and what it spawns comes from there."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel gives it a name that is no file's
        listener.listen()
        address = listener.getsockname()
        alive, held = os.pipe()
        pid = os.fork()  # keepstep: ignore[COD113] nothing has been started: the frameworks are only imported
        if not pid:
            os.close(held)
            _serve(listener.detach(), alive, modules)
        os.close(alive)
    server: Any = forkserver._forkserver
    server._forkserver_address, server._forkserver_alive_fd, server._forkserver_pid = address, held, pid
    spawned: Any = context.SpawnProcess
    spawned._Popen = staticmethod(context.ForkServerProcess._Popen)
    said = spawn.get_preparation_data
    spawn.get_preparation_data = lambda name: {**said(name), ENVIRONMENT: dict(os.environ)}


def _serve(listener: int, alive: int, modules: Mapping[str, ModuleType]) -> NoReturn:
    prepare = spawn.prepare

    def prepared(data: dict[str, Any]) -> None:
        os.environ.clear()
        os.environ.update(data.pop(ENVIRONMENT, {}))
        sys.orig_argv[:] = [
            sys.executable,
            "-c",
            "from multiprocessing.spawn import spawn_main",
            "--multiprocessing-fork",
        ]
        sys.modules.update(modules)
        vars(sys.modules["__main__"]).pop("__file__", None)  # it is read anew, as another module
        if os.environ.get("PYTHONFAULTHANDLER"):
            faulthandler.enable()
        from keepstep.guard import startup_hook

        startup_hook.start()
        prepare(data)

    spawn.prepare = prepared  # type: ignore[assignment]
    try:
        forkserver.main(listener, alive, [])
    finally:
        os._exit(0)
