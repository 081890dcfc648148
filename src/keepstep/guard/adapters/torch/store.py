# SPDX-License-Identifier: Apache-2.0
"""Messages between guards through the store of torch.distributed, on a separate connection."""

from __future__ import annotations

import contextlib
import datetime
import os
import queue
import re
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

LONGEST_WAIT_S = 5
LONGEST_ANSWER_S = 0.25
"""The longest wait for an answer of the store."""
LAST_ANSWER_S, CUT_OFF_S = 2.0, 1.0
"""When the process ends: the wait for the current answer, and for the thread once its connection is cut."""
_FD = re.compile(r"SocketImpl\(fd=(\d+)")


class StoreGone(ConnectionError):
    """The store's server has left."""


class _StoreCall:
    """One call on the store, and its result once it is done."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call
        self.done = threading.Event()
        self.answer: Any = None
        self.error: Exception | None = None


class Store:
    """Small messages through torch's store, sent by a separate thread: a hanging server blocks no other thread."""

    name = "torch's store"
    overwrites = True

    def __init__(self) -> None:
        self._store: Any = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[_StoreCall | None] = queue.SimpleQueue()
        self._last: _StoreCall | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        """The script has destroyed its world, or the process ends: what is said still is only late."""

    def connect(self, store: Any) -> None:
        """Use this store, which nothing else uses."""
        store.set_timeout(datetime.timedelta(seconds=LONGEST_WAIT_S))
        self.leave()
        with self._lock:
            self._store, self._socket, self._closed = store, _socket_of(store), False
            self._waiting, self._last = queue.SimpleQueue(), None
            self._thread = threading.Thread(
                target=_answer, args=(store, self._waiting), name="keepstep-store", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """The world ends: say nothing more."""
        with self._lock:
            self._store, self._closed = None, True
            self._waiting.put(None)
            last = self._last
        if last is None or last.done.wait(LONGEST_ANSWER_S):
            self._hang_up()

    def leave(self) -> None:
        """The process ends: no thread may be inside torch then, or C++ aborts the process when Python ends it there."""
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
        if not self._ask(lambda store: store.set(key, value), wait=False) and not self._closed:
            _say_gone()

    def get(self, key: str) -> str | None:
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[str]) -> list[str | None]:
        """In two calls on the store where all of them are there, and in one handing over to the thread in any case."""

        def read(store: Any) -> list[Any]:
            if len(keys) > 1 and store.has_extended_api() and store.check(list(keys)):
                return list(store.multi_get(list(keys)))
            return [store.get(key) if store.check([key]) else None for key in keys]

        asked = self._ask(read, wait=True)
        if asked is None:
            _say_gone()
        found = asked.answer if asked is not None and asked.done.is_set() and asked.answer else [None] * len(keys)
        return [each.decode(errors="replace") if isinstance(each, bytes) else each for each in found]

    def _ask(self, call: Callable[[Any], Any], *, wait: bool) -> _StoreCall | None:
        """Hand a call to the thread; None: the store is gone. An answer that is late is dropped."""
        asked = _StoreCall(call)
        with self._lock:
            if self._is_gone():
                return None
            before = self._last
            if wait and before is not None and not before.done.wait(LONGEST_ANSWER_S):
                return asked  # it already hangs
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
                pass  # it is there, and has sent nothing
            except OSError:  # its process died
                self._store = None
        return self._store is None


def _say_gone() -> None:
    """The guard's own thread says nothing: the run is over, or will soon be."""
    if threading.current_thread().name != "keepstep":
        raise StoreGone("the store of torch.distributed is gone")


def _answer(store: Any, waiting: queue.SimpleQueue[_StoreCall | None]) -> None:
    """The thread: one call after another, until one fails or the world ends."""
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
        base = base_of(store)
        found = _FD.search(repr(base))
        if found is None:
            return None
        mine = socket.socket(fileno=os.dup(int(found[1])))
        if mine.getpeername()[1] != base.port:
            mine.close()
            return None
        return mine
    return None


def base_of(store: Any) -> Any:
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store
