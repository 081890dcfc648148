# SPDX-License-Identifier: Apache-2.0
"""The world that torch.distributed forms, and words between guards through its store, on a connection of their own."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import platform
import queue
import re
import socket
import sys
import threading
import urllib.parse
from collections.abc import Callable
from types import ModuleType
from typing import Any

from keepstep.core.contracts import Subject
from keepstep.guard.adapters import torch_watch
from keepstep.guard.adapters.torch_state import Torch, replace
from keepstep.guard.arriving import rendezvous

LONGEST_WAIT_S = 5
LONGEST_ANSWER_S = 0.25
"""An answer of the store that takes longer is not waited for."""
LAST_ANSWER_S, CUT_OFF_S = 2.0, 1.0
"""When the process leaves: for the answer that is under way, and, once its connection is cut, for the thread."""
OPTIONS = ("NCCL_", "TORCH_NCCL_", "GLOO_", "UCC_", "RCCL_")
OF_THE_HOST = re.compile(r"IFNAME|HCA|FILE|PATH|DEBUG|TOPO|DIR|NET_PLUGIN|HOSTID|CONF")
"""Options that healthy hosts set differently."""
_FD = re.compile(r"SocketImpl\(fd=(\d+)")


class Gone(ConnectionError):
    """The store's server has left."""


