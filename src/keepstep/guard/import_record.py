# SPDX-License-Identifier: Apache-2.0
"""How this rank imported its framework: in which order, and under which variables. A warm spare repeats exactly that.

Works only where the supervisor named a folder for it (KEEPSTEP_WARM) that no other user can read: what the script put
into its environment may be secret. Only the search for modules is hooked, and it always continues as without the
hook.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keepstep.base.safe_files import write_whole

if TYPE_CHECKING:
    from keepstep.guard.protocols import Follows

VARIABLE = "KEEPSTEP_WARM"
FAMILY = ("torch", "tensorflow", "keras", "tf_keras", "jax", "jaxlib")
"""What a spare imports: the frameworks, with their own submodules that the training loaded up to its first steps."""
QUIET = tuple(
    """
    numpy scipy pandas packaging typing_extensions ml_dtypes h5py sympy mpmath networkx absl google PIL yaml _yaml
    markupsafe psutil regex tqdm wrapt opt_einsum msgpack optree _cffi_backend cffi charset_normalizer yarl
    multidict certifi zstandard lz4 pyarrow
    """.split()
)
"""Packages that only load: a spare loads them before the framework if the script did."""
FIRST_STEPS = 3
LOOK_S = 0.5
QUIET_TIMES = 4
"""After this many looks without a new module the record is ready, even where no steps are visible."""
MOST_MODULES = 20_000


class ImportRecord:
    """A module finder that finds nothing and writes down which modules were searched for, under which variables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = dict(os.environ)
        self._affinity = _affinity()
        self._raw = _raw_environment()
        self._changes: list[dict[str, Any]] = [{"set": {}, "removed": []}]
        self._order: list[tuple[str, int]] = []
        self._frameworks: dict[str, dict[str, Any]] = {}
        self._strangers: list[str] = []
        self._files: list[list[Any]] = []
        self._written = 0
        self._quiet = 0
        self._resident_kb = 0
        self._over = False
        """Nothing more is looked at or written."""
        self._settled = False
        """It is ready to be read."""
        self.followed = False
        """The guard's thread looks after it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Called for every module that is not loaded yet; a few microseconds."""
        if self._over:
            return
        try:
            self._see(name)
        except Exception:  # whatever is wrong with the record, the import continues, and there will be no spare
            self._over = True
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _see(self, name: str) -> None:
        self._look_at_variables()
        for each in self._frameworks:
            if _is_being_imported(each):
                self.after(each)
        if name in FAMILY and name not in self._frameworks:
            self._before(name)
        self._order.append((name, len(self._changes) - 1))
        if len(self._order) > MOST_MODULES:
            raise OverflowError("too many modules")

    def _look_at_variables(self) -> None:
        raw = _raw_environment()
        if raw != self._raw:
            self._raw = raw
            self._changes.append(self._change())

    def after(self, name: str) -> None:
        """How the import of a framework has itself changed the variables so far."""
        self._look_at_variables()
        if name in self._frameworks:
            self._frameworks[name]["after"] = len(self._changes) - 1

    def imported(self, name: str) -> None:
        """The import of a framework has just ended."""
        self.after(name)
        self._resident_kb = max(self._resident_kb, _resident_kb())

    def _change(self) -> dict[str, Any]:
        """How the script has changed the variables it was started with."""
        now = dict(os.environ)
        changed = {name: value for name, value in now.items() if self._start.get(name) != value}
        return {"set": changed, "removed": [name for name in self._start if name not in now]}

    def _before(self, name: str) -> None:
        """The moment before a framework is imported."""
        within = next((each for each in self._frameworks if _is_being_imported(each)), None)
        change = len(self._changes) - 1
        self._frameworks[name] = {"change": change, "after": change, "affinity": _affinity(), "within": within}
        if len(self._frameworks) == 1:
            self._strangers = _native_strangers()
            self._files = [list(each) for each in own_files()]

    @property
    def loaded(self) -> list[str]:
        """The frameworks that were searched for and are loaded now."""
        return [name for name in self._frameworks if name in sys.modules]

    def write(self, steps: int = 0) -> None:
        """Write the record, again whenever there is more to say, and finally after the training's first steps."""
        if self._over or not self.loaded or any(_is_being_imported(name) for name in self._frameworks):
            return
        self._quiet = self._quiet + 1 if len(self._order) == self._written else 0
        self._over = steps >= FIRST_STEPS
        settled = self._over or self._quiet >= QUIET_TIMES
        if self._quiet and settled == self._settled:
            return
        self._settled = settled
        self._written = len(self._order)
        write_whole(self.path, json.dumps(self._content()).encode())

    def _content(self) -> dict[str, Any]:
        frameworks = {}
        for name in self.loaded:
            module = sys.modules[name]
            frameworks[name] = {**self._frameworks[name], "file": getattr(module, "__file__", None)}
            frameworks[name]["version"] = str(getattr(module, "__version__", ""))
        return {
            "settled": self._settled,
            "pid": os.getpid(),
            "argv": list(sys.orig_argv),
            "executable": sys.executable,
            "flags": [repr(each) for each in sys.flags],
            "own_files": self._files,
            "strangers": self._strangers,
            "affinity": self._affinity,
            "frameworks": frameworks,
            "changes": self._changes,
            "modules": self._modules(frameworks),
            "resident_kb": self._resident_kb,
        }

    def _modules(self, frameworks: dict[str, Any]) -> list[list[Any]]:
        """What a spare imports, in order: quiet packages from before the framework, then the framework and its parts.

        A part of the framework that was loaded under other variables than stood when the framework was there, or the
        one that imported it, is left to the script.
        """
        chosen: list[list[Any]] = []
        known: set[str] = set()
        waiting = set(frameworks)
        for name, change in self._order:
            top = name.partition(".")[0]
            if name in known or name not in sys.modules:
                continue
            own = top in frameworks and (name == top or change in _left_by(top, frameworks))
            if own or (top in QUIET and waiting):
                known.add(name)
                waiting.discard(name)
                chosen.append([name, change])
        return chosen


