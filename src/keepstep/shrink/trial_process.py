# SPDX-License-Identifier: Apache-2.0
"""The process that runs trials: it has imported what the ranks import, and forks a supervisor and ranks for each trial.

    python -c "from keepstep.shrink.trial_process import main; main()" DESCRIPTOR FOLDER

DESCRIPTOR is a socket, a JSON line each way; FOLDER is for what trials leave. A trial sees the user's files through a
layer that is thrown away and has no network but loopback. Its ranks are forks of this process, so no trial imports a
framework again.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from keepstep.analyze.load_tables import known
from keepstep.base import namespaces
from keepstep.base.forked_calls import end_with_parent
from keepstep.base.lazy_dataclass import complete, incomplete
from keepstep.base.lazy_pattern import LazyPattern, ShortPattern
from keepstep.base.safe_files import make_private, replace_whole
from keepstep.errors import KeepstepError, Unavailable
from keepstep.guard import spare, stand_in
from keepstep.guard.python_command import FRAME, split_command
from keepstep.guard.record.trial_record import SUFFIX, VARIABLE
from keepstep.parse.scan.signature import Signature
from keepstep.shrink import warm_launch, warm_spawn
from keepstep.sources.stacks import process_stacks
from keepstep.supervise.executor import Crew, ThisMachine
from keepstep.supervise.options import RunOptions
from keepstep.supervise.run import Supervisor
from keepstep.supervise.show.run_terminal import Terminal
from keepstep.supervise.start.interrupts import Interrupts
from keepstep.supervise.start.launch import Job, plan
from keepstep.supervise.start.spares import Launch, SparePool

FRAMEWORKS = ("torch", "tensorflow", "jax")
HARDLY_READ = tuple(
    "XLA_FLAGS TF_CPP_MIN_LOG_LEVEL TF_CPP_MAX_VLOG_LEVEL TF_ENABLE_ONEDNN_OPTS TOKENIZERS_PARALLELISM "
    "CUDA_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS".split()
)
"""What scripts set before they import a framework, which reads them later, or for its messages and threads only. Where
that is not so, the last run in an empty folder shows it."""
GRACE_S = 5.0  # a rank that raised has to get its traceback out, on a busy machine too
LAST_BYTES = 16_000
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def main() -> None:
    """Serve until the other side is gone."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    end_with_parent()
    known()
    READY.look()
    modules: dict[str, ModuleType] = {}
    with connection, connection.makefile("r") as asked:
        for line in asked:
            order = json.loads(line)
            if "imports" in order:
                sys.modules.update(modules)
                modules = _import(order["imports"])
                answer: dict[str, Any] = {"warm": sorted(modules)}
            else:
                answer = _try(order, modules)
                READY.take(answer)
            connection.sendall(json.dumps(answer).encode() + b"\n")


def _import(names: list[str]) -> dict[str, ModuleType]:
    """Import what ranks were seen to import. Returns the frameworks, hidden until a script imports them."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    spare._import_guard({name: {} for name in FRAMEWORKS if name in sys.modules})
    return {name: sys.modules.pop(name) for name in FRAMEWORKS if name in sys.modules}


ON_FIRST_USE = {LazyPattern: "compiled", ShortPattern: "compiled", Signature: "pattern"}


class _Ready:
    """What the diagnosis of a trial had to load or compile is made ready here for those that follow."""

    TRIALS = 3

    def __init__(self) -> None:
        self._left = self.TRIALS
        self._patterns: list[Any] = []
        self._classes: list[type] = []

    def look(self) -> None:
        """Before a trial's fork, which then knows the same by the same numbers."""
        self._patterns = [each for each in gc.get_objects() if type(each) in ON_FIRST_USE]
        self._classes = list(incomplete)

    def used(self) -> dict[str, Any]:
        """In the fork, at its end."""
        patterns = [n for n, each in enumerate(self._patterns) if ON_FIRST_USE[type(each)] in vars(each)]
        classes = [n for n, each in enumerate(self._classes) if each not in incomplete]
        modules = [name for name in sys.modules if name.startswith("keepstep.")]
        return {"ready": {"patterns": patterns, "classes": classes, "modules": modules}}

    def take(self, said: dict[str, Any]) -> None:
        ready = said.pop("ready", {})
        for name in ready.get("modules", ()):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        for number in ready.get("patterns", ()):
            pattern = self._patterns[number]
            getattr(pattern, ON_FIRST_USE[type(pattern)])
        for number in ready.get("classes", ()):
            complete(self._classes[number])
        self._left -= 1
        self._patterns, self._classes = [], []
        if self._left:
            self.look()


