# SPDX-License-Identifier: Apache-2.0
"""A warm spare: a process that imports a framework just as a rank did, waits, and becomes a rank on request.

    python FLAGS -c "from keepstep.guard.spare import main; main()" DESCRIPTOR RECORD

DESCRIPTOR is a socket to the supervisor: when it closes, the spare ends. The script then runs as ``__main__`` in a
process that looks like a cold start: same arguments, folder, variables, paths. The frameworks are hidden until the
script itself imports them; if its variables then differ from those under which the spare imported, the process starts
cold (the same command, by exec).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import json
import os
import pkgutil
import resource
import socket
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from keepstep.guard.python_command import FRAME, split_command

LONGEST = 1 << 20
CHANGES = tuple(
    """
    MASTER_ADDR MASTER_PORT WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE TF_CONFIG
    JAX_COORDINATOR_ADDRESS JAX_NUM_PROCESSES COORDINATOR_ADDRESS NUM_PROCESSES KEEPSTEP PWD OLDPWD SHLVL _
    """.split()
)
"""Variables besides KEEPSTEP_* that differ from attempt to attempt; no framework reads them on import."""
GLADLY = "900"
POLITE = 10


class Unfit(Exception):
    """This process cannot replace a cold start."""


def lasting(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that are the same at every attempt."""
    return {name: value for name, value in env.items() if name not in CHANGES and not name.startswith("KEEPSTEP_")}


def main() -> None:
    """The whole life of a spare."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    with open(sys.argv[2]) as stream:
        record = json.load(stream)
    start, why = dict(os.environ), ""
    score = _ended_first(GLADLY)
    priority = _step_back()
    modules: dict[str, ModuleType] = {}
    try:
        record["done"] = _import(record, start)
        modules = _put_away(record)
    except BaseException as error:
        why = f"{type(error).__name__}: {error}"
    _set_environment(start)
    if priority is not None:
        _step_forward(priority)
    _send(connection, {"ready": not why, "why": why[:500], "resident_kb": _private_kb(), "cpu_s": _cpu_s()})
    order, outs = _receive(connection)
    connection.close()
    order["env"] = {**_added_by_python(start), **order["env"]}
    _ended_first(score)
    _become(order, outs)
    if why:
        _start_cold(order, f"the spare could not import: {why}")
    _run(order, record, modules)


def _added_by_python(start: dict[str, str]) -> dict[str, str]:
    """Variables that Python set for itself when it started (LC_CTYPE, in a C locale): a cold start has them too."""
    with contextlib.suppress(OSError):
        given = {entry.partition(b"=")[0] for entry in Path("/proc/self/environ").read_bytes().split(b"\0")}
        return {name: value for name, value in start.items() if os.fsencode(name) not in given}
    return {}


def _import(record: dict[str, Any], start: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Repeat each import under the variables it had. Returns how each framework itself changed the variables."""
    options = split_command(record["argv"])
    if options is None:
        raise Unfit("the command cannot be repeated")
    _set_path(options[1], Path.cwd())
    done: dict[str, dict[str, Any]] = {}
    for name, change in record["modules"]:
        if name in sys.modules:
            continue
        _set_environment(start, record["changes"][change])
        before = dict(os.environ)
        try:
            importlib.import_module(name)
        except Exception:
            if name in record["frameworks"]:
                raise
        if name in record["frameworks"]:
            done[name] = _difference(before, dict(os.environ))
    for name, about in record["frameworks"].items():
        if name not in sys.modules or getattr(sys.modules[name], "__file__", None) != about["file"]:
            raise Unfit(f"{name} is not the one that the script imported")
    _import_guard(record["frameworks"])
    if (awake := _awake()) is not None:
        raise Unfit(f"importing {awake} also started it")
    return done


def _import_guard(frameworks: Mapping[str, Any]) -> None:
    """Load what the rank's guard will need: its own modules, which do nothing until they are called."""
    from keepstep import cluster  # noqa: F401
    from keepstep.base import redact  # noqa: F401
    from keepstep.guard import adapters, import_record, session  # noqa: F401

    for each in pkgutil.walk_packages(adapters.__path__, f"{adapters.__name__}."):
        if any(f".adapters.{name}." in each.name for name in frameworks):
            importlib.import_module(each.name)


