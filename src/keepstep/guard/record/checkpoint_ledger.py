# SPDX-License-Identifier: Apache-2.0
"""Records what is saved, in threads of its own beside the training, and looks at a checkpoint before it is loaded.

A file is opened as soon as its save returns, so a rename or a deletion right after it does no harm. It is read when
nobody in this process writes to it any more. ``KEEPSTEP_LEDGER=off`` turns all of this off.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import queue
import re
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepstep.base.lazy_dataclass import dataclass
from keepstep.errors import OutOfStep
from keepstep.guard.record import deleted_folders
from keepstep.guard.record.idle_work import IdleWork
from keepstep.guard.record.refused_loads import RefusedLoads

if TYPE_CHECKING:
    from keepstep.guard.protocols import SavesCheckpoints
    from keepstep.store.ledger.file_sums import FileSums
    from keepstep.store.ledger.manifest import Manifest
    from keepstep.store.ledger.verify import Verdict

PART = "ledger of checkpoints"
MODULES = {"orbax": "orbax.checkpoint"}
"""Whose name in records is not that of the module with its version."""
COMES_S, POLL_S = 600.0, 0.05
"""How long files that the framework writes in the background may take to be there."""
PAUSE_S = 0.05
"""Nothing is recorded until the script has saved nothing for this long: the thread would be in its way."""
MOST_SAVES, MOST_SAVES_S = 100, 10.0
"""What saves more often than this makes a data set, and would have to wait for the disk."""
LAST_SAVES = 3
AT_END_S, SHARE_AT_END = 5.0, 0.25
"""At its end, the process waits so long for the record of its last save, or this share of what the save took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One save, as the framework's hook sees it."""

    path: Path
    kind: str
    writer: str
    at: float
    took_s: float
    handles: Mapping[Path, int]
    """The files that are there already, open for reading."""
    step: int
    number: int
    together: bool
    mine: Callable[[str], bool]
    """Of a folder: whether this rank wrote the file of that (relative) name."""
    is_done: Callable[[], bool]