def _try(order: dict[str, Any], modules: dict[str, ModuleType]) -> dict[str, Any]:
    """One trial, in a fork; what it says, or why it says nothing."""
    scratch = tempfile.mkdtemp(dir=sys.argv[2])
    ours, theirs = os.pipe()
    began = time.monotonic()
    child = os.fork()  # keepstep: ignore[COD113] nothing has been started: the frameworks are only imported
    if not child:
        os.close(ours)
        _in_fork(order, modules, scratch, theirs)
    os.close(theirs)
    body = bytearray()
    try:
        while (left := began + order["limit_s"] - time.monotonic()) > 0 and select.select([ours], [], [], left)[0]:
            piece = os.read(ours, 1 << 20)
            if not piece:
                break
            body += piece
        else:
            return {"late": True, "took_s": time.monotonic() - began}
        with contextlib.suppress(ValueError):
            return {**json.loads(body), "took_s": time.monotonic() - began}
        return {"broken": "the trial's own process ended early", "took_s": time.monotonic() - began}
    finally:
        os.close(ours)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        shutil.rmtree(scratch, ignore_errors=True)


READY = _Ready()


def _in_fork(order: dict[str, Any], modules: dict[str, ModuleType], scratch: str, answer: int) -> NoReturn:
    try:
        end_with_parent()
        os.chdir(order["cwd"])
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            namespaces.enter(scratch, order["folders"])
        except OSError as error:
            raise Unavailable(
                f"the kernel refuses namespaces ({error.strerror}), and without them nothing is tried"
            ) from None
        said = os.open(os.path.join(scratch, "said"), os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        child = os.fork()  # keepstep: ignore[COD113] as above; the first process of a namespace only waits
        while child:
            if os.wait()[0] == child:
                os._exit(0)
        found = _supervise(order, modules, scratch)
    except BaseException as error:
        known = isinstance(error, KeepstepError)
        found = {"broken": str(error) if known else f"{type(error).__name__}: {error}"}
        found["trace"] = "" if known else traceback.format_exc()[-LAST_BYTES:]
    rest = memoryview(json.dumps(found).encode())
    while rest:
        rest = rest[os.write(answer, rest) :]
    os._exit(0)


def _supervise(order: dict[str, Any], modules: dict[str, ModuleType], scratch: str) -> dict[str, Any]:
    for name, text in order["files"].items():
        make_private(Path(name).parent)
        replace_whole(name, text.encode(), 0o644)
    for name in order["gone"]:
        with contextlib.suppress(OSError):
            os.unlink(name)
    trial = os.path.join(scratch, "trial")
    make_private(Path(trial))
    os.environ.clear()
    os.environ.update({**order["env"], **OFFLINE, "TMPDIR": tempfile.gettempdir(), VARIABLE: trial})
    if order["lines"]:
        os.environ[VARIABLE + "_LINES"] = os.pathsep.join(order["folders"])
    if order["most_lines"]:
        os.environ[VARIABLE + "_MOST"] = str(order["most_lines"])
    if order["finite"]:
        os.environ[VARIABLE + "_FINITE"] = "1"
    if order["plain"]:
        process_stacks.leave_out_native()
    job = plan(order["command"], ranks=order["ranks"], **order["roles"])
    asked = RunOptions(
        job=job,
        run_dir=Path(scratch) / "runs",
        check=False,
        max_attempts=1,
        spares=False,
        suspected_wait_s=order["patience_s"],
        grace_s=GRACE_S,
        quiet=True,
    )
    holders = _Forks(job, modules) if modules else None
    if modules or job.as_given:
        become = partial(_become_rank, modules=modules) if modules else _start_anew
        os.environ[stand_in.VARIABLE] = warm_launch.begin(become)

    def crew(asked: RunOptions, env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts) -> Crew:
        made = ThisMachine(asked, env, terminal, interrupts, _no_reserve())
        if holders is not None:
            made._means.pool = holders
        return made

    status = Supervisor(asked, os.environ, make_crew=crew).run()
    sys.stdout.flush()
    folder = next((Path(scratch) / "runs").iterdir())
    return {
        "status": status,
        **READY.used(),
        **_left_in(folder, Path(trial), order),
        "said": _end_of(os.path.join(scratch, "said")),
    }


def _no_reserve() -> Any:
    from keepstep.store.reserved_space import Reserve

    return Reserve()


def _left_in(folder: Path, trial: Path, order: dict[str, Any]) -> dict[str, Any]:
    """What the run folder and the ranks' own records say."""
    found: dict[str, Any] = {"report": _json(folder / "report.json"), "exits": [], "stacks": []}
    attempt = folder / "attempt-0"
    for key in ("exits", "stacks"):
        with contextlib.suppress(OSError):
            lines = (attempt / f"{key}.jsonl").read_text(errors="replace").splitlines()
            found[key] = [json.loads(line) for line in lines]
    found["logs"] = {path.name: _end_of(str(path)) for path in sorted(attempt.glob("*.log"))}
    found["values"] = [_json(path) for path in sorted(trial.glob("*.values.json"))]
    if order["lines"]:
        texts = [path.read_text(errors="replace") for path in sorted(trial.glob(f"*{SUFFIX}"))]
        for key, mark in (("lines", "L"), ("again", "A")):
            seen = {line[1:].partition(" ")[::2] for text in texts for line in text.splitlines() if line[:1] == mark}
            found[key] = sorted([file, int(line)] for line, file in seen)
        found["apart"] = _apart([each for each in found["values"] if each], trial)
        counts = [int(line[1:]) for text in texts for line in text.splitlines() if line[:1] == "N"]
        found["count"] = max(counts, default=0)
        found["endless"] = order["most_lines"] in counts
        found["opened"] = sorted({line[1:] for text in texts for line in text.splitlines() if line[:1] == "O"})
        found["imports"] = list(
            dict.fromkeys(line[1:] for text in texts for line in text.splitlines() if line[:1] == "M")
        )
    found["silent_s"] = _silent_s(attempt, [each["at"] for each in found["values"] if each])
    if order["issued"] and _cause(found["report"]).startswith("sync."):
        found["issued"] = _issued(attempt)
    if order["shown"]:
        from keepstep.base.redact import redacted
        from keepstep.render.terminal import render_terminal
        from keepstep.supervise.show.diagnosis import explain

        found["shown"] = render_terminal(redacted(explain(attempt)[0]), colour=False, width=80)
    return found


def _apart(values: list[dict[str, Any]], trial: Path) -> list[list[Any]]:
    """The lines that other ranks ran before they passed the one at which the first failed, and that it did not run."""
    first = min(values, key=lambda each: float(each["at"]), default=None)
    if first is None:
        return []
    failed = {f"{each['pid']}{SUFFIX}" for each in values}
    theirs: set[str] = set()
    mine: set[str] = set()
    for path in trial.glob(f"*{SUFFIX}"):
        before, at, after = path.read_text(errors="replace").partition(f"L{first['line']} {first['file']}\n")
        ran = {line[1:] for line in before.splitlines() if line[:1] == "L"}
        if path.name == f"{first['pid']}{SUFFIX}":
            mine = ran
        elif at and any(line[:1] in ("LA" if path.name in failed else "LAE") for line in after.splitlines()):
            theirs |= ran
    return sorted([file, int(line)] for line, _, file in (each.partition(" ") for each in theirs - mine))


def _silent_s(attempt: Path, raised: list[float]) -> float:
    """For how long ranks had been silent when the first of them raised; 0.0: none was, or none did."""
    with contextlib.suppress(OSError):
        events = [json.loads(line) for line in (attempt / "events.jsonl").read_text().splitlines()]
        began = [each["at"] - each["quiet_s"] for each in events if each["what"] == "suspicion"]
        return max(0.0, min(raised) - began[-1]) if began and raised else 0.0
    return 0.0


def _cause(report: Any) -> str:
    return str(next((each["cause"] for each in (report or {}).get("findings", ())), ""))


def _issued(attempt: Path) -> list[dict[str, Any]]:
    """The collectives that ranks noted, oldest first."""
    from keepstep.analyze.why import explain_paths
    from keepstep.model.facts.guard import CollectivesIssued

    seen = explain_paths([attempt / "guard"]).seen.all(CollectivesIssued)
    noted = sorted((each for each in seen if each.who is not None), key=lambda each: each.at or 0.0)
    return [{"rank": e.who, "group": e.fact.group, "members": e.fact.members, "issued": e.fact.issued} for e in noted]


def _json(path: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text())
    return None


def _end_of(path: str) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - LAST_BYTES))
        return stream.read().decode(errors="replace")
    return ""