def _awake() -> str | None:
    """A framework that has already started: its devices are up, and the script could no longer configure it."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "_backends", None):
        return "jax"
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return "torch"
    context = sys.modules.get("tensorflow.python.eager.context")
    now = context.context_safe() if context is not None else None
    return "tensorflow" if now is not None and getattr(now, "_initialized", False) else None


def _put_away(record: dict[str, Any]) -> dict[str, ModuleType]:
    """Hide the frameworks until the script imports them; what one of them imported itself stays with it."""
    return {name: sys.modules.pop(name) for name, about in record["frameworks"].items() if about["within"] is None}


class _Shelf:
    """Finds the hidden frameworks, if the variables are those they were imported under."""

    def __init__(self, modules: dict[str, ModuleType], record: dict[str, Any], order: dict[str, Any]) -> None:
        self._modules, self._record, self._order = modules, record, order
        self._specs = {name: module.__spec__ for name, module in modules.items()}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        self._hold_against(name)
        spec = self._specs[name]
        origin, is_package = spec.origin if spec else None, hasattr(self._modules[name], "__path__")
        return ModuleSpec(name, self, origin=origin, is_package=is_package)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__spec__ = self._specs[name]
        if module.__spec__ is not None:
            module.__loader__ = module.__spec__.loader
        del self._modules[name]
        done = self._record["done"].get(name)
        if done:  # the import of some frameworks sets variables
            _set_environment(os.environ.copy(), done)

    def _hold_against(self, name: str) -> None:
        change = self._record["changes"][self._record["frameworks"][name]["change"]]
        wanted = lasting(_changed(self._order["env"], change))
        now = lasting(os.environ)
        if now != wanted:
            names = sorted(key for key in now.keys() | wanted.keys() if now.get(key) != wanted.get(key))
            _start_cold(self._order, f"the script now imports {name} with another {', '.join(names[:5])}")
        affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if affinity != self._record["affinity"]:
            _start_cold(self._order, f"the script now imports {name} on other cores")


def _become(order: dict[str, Any], outs: tuple[int, int]) -> None:
    """Take over the place of a rank: output, folder, limits, variables."""
    said = b""
    with contextlib.suppress(OSError):
        size = os.fstat(1).st_size
        said = os.pread(1, min(size, LONGEST), 0) if size else b""
    for number, out in enumerate(outs, 1):
        os.dup2(out, number)
        os.close(out)
    while said:
        said = said[os.write(1, said) :]
    os.chdir(order["cwd"])
    for name, value in order["limits"]:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            resource.setrlimit(number, (hard if value < 0 else value, hard))
    _set_environment(order["env"])


def _start_cold(order: dict[str, Any], why: str) -> NoReturn:
    """Run the same command from the start, in this process."""
    sys.stderr.write(f"keepstep: {why}; started cold\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(order["executable"], [order["executable"], *order["argv"][1:]], order["env"])


def _run(order: dict[str, Any], record: dict[str, Any], modules: dict[str, ModuleType]) -> None:
    """Run the script, or the module, as the main program."""
    _, words = split_command(order["argv"]) or ([], [])
    _set_path(words, Path(order["cwd"]))
    sys.orig_argv[:] = order["argv"]
    sys.meta_path.insert(0, _Shelf(modules, record, order))
    from keepstep.guard import startup_hook as start

    start.start()
    if words[0] == "-m":
        import runpy

        sys.argv[:] = words[1:]
        vars(sys.modules["__main__"]).pop("main", None)
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
        return
    sys.argv[:] = words
    path = os.path.join(order["cwd"], words[0])
    with open(path, "rb") as stream:
        source = stream.read()
    program = _fresh_main(path)
    try:
        exec(compile(source, path, "exec", dont_inherit=True), program)
    except SystemExit:
        raise
    except BaseException:
        _hide_own_frames()
        raise


def _fresh_main(path: str) -> dict[str, Any]:
    """The module ``__main__`` as a script expects it."""
    main = sys.modules["__main__"]
    space = vars(main)
    builtins = space["__builtins__"]
    space.clear()
    space.update(
        __name__="__main__", __doc__=None, __package__=None, __spec__=None, __annotations__={}, __builtins__=builtins
    )
    space.update(__file__=path, __cached__=None, __loader__=importlib.machinery.SourceFileLoader("__main__", path))
    return space


def _hide_own_frames() -> None:
    """An uncaught exception is shown as the script alone would show it."""
    show = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<string>"):
            trace = trace.tb_next
        if error is not None:
            error.__traceback__ = trace
        show(kind, error, trace)

    sys.excepthook = hook


_FIRST = [""]
"""The entry that we put first in sys.path; Python itself put the empty name there."""


def _set_path(words: list[str], cwd: Path) -> None:
    """The first place where modules are searched: the script's folder, or the working directory for ``-m``."""
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return
    first = str(cwd) if words[0] == "-m" else os.path.dirname(os.path.realpath(cwd / words[0]))
    if _FIRST[0] in sys.path:
        sys.path[sys.path.index(_FIRST[0])] = first
    _FIRST[0] = first


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Any]:
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return {"set": changed, "removed": [name for name in before if name not in after]}


def _changed(env: Mapping[str, str], change: dict[str, Any]) -> dict[str, str]:
    found = {**env, **change["set"]}
    for name in change["removed"]:
        found.pop(name, None)
    return found


def _set_environment(env: Mapping[str, str], change: dict[str, Any] | None = None) -> None:
    wanted = _changed(env, change) if change else dict(env)
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _step_back() -> int | None:
    """Let trainings go first while this imports, where that can be undone later; returns the earlier priority."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    limit = resource.getrlimit(resource.RLIMIT_NICE)[0]
    if os.geteuid() != 0 and limit != resource.RLIM_INFINITY and 20 - limit > before:
        return None
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(before + POLITE, 19))
    except OSError:
        return None
    return before


def _step_forward(priority: int) -> None:
    """All threads as they would be in a cold start."""
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(task), priority)


def _ended_first(score: str) -> str:
    """Set how readily the kernel kills this process when memory is short; returns the earlier value."""
    before = score
    with contextlib.suppress(OSError):
        path = Path("/proc/self/oom_score_adj")
        before = path.read_text().strip()
        path.write_text(score)
    return before


def _private_kb() -> int:
    """Memory that only this process uses."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/smaps_rollup") as stream:
        parts = [line.split() for line in stream if line.startswith(("Private_Clean", "Private_Dirty"))]
        return sum(int(part[1]) for part in parts)
    return 0


def _cpu_s() -> float:
    times = os.times()
    return round(times.user + times.system, 2)


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    with contextlib.suppress(OSError):  # if the supervisor is gone, the next call shows it
        connection.sendall(FRAME.pack(len(data)) + data)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], tuple[int, int]]:
    """Wait for the order and the output's descriptors. The spare ends when the supervisor is gone."""
    head, handles, _, _ = socket.recv_fds(connection, FRAME.size, 2)
    if len(head) < FRAME.size or len(handles) < 2:
        os._exit(0)
    (length,) = FRAME.unpack(head)
    data = b""
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return json.loads(data), (handles[0], handles[1])