class CheckpointLedger:
    """Of one process. Everything is loaded when the first checkpoint is saved or loaded."""

    def __init__(self, session: SavesCheckpoints, env: Mapping[str, str] = os.environ) -> None:
        self._session = session
        self._off = env.get("KEEPSTEP_LEDGER", "").lower() in ("off", "0", "no", "false")
        self._queue: queue.SimpleQueue[Saved | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._numbers: Counter[str] = Counter()
        self._depth = threading.local()
        self._refused = RefusedLoads(session)
        self._times: deque[float] = deque(maxlen=MOST_SAVES)
        self._data: tuple[Path, float] | None = None
        """Where the script made a data set, and when it last saved a part of it."""
        self._waits_s = AT_END_S
        self._lasted: dict[int, float] = {}
        """Of the last steps with a save: how long all saves of that step took."""
        self._idle_work: IdleWork | None = None
        self._is_over = False
        self._recorded: deque[tuple[Path, Manifest]] = deque(maxlen=MOST_SAVES)
        self._suspect: tuple[int, str] | None = None
        """What is saved after this step is suspect, and why."""

    @property
    def usual_save_s(self) -> float | None:
        """What a save takes, by the longest of the last ones."""
        return max(self._lasted.values(), default=None)

    @property
    def last_saved(self) -> tuple[int, float] | None:
        """The step of the last checkpoint that was recorded, and when that was."""
        last = self._recorded[-1][1] if self._recorded else None
        return None if last is None else (last.step, last.made)

    def took(self, seconds: float) -> None:
        """A save of the current step took this long."""
        step = self._session.steps
        self._lasted[step] = self._lasted.get(step, 0.0) + seconds
        while len(self._lasted) > LAST_SAVES:
            del self._lasted[next(iter(self._lasted))]

    # --- for the hooks

    def saves(
        self,
        kind: str,
        writer: Callable[[], str],
        where: Callable[..., Any] | None = None,
        *,
        together: Callable[..., bool] = lambda *args, **kwargs: False,
        mine: Callable[[str], bool] = lambda name: True,
        is_done: Callable[[Any], Callable[[], bool]] = lambda result: lambda: True,
        by_others: bool = False,
    ) -> Callable[[Any], Callable[..., Any]]:
        """Makes a function that saves also record what it saved. ``where(*its arguments)`` is the path; without it,
        the function returns the path. ``writer`` is asked at each save: some packages get their version late.
        ``by_others``: it fills a folder by other functions that save, and what those wrote is what it saved."""

        def make(original: Any) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if not self._enter():
                    if where is not None and (outer := getattr(self._depth, "wrote", None)) is not None:
                        outer.add(self._path(lambda: where(*args, **kwargs)))
                    return original(*args, **kwargs)
                try:
                    wrote: set[Path | None] = set()
                    self._depth.wrote = wrote
                    path = self._path(lambda: where(*args, **kwargs)) if where is not None else None
                    if path is not None:
                        self._begin(path, folder=by_others)
                    began = time.monotonic()
                    try:
                        result = original(*args, **kwargs)
                    except BaseException:
                        if path is not None:
                            self._begin(path, folder=by_others)  # the disk may have been too full for the mark, too
                        raise
                    if where is None:
                        path = self._path(lambda: result)
                    if path is not None and result is not False:  # Orbax: it was not this step's turn
                        took_s = time.monotonic() - began
                        with self._session.part(PART):
                            self.took(took_s)
                            all_ranks = together(*args, **kwargs)
                            own = _among(wrote, path) if by_others else mine
                            self._saved(path, kind, writer(), took_s, all_ranks, own, is_done(result))
                    return result
                finally:
                    self._depth.inside = False

            return call

        return make

    def fills(self, writer: Callable[[], str], where: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
        """Makes a function that fills a folder record, at its end, what no other hook sees: texts and settings.
        ``where(its result, *its arguments)`` is the folder; None where another process writes those files. The other
        files have records of their own by then, so a kill in between shows."""

        def make(original: Any) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                began = time.monotonic()
                result = original(*args, **kwargs)
                if self._enter():
                    try:
                        path = self._path(lambda: where(result, *args, **kwargs))
                        with self._session.part(PART):
                            from keepstep.store.ledger.manifest import FOLDER_KIND

                            if path is not None and path.is_dir():
                                took_s = time.monotonic() - began
                                self._saved(path, FOLDER_KIND, writer(), took_s, False, _no_hook_sees, lambda: True)
                    finally:
                        self._depth.inside = False
                return result

            return call

        return make

    def loads(
        self, where: Callable[..., Any], *, together: Callable[..., bool] = lambda *args, **kwargs: False
    ) -> Callable[[Any], Callable[..., Any]]:
        """Makes a function that loads look at the checkpoint first. ``together(*its arguments)``: all ranks load it, so
        each looks at its share."""

        def make(original: Any) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if self._enter():
                    try:
                        path = self._path(lambda: where(*args, **kwargs))
                        if path is not None:
                            self._look(path, together(*args, **kwargs))
                        return original(*args, **kwargs)
                    finally:
                        self._depth.inside = False
                return original(*args, **kwargs)

            return call

        return make

    def suspect(self, after_step: int, why: str) -> None:
        """Numbers have been wrong since some time after this step: mark what was, and will be, saved since."""
        if self._suspect is None or after_step < self._suspect[0]:
            self._suspect = (after_step, why)
        for path, made in list(self._recorded):
            self._mark(path, made)

    def _mark(self, path: Path, made: Manifest) -> None:
        if self._suspect is not None and made.step > self._suspect[0]:
            from keepstep.store.ledger import manifest

            with contextlib.suppress(OSError):
                manifest.suspect(path, made, self._suspect[1])

    # --- what happens

    def _enter(self) -> bool:
        """Whether this is the outermost of nested saves or loads, and they are recorded."""
        if self._off or os.getpid() != self._pid or self._session.is_off(PART) or getattr(self._depth, "inside", False):
            return False
        self._depth.inside = True
        return True

    def _path(self, where: Callable[[], Any]) -> Path | None:
        """A path in a file system; None for streams and object stores."""
        try:
            named = where()
            if hasattr(named, "name") and not isinstance(named, os.PathLike):
                named = named.name
            text = os.fsdecode(named)
            from keepstep.store.ledger.checkpoint_files import on_disk

            if "\0" in text:
                return None  # no file can be named so, and the program is told
            if (place := on_disk(text)) is None:
                store = text.partition(":")[0]
                self._session.uncovered(f"what is saved in {store}://", "only files can be verified, not object stores")
                return None
            path = os.path.abspath(place)
            if not os.path.isdir(path):  # a link may be replaced by the file that is saved; its folder is where it is
                return Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            return Path(os.path.realpath(path))
        except Exception:  # no path, or the working folder is gone
            return None

    def _begin(self, path: Path, *, folder: bool = False) -> None:
        """Mark that a save begins. Frameworks may insist on making folders themselves, unless ``folder``."""
        with self._session.part(PART), contextlib.suppress(OSError):
            from keepstep.store.ledger import manifest

            if folder:
                path.mkdir(parents=True, exist_ok=True)
                manifest.begin(path, self._session.who.rank or 0)
            elif path.suffix and not self._is_data() and not path.is_dir():
                manifest.begin(path)

    def _saved(
        self,
        path: Path,
        kind: str,
        writer: str,
        took_s: float,
        together: bool,
        mine: Callable[[str], bool],
        is_done: Callable[[], bool],
    ) -> None:
        from keepstep.store.ledger import manifest
        from keepstep.store.ledger.checkpoint_files import parts_of

        if self._is_data():
            self._session.uncovered("files saved in quick succession", "that many are data, not checkpoints")
            self._times.append(time.monotonic())
            self._data = (path.parent, self._times[-1])
            manifest.forget(path)
            return
        self._times.append(time.monotonic())
        manifest.end(path, self._session.who.rank or 0)
        if not path.is_dir():
            manifest.forget(path)  # it is of the file that was there before
        handles: dict[Path, int] = {}
        if not path.is_dir():
            for each in parts_of(path):
                with contextlib.suppress(OSError):
                    handles[each] = os.open(each, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._numbers[kind] += 1
        self._waits_s = max(AT_END_S, took_s * SHARE_AT_END)
        saved = Saved(
            path=path,
            kind=kind,
            writer=writer,
            at=self._times[-1],
            took_s=took_s,
            handles=handles,
            step=self._session.steps,
            number=self._numbers[kind],
            together=together,
            mine=mine,
            is_done=is_done,
        )
        if together and path.is_dir() and is_done():
            manifest.part_ended(path, self._manifest(saved, path, {}))
        self._queue.put(saved)
        if self._thread is None:
            deleted_folders.watch()
            self._idle_work = IdleWork()
            self._thread = threading.Thread(target=self._run, name="keepstep-ledger", daemon=True)
            self._thread.start()
            atexit.register(self.close)  # not the session's: a script that only saves never opens one

    def _is_data(self) -> bool:
        """Whether this process saves so often that it makes a data set."""
        if self._queue.qsize() >= MOST_SAVES:
            return True  # the thread cannot keep up
        return len(self._times) == MOST_SAVES and time.monotonic() - self._times[0] < MOST_SAVES_S

    def _look(self, path: Path, together: bool) -> None:
        """Say that a checkpoint is damaged before it is loaded; with `run` or strict, do not load it."""
        verdict, said, size = None, "", 0
        refuses = self._session.strict or self._session.supervised
        with self._session.part(PART):
            from keepstep.store.ledger.checkpoint_files import parts_of
            from keepstep.store.ledger.states import State
            from keepstep.store.ledger.verify import verify

            share = (self._session.who.rank or 0, self._session.who.world or 1) if together else (0, 1)
            verdict = verify(path, recorded_only=True, share=share)
            if verdict.state.is_bad or verdict.state is State.CHANGED:
                said = self._say(path, verdict)
            elif verdict.unrecorded:
                why = f"{path.name} has files without a record: nothing tells whether they are what was saved"
                self._session.uncovered("the content of a loaded checkpoint", why)
            if verdict.writer is not None and (newer := _newer_than_here(verdict.writer)) is not None:
                self._session.say(f"the checkpoint {path} was saved by {newer}", always=True)
            size = sum(each.stat().st_size for each in parts_of(path)) if together and refuses else 0
        if not refuses:
            return
        refused = (self._session.who.rank, said) if verdict is not None and verdict.state.is_bad else None
        if together:
            refused = self._refused.first(said if refused is not None else "", size)
        if refused is not None:
            with contextlib.suppress(Exception):
                self._session.flush()
            by = "" if refused[0] == self._session.who.rank else f"rank {refused[0]} found that "
            raise OutOfStep(by + refused[1], hint=f"keepstep check checkpoint {path.parent} names the good ones")

    def _say(self, path: Path, verdict: Verdict) -> str:
        state = verdict.state
        saved = f" (saved at step {verdict.step} by {verdict.writer})" if verdict.writer else ""
        said = f"the checkpoint {path} {state.said}{saved}: {verdict.words}"
        fields = {"path": str(path), "why": verdict.words, "step": verdict.step, "certain": state.is_bad}
        fields |= {"state": state.word.lower()}
        self._session.open()  # most programs load before their first step
        self._session.note("CheckpointDamaged", fields, said)
        self._session.say(said, always=True)
        return said

    def close(self) -> None:
        """The process ends: wait for the record of the last save, but not for long."""
        if self._thread is not None and os.getpid() == self._pid:
            self._is_over = True
            self._queue.put(None)
            self._thread.join(self._waits_s)

    # --- the thread

    def _run(self) -> None:
        waiting: list[Saved] = []
        over = False
        while waiting or not over:
            with contextlib.suppress(queue.Empty):
                saved = self._queue.get(timeout=POLL_S if waiting else None)
                over = over or saved is None
                if saved is not None:
                    waiting.append(saved)
            if not over and self._times and time.monotonic() - self._times[-1] < PAUSE_S:
                continue
            for saved in list(waiting):
                try:
                    if self._data is not None and saved.path.parent == self._data[0] and saved.at <= self._data[1]:
                        pass  # one of the first of a data set
                    elif self._is_there(saved):
                        self._record(saved)
                    elif time.monotonic() < saved.at + COMES_S:
                        continue
                except FileNotFoundError:
                    pass  # the script deleted it: it keeps only its newest checkpoints
                except OSError as error:
                    self._forget(saved)
                    self._session.uncovered("the record of a checkpoint", f"{saved.path.name}: {error}")
                except Exception as error:
                    self._session.failed(PART, error)
                waiting.remove(saved)
                self._close(saved)
        with self._session.part(PART):
            from keepstep.store.ledger import manifest

            for path, made in self._recorded:
                manifest.forget_deleted(path, made)

    def _close(self, saved: Saved) -> None:
        from keepstep.store.ledger import manifest

        for path, handle in saved.handles.items():
            with contextlib.suppress(OSError):
                manifest.awaits_no_more(path, os.fstat(handle).st_ino)
                os.close(handle)

    def _forget(self, saved: Saved) -> None:
        """A record that could not be replaced says nothing of what is there now."""
        from keepstep.store.ledger import manifest

        manifest.forget(saved.path)

    def _record(self, saved: Saved) -> None:
        from keepstep.store.ledger import manifest
        from keepstep.store.ledger.checkpoint_files import parts_of
        from keepstep.store.ledger.file_sums import Changing

        try:
            base, target, files = self._sums(saved)
        except Changing:
            return  # a later save writes to the same file, and is recorded in its turn
        if target != saved.path:
            manifest.forget(saved.path)
        if not files and not saved.together:
            return  # it was deleted right after the save
        made = self._manifest(saved, base, files)
        with deleted_folders.still:
            if not target.is_dir() and not parts_of(target):
                return  # the script has deleted it meanwhile
            record = manifest.write(target, made)
        manifest.sync(record)  # a script that deletes the folder meanwhile need not wait for the disk
        self._recorded.append((target, made))
        self._mark(target, made)
        size = sum(each.size for each in files.values())
        self._session.note(
            "CheckpointSaved",
            {"path": str(target), "step": saved.step, "size": size, "took_s": round(saved.took_s, 3)},
            f"saved {target.name} at step {saved.step}: {size:,} bytes in {saved.took_s:.1f} s",
        )

    def _manifest(self, saved: Saved, base: Path, files: Mapping[str, FileSums]) -> Manifest:
        from keepstep.store.ledger.manifest import Manifest

        who = self._session.who
        return Manifest(
            folder=str(base),
            files=files,
            kind=saved.kind,
            writer=saved.writer,
            step=saved.step,
            rank=who.rank or 0,
            world=who.world or 1,
            number=saved.number,
            together=saved.together,
            made=time.time(),
            attempt=who.attempt,
        )

    def _is_there(self, saved: Saved) -> bool:
        """Whether the files of a save are there, and nobody here writes to them any more."""
        if not saved.is_done():
            return False
        infos = [os.fstat(each) for each in saved.handles.values()]
        infos = infos or [each.stat() for each in self._own_parts(saved)]
        if not infos:
            return saved.path.is_dir()  # the others wrote all of it
        return not _written_here(infos)

    def _own_parts(self, saved: Saved) -> list[Path]:
        from keepstep.store.ledger.checkpoint_files import parts_of

        base = saved.path if saved.path.is_dir() else saved.path.parent
        return [each for each in parts_of(saved.path) if saved.mine(each.relative_to(base).as_posix())]

    def _sums(self, saved: Saved) -> tuple[Path, Path, dict[str, FileSums]]:
        """The folder, the checkpoint's path (it may have been renamed since), and the sums of its files."""
        from keepstep.store.ledger.file_sums import sums_of as sums

        idle = self._idle_work
        if idle is not None:
            idle.waits = not self._is_over  # nobody trains any more

        def sums_of(handle: int) -> FileSums:
            return sums(handle, do=idle.do if idle is not None else lambda piece: piece())

        files: dict[str, FileSums] = {}
        if not saved.handles:
            base = saved.path if saved.path.is_dir() else saved.path.parent
            for path in self._own_parts(saved):
                handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
                try:
                    _on_disk(handle)
                    files[path.relative_to(base).as_posix()] = sums_of(handle)
                finally:
                    os.close(handle)
            return base, saved.path, files
        target = saved.path
        for path, handle in saved.handles.items():
            _on_disk(handle)
            found = sums_of(handle)
            now = _now_at(handle)
            if now is not None:
                files[now.name] = found
                target = now if path == saved.path else target
        return target.parent, target, files


def _newer_than_here(writer: str) -> str | None:
    """What wrote a checkpoint ("torch 3.0.1") and what is loaded here, if that is of an older major version."""
    name, _, version = writer.partition(" ")
    here = str(getattr(sys.modules.get(MODULES.get(name, name)), "__version__", ""))
    majors = [int(found[0]) for text in (version, here) if (found := re.match(r"\d+", text))]
    if len(majors) < 2 or majors[0] <= majors[1]:
        return None
    return f"{writer}, and this is {name} {here}: an older version may not read it"


def _among(wrote: set[Path | None], folder: Path) -> Callable[[str], bool]:
    return lambda name: folder / name in wrote


def _no_hook_sees(name: str) -> bool:
    """Whether the file of that name is none that a framework's save, on whichever rank, records by itself."""
    from keepstep.store.ledger.checkpoint_files import SUFFIXES

    return not name.endswith((*SUFFIXES, ".pkl")) and "/" not in name


def _on_disk(handle: int) -> None:
    with contextlib.suppress(OSError):
        os.fsync(handle)


def _now_at(handle: int) -> Path | None:
    """Where an open file is now: it may have been renamed. None: it was deleted."""
    try:
        name = os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return None
    return None if name.endswith(" (deleted)") else Path(name)


def _written_here(infos: list[os.stat_result]) -> bool:
    """Whether this process has one of these files open for writing."""
    wanted = {(info.st_dev, info.st_ino) for info in infos}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError, ValueError, StopIteration):
                info = os.fstat(int(name))
                if (info.st_dev, info.st_ino) in wanted:
                    with open(f"/proc/self/fdinfo/{name}") as stream:
                        flags = next(int(line.split()[1], 8) for line in stream if line.startswith("flags:"))
                    if flags & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False
