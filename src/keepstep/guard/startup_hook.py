# SPDX-License-Identifier: Apache-2.0
"""The way in without a change of code: called by the start-up hook (keepstep.pth) when KEEPSTEP is on.

Nothing is looked at or written until a framework is imported, so other Python programs under the same
variables (launchers, pip, editors) are unaffected. Only a rank that `keepstep run` started itself says why it exits.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import stat
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keepstep.guard import mode
from keepstep.guard.import_hook import Then, after_import

if TYPE_CHECKING:  # expensive: imported after a framework
    from keepstep.guard.session import Session

FRAMEWORKS = ("tensorflow", "torch", "jax")
"""Modules whose import starts the guard; the adapter of the same name then attaches."""

_session: Session | None = None
_started = False
_attached: set[str] = set()


def is_on() -> bool:
    return mode.mode() in (mode.ON, mode.STRICT)


def is_off() -> bool:
    """Whether the guard must stay off, even where the script asks for it."""
    return mode.mode() == mode.OFF


def session() -> Session:
    """The guard of this process, made when it is first asked for."""
    global _session
    if _session is None:
        from keepstep.guard import own_rank
        from keepstep.guard.ending import own_frames
        from keepstep.guard.session import Session

        _session = Session(own_rank.of_environment())
        own_frames.leave_out()
        if os.environ.get("KEEPSTEP_PAUSE"):
            with _session.part("pause"):
                from keepstep.guard.same_step import pause

                pause.begin(_session)
    return _session


def start() -> None:
    """Wait for a framework. Never raises: whatever fails here, the program starts. Some sites run their hooks twice."""
    global _started
    try:
        mode.tell_if_unknown()
        if is_on() and not _started:
            _started = True
            _let_a_fork_run()
            _print_by_the_line()
            _record_trial()
            _let_supervisor_look()
            _say_why_it_exits()
            recorded = _record_imports()
            after_import({name: _attacher(name, recorded) for name in FRAMEWORKS})
            _form_jax_world()
    except Exception as error:
        sys.stderr.write(f"keepstep: the guard could not start ({type(error).__name__}: {error})\n")


def attach_once(adapter: str, module: ModuleType) -> None:
    """Hook into a framework, unless the start-up hook did."""
    if adapter not in _attached:
        _attached.add(adapter)
        _attach(adapter, module)


def _attach(adapter: str, module: ModuleType) -> None:
    """Hook into a framework that has just been imported."""
    from keepstep.guard import own_rank

    if own_rank.is_launcher():
        return
    guard = session()
    with guard.part(f"{adapter} hooks"):
        importlib.import_module(f"keepstep.guard.adapters.{adapter}.attach").attach(guard, module)
    if guard.who.rank is not None and not own_rank.is_child_of_training():
        guard.open()


def _attacher(adapter: str, recorded: Then | None = None) -> Then:
    def then(module: ModuleType) -> None:
        try:
            attach_once(adapter, module)
            if recorded is not None:
                recorded(module)
        except Exception as error:
            sys.stderr.write(f"keepstep: the guard could not attach to {adapter} ({type(error).__name__}: {error})\n")

    return then


def _let_a_fork_run() -> None:
    if os.environ.get("KEEPSTEP_TRIAL_FORKS"):
        from keepstep.guard import stand_in

        stand_in.begin()


def _record_trial() -> None:
    if os.environ.get("KEEPSTEP_TRIAL"):
        from keepstep.guard.record import trial_record

        trial_record.begin()


def _let_supervisor_look() -> None:
    if os.environ.get("KEEPSTEP_SUPERVISOR"):
        from keepstep.guard.ending.allow_tracing import let_supervisor_look

        let_supervisor_look()


def _say_why_it_exits() -> None:
    """A rank of the supervisor may exit (``raise SystemExit("...")``) before it imports a framework, or without one."""
    if os.environ.get("KEEPSTEP_SUPERVISOR") == str(os.getppid()):
        from keepstep.base.launchers import KEEPSTEP
        from keepstep.guard.ending import system_exit

        if KEEPSTEP.rank[0] in os.environ:
            system_exit.hear(_exits)


def _exits(given: Any, place: str | None, interrupted: bool) -> None:
    if place is not None and given not in (None, 0):
        session().exits(given, place, interrupted)


def _print_by_the_line() -> None:
    """Under the supervisor, print as to a terminal: nothing is lost when the program dies, and lines stay whole."""
    out = sys.stdout
    if not os.environ.get("KEEPSTEP_SUPERVISOR") or not isinstance(out, io.TextIOWrapper) or out.write_through:
        return
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISFIFO(os.fstat(out.fileno()).st_mode):
            out.reconfigure(line_buffering=True)


def _record_imports() -> Then | None:
    """For warm spares: how this rank imports its framework, where the supervisor asked for it."""
    if not os.environ.get("KEEPSTEP_WARM"):
        return None
    from keepstep.guard import import_record

    return import_record.begin(session)


def _form_jax_world() -> None:
    """A bare ``jax.distributed.initialize()`` finds the world that the supervisor made."""
    if os.environ.get("KEEPSTEP_COORDINATOR"):
        after_import({"jax._src.clusters": _jax_world})


def _jax_world(module: ModuleType) -> None:
    try:
        from keepstep.guard.adapters.jax import detect_cluster

        detect_cluster.register(module)
    except Exception as error:
        sys.stderr.write(
            f"keepstep: jax.distributed.initialize() needs its arguments ({type(error).__name__}: {error})\n"
        )