class _Asked:
    """One call on the store: what came of it, once it is done."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call
        self.done = threading.Event()
        self.answer: Any = None
        self.error: Exception | None = None


class Store:
    """Small messages through torch's store, asked by a thread of its own: a server that hangs holds up nobody else."""

    name = "torch's store"
    overwrites = True

    def __init__(self) -> None:
        self._store: Any = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._last: _Asked | None = None
        self._thread: threading.Thread | None = None

    def connect(self, store: Any) -> None:
        """Use this store, which nobody else does."""
        store.set_timeout(datetime.timedelta(seconds=LONGEST_WAIT_S))
        self.leave()
        with self._lock:
            self._store, self._socket = store, _socket_of(store)
            self._waiting, self._last = queue.SimpleQueue(), None
            self._thread = threading.Thread(
                target=_answer, args=(store, self._waiting), name="keepstep-store", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """The world ends: say nothing more."""
        with self._lock:
            self._store = None
            self._waiting.put(None)
            last = self._last
        if last is None or last.done.wait(LONGEST_ANSWER_S):
            self._hang_up()

    def leave(self) -> None:
        """The process ends: no thread may be inside of torch then. Python would end it there, and C++ aborts the process for that."""
        self.close()
        thread, waiting = self._thread, self._waiting
        if thread is None:
            return
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
        waiting.put(None)
        thread.join(LAST_ANSWER_S)
        if thread.is_alive() and self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            thread.join(CUT_OFF_S)
        self._hang_up()

    def _hang_up(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def alive(self) -> bool:
        with self._lock:
            return not self._is_gone()

    def put(self, key: str, value: str) -> None:
        if not self._ask(lambda store: store.set(key, value), wait=False):
            raise Gone("the store of torch.distributed is gone")

    def get(self, key: str) -> str | None:
        asked = self._ask(lambda store: store.get(key) if store.check([key]) else None, wait=True)
        if asked is None:
            if threading.current_thread().name == "keepstep":
                return None  # the run is over, or will soon be: nothing to say about it
            raise Gone("the store of torch.distributed is gone")
        found = asked.answer if asked.done.is_set() else None
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    def _ask(self, call: Callable[[Any], Any], *, wait: bool) -> _Asked | None:
        """Hand a call to the thread; None: the store is gone. An answer that does not come in time is left behind."""
        asked = _Asked(call)
        with self._lock:
            if self._is_gone():
                return None
            before = self._last
            if wait and before is not None and not before.done.wait(LONGEST_ANSWER_S):
                return asked  # it hangs already
            self._last = asked
            self._waiting.put(asked)
        if wait:
            asked.done.wait(LONGEST_ANSWER_S)
        return asked

    def _is_gone(self) -> bool:
        """Whether the server closed the connection; torch would print a page about it."""
        if self._store is not None and self._last is not None and self._last.error is not None:
            self._store = None
        if self._store is not None and self._socket is not None:
            try:
                if not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    self._store = None
            except BlockingIOError:
                pass  # it is there, and has nothing to say
            except OSError:  # its process died
                self._store = None
        return self._store is None


def _answer(store: Any, waiting: queue.SimpleQueue[_Asked | None]) -> None:
    """The thread: one call after the other, until one fails or the world ends."""
    failed: Exception | None = None
    while (asked := waiting.get()) is not None:
        try:
            if failed is None:
                asked.answer = asked.call(store)
        except Exception as error:
            failed = error
        asked.error = failed
        asked.done.set()


def _socket_of(store: Any) -> socket.socket | None:
    """The store's connection: to see when its server leaves. None where torch does not show it."""
    with contextlib.suppress(Exception):
        base = _base(store)
        found = _FD.search(repr(base))
        if found is None:
            return None
        mine = socket.socket(fileno=os.dup(int(found[1])))
        if mine.getpeername()[1] != base.port:
            mine.close()
            return None
        return mine
    return None


def _base(store: Any) -> Any:
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _own_store(state: Torch, formations: int) -> Any:
    """A store over a connection of its own; None where there is no way to have one."""
    store = state.c10d._get_default_store()
    if hasattr(store, "clone"):
        return store.clone()
    base = _base(store)
    if type(base).__name__ != "TCPStore":
        return None
    limit = datetime.timedelta(seconds=LONGEST_WAIT_S)
    dist = state.torch.distributed
    client = dist.TCPStore(base.host, base.port, None, False, timeout=limit, wait_for_workers=False)
    return dist.PrefixStore(f"keepstep-{formations}", client)


def hook(state: Torch, c10d: ModuleType) -> None:
    """Hear of every world that is formed, and of its end."""
    state.c10d = c10d
    modules = [c10d, state.torch.distributed]
    init, destroy = c10d.init_process_group, c10d.destroy_process_group
    after = state.session.guarded("torch world", functools.partial(formed, state))
    watch = state.session.guarded("collectives watch", functools.partial(torch_watch.begin, state))
    before = state.session.guarded("torch world", functools.partial(_before_destroy, state))
    place = state.session.guarded("start-up words", _meeting_place)

    @functools.wraps(init)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        with rendezvous(state.session, "torch", *(place(*args, **kwargs) or (None, None, None))):
            result = init(*args, **kwargs)
        timeout = kwargs.get("timeout", args[2] if len(args) > 2 else None)
        if isinstance(timeout, datetime.timedelta):
            state.timeout_s = timeout.total_seconds()
        after()
        watch()
        return result

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        before(args[0] if args else kwargs.get("group"))
        return destroy(*args, **kwargs)

    replace(modules, "init_process_group", init_process_group)
    replace(modules, "destroy_process_group", destroy_process_group)


def _meeting_place(
    backend: Any = None,
    init_method: Any = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    *more: Any,
    **others: Any,
) -> tuple[int | None, int | None, str | None]:
    """Called with what ``init_process_group`` is called with: the size of the world, the own rank, and where the ranks meet."""
    env, url = os.environ, urllib.parse.urlparse(str(init_method or "env://"))
    asked = dict(urllib.parse.parse_qsl(url.query))
    size = world_size if world_size > 0 else int(asked.get("world_size") or env.get("WORLD_SIZE") or 0)
    index = rank if rank >= 0 else int(asked.get("rank") or env.get("RANK") or -1)
    if store is not None:
        base = _base(store)
        at = (
            f"{base.host}:{base.port}"
            if hasattr(base, "host") and hasattr(base, "port")
            else str(getattr(base, "path", "") or "")
        )
    elif url.scheme == "env":
        at = f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}" if "MASTER_ADDR" in env and "MASTER_PORT" in env else ""
    else:
        at = url.netloc or url.path
    return size or None, index if index >= 0 else None, at or None


def formed(state: Torch) -> None:
    """A world is there: who we are in it, and what all must have in common."""
    session, c10d = state.session, state.c10d
    rank, size, backend = int(c10d.get_rank()), int(c10d.get_world_size()), str(c10d.get_backend())
    before = (session.who.rank, session.who.world) if state.store is not None else None
    session.world_formed(size, rank, "torch")
    state.world, state.closed = size, False
    if size < 2 or backend == "fake":
        return
    if before is not None and before != (rank, size):
        session.uncovered("contracts", f"the world was formed anew with {size} ranks")
        return
    if not _connect(state):
        return
    session.compare(Subject.VERSIONS, _versions(state))
    session.compare(Subject.OPTIONS, _options(backend))


def _connect(state: Torch) -> bool:
    if state.store is None:
        state.store = Store()
        state.session.at_close.append(state.store.leave)
    state.formations += 1
    own = _own_store(state, state.formations)
    if own is None:
        state.session.uncovered("contracts", "this torch cannot open a second connection to its store")
        return False
    state.store.connect(own)
    state.session.use_exchange(state.store)
    return True


def _before_destroy(state: Torch, group: Any) -> None:
    default = state.default_group()
    if group is not None and group is not default:
        return
    del default
    if state.watch is not None and not state.closed:
        with state.session.part("exchange of gradients"):  # whatever fails there, the store below must be closed
            state.watch.before_end()
    with state.lock:
        state.closed = True
    if state.store is not None:
        state.store.close()


def _versions(state: Torch) -> dict[str, str]:
    torch = state.torch
    found = {"torch": str(torch.__version__), "python": platform.python_version()}
    found["CUDA"] = str(getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = str(numpy.__version__)
    return found


def _options(backend: str) -> dict[str, str]:
    found = {"backend": backend}
    for name in sorted(os.environ):
        if name.startswith(OPTIONS) and not OF_THE_HOST.search(name):
            found[name] = os.environ[name][:100]
    return found