class _Forks(SparePool):
    """Ranks that are forks of this process; made before the supervisor starts a thread."""

    def __init__(self, job: Job, modules: dict[str, ModuleType]) -> None:
        super().__init__(start=lambda *_: None, say=lambda _: None, on=False)  # type: ignore[arg-type]
        self._modules = modules
        self._waiting: dict[int, tuple[int, socket.socket]] = {}
        words = split_command(list(job.command))
        if (
            words is None
            or words[0]
            or os.path.realpath(shutil.which(job.command[0]) or "") != os.path.realpath(sys.executable)
        ):
            return  # its options or its interpreter are others: it is started as usual
        for number, _ in enumerate(job.members):
            ours, theirs = socket.socketpair()
            child = os.fork()  # keepstep: ignore[COD113] as above
            if not child:
                ours.close()
                for _, each in self._waiting.values():
                    each.close()
                _become_rank(theirs, modules)
            theirs.close()
            self._waiting[number] = child, ours

    def take(self, launch: Launch, out: int, err: int) -> subprocess.Popen[bytes] | None:
        held = self._waiting.pop(launch.rank, None)
        if held is None:
            return None
        pid, connection = held
        order: dict[str, Any] = {"env": dict(launch.env), "argv": list(launch.command), "executable": sys.executable}
        order |= {"cwd": str(launch.cwd), "limits": [list(each) for each in launch.limits]}
        data = json.dumps(order).encode()
        socket.send_fds(connection, [FRAME.pack(len(data))], [out, err])
        connection.sendall(data)
        return _Forked(pid, launch.command)