def _left_by(name: str, frameworks: dict[str, Any]) -> set[int]:
    """The variables as the framework left them, and as the framework that imported it left them."""
    outer = frameworks[name]["within"]
    return {frameworks[each]["after"] for each in (name, outer) if each in frameworks}


def own_files() -> list[tuple[str, int, int]]:
    """The script and the user's modules that are loaded now: path, time and size of each."""
    found = []
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and not _is_installed(path):
            with contextlib.suppress(OSError):
                info = os.stat(path)
                found.append((os.path.abspath(path), info.st_mtime_ns, info.st_size))
    return sorted(set(found))


def digest_of(path: str) -> str | None:
    """A hash of the file's content."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _is_being_imported(name: str) -> bool:
    return bool(getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False))


def _is_installed(path: str) -> bool:
    return (
        "site-packages" in path or "dist-packages" in path or path.startswith((_STANDARD, _OWN)) or path.startswith("<")
    )


_STANDARD = sysconfig.get_path("stdlib")
_OWN = str(Path(__file__).parent.parent)


def _native_strangers() -> list[str]:
    """Compiled modules that were loaded before the framework, but that a spare would not load before it."""
    found = []
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        top = name.partition(".")[0]
        if not isinstance(origin, str) or not origin.endswith((".so", ".pyd")):
            continue
        if (
            top not in QUIET
            and top not in FAMILY
            and top not in sys.stdlib_module_names
            and not origin.startswith(_STANDARD)
        ):
            found.append(name)
    return found[:20]


def _raw_environment() -> Any:
    """A copy that is cheap to compare."""
    data = getattr(os.environ, "_data", None)
    return dict(data) if isinstance(data, dict) else dict(os.environ)


def _affinity() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _resident_kb() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    return 0


def begin(session: Callable[[], Follows]) -> Callable[[ModuleType], None] | None:
    """Record from now on, if the supervisor asked for it. Returns what to call after each framework's import."""
    folder = os.environ.get(VARIABLE)
    rank = os.environ.get("KEEPSTEP_RANK", "")
    if not folder or not rank.isdecimal() or not os.path.isdir(folder) or "keepstep.guard.spare" in sys.modules:
        return None
    record = ImportRecord(Path(folder) / f"rank{rank}-{os.getpid()}.json")
    sys.meta_path.insert(0, record)

    def imported(module: ModuleType) -> None:
        record.imported(module.__name__)
        guard = session()
        if not record.followed:
            record.followed = True
            guard.pulse.every(LOOK_S, "record of imports", lambda: record.write(guard.steps))

    return imported