class _Forked(subprocess.Popen[bytes]):
    """A process that is there already, to be waited for as any other."""

    def __init__(self, pid: int, command: tuple[str, ...]) -> None:
        self.args, self.pid, self.returncode = command, pid, None
        self.stdin = self.stdout = self.stderr = None
        self._waitpid_lock = threading.Lock()
        self._child_created = True
        self._communication_started = False
        self._input = None


def _start_anew(connection: socket.socket) -> NoReturn:
    """Wait for the order, and start Python as it says: nothing of this process is left."""
    order = _ordered(connection)
    order["env"].pop(stand_in.VARIABLE)
    os.execve(order["executable"], [order["executable"], *order["argv"][1:]], order["env"])


def _ordered(connection: socket.socket) -> dict[str, Any]:
    """Wait for the order, and take the place that it says."""
    end_with_parent()
    order, outs = spare._receive(connection)
    connection.close()
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    spare._become(order, outs)
    return order


def _become_rank(connection: socket.socket, modules: dict[str, ModuleType]) -> NoReturn:
    """Wait for the order, then run the script as its interpreter would, and exit as it would."""
    order = _ordered(connection)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spare.CHANGES += HARDLY_READ
    record = {
        "frameworks": {name: {"change": 0} for name in modules},
        "changes": [{"set": {}, "removed": []}],
        "affinity": sorted(os.sched_getaffinity(0)),
        "done": {},
    }
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler = importlib.import_module("faulthandler")
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    if sys.version_info < (3, 14):  # there a fork server wants to know its clients
        warm_spawn.begin(modules)
    code = 1
    try:
        spare._run(order, record, modules)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, spare.__file__):
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code & 0xFF)
