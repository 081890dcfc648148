# SPDX-License-Identifier: Apache-2.0
"""The server of the page, on loopback. It reads run folders, with one look for all open pages, and writes nothing."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from keepstep.base.visible import visible
from keepstep.base.wording import duration
from keepstep.errors import Unavailable, UserError
from keepstep.model.identity import MOST_RANKS
from keepstep.store import fallback_folder
from keepstep.store.run_folders import LATEST
from keepstep.watch.look import RESTS, RunLook
from keepstep.watch.page.documents import moment_document, past_document, view_document
from keepstep.watch.page.gate import Gate
from keepstep.watch.page.template import asset, served
from keepstep.watch.run_view import RunView

LOOPBACK = "127.0.0.1"
MOST_REQUESTS, MOST_STREAMS, MOST_RUNS = 256, 24, 8
PATIENCE_S = 3.0
"""For a whole request: connections that say nothing may be anybody's, and count among the requests."""
BEAT_S = 1.0
OVER_S = 15.0
"""How often a run that is over is looked at: it may be copied just now."""


class Watched:
    """One run, looked at once for all pages. Nothing is done while nobody asks.

    Only the first answer waits for a look: later ones have what was seen last, while a thread looks again.
    """

    def __init__(self, folder: Path) -> None:
        self._run = RunLook(folder)
        self._lock = threading.Lock()
        """Held by whoever looks."""
        self._view: RunView | None = None
        self._due = self._past_due = 0.0
        self._text = self._past = ""
        self._wants_past = False
        self.used = time.monotonic()

    def view(self) -> str:
        """As JSON; the same text while nothing was looked at anew."""
        self.used = time.monotonic()
        past_is_due = self._wants_past and self.used >= self._past_due
        if not self._text:
            with self._lock:
                self._look()
        elif (self.used >= self._due or past_is_due) and not self._lock.locked():
            threading.Thread(target=self._look_again, daemon=True).start()
        return self._text

    def past(self) -> str:
        self._wants_past = True
        self.view()
        if not self._past:
            with self._lock:
                self._look_back()
        return self._past

    def _look_again(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._look()
                if self._wants_past:
                    self._look_back()
            finally:
                self._lock.release()

    def _look(self) -> None:
        if time.monotonic() >= self._due:
            self._view = self._run.see()
            self._text = json.dumps(view_document(self._view), allow_nan=False)
            self._due = time.monotonic() + max(self._run.rest_s, 0.0 if self._view.alive else OVER_S)

    def _look_back(self) -> None:
        if time.monotonic() >= self._past_due:
            assert self._view is not None
            began = time.thread_time()
            self._past = json.dumps(past_document(self._run.past(), self._view), allow_nan=False)
            took = time.thread_time() - began
            self._past_due = time.monotonic() + max(5.0 if self._view.alive else OVER_S, RESTS * took)

    def moment(self, rank: int, at: float) -> dict[str, Any]:
        self.view()
        with self._lock:
            return moment_document(self._run, rank, at)


class Impatient(H11Protocol):
    """A connection that is closed if no request has come on it in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(PATIENCE_S, self._leave)

    def _leave(self) -> None:
        if self.cycle is None:
            self.transport.close()


class Runs:
    """The runs that may be seen: the one that was named, or all of a folder."""

    def __init__(self, root: Path, only: Path | None) -> None:
        self._root, self._only = root, only
        self._open: dict[str, Watched] = {}
        self._lock = threading.Lock()
        self.streams = 0

    def get(self, name: str) -> Watched | None:
        with self._lock:
            if name not in self._open:
                path = self._path(name)
                if path is None:
                    return None
                while len(self._open) >= MOST_RUNS:
                    del self._open[min(self._open, key=lambda each: self._open[each].used)]
                self._open[name] = Watched(path)
            return self._open[name]

    def _path(self, name: str) -> Path | None:
        if self._only is not None:
            return self._only if name == self._only.name else None
        return next((run.path for run in fallback_folder.all_runs(self._root) if run.path.name == name), None)

    def listed(self) -> list[dict[str, Any]]:
        """The newest first."""
        found = fallback_folder.all_runs(self._root) if self._only is None else []
        rows = []
        for run in reversed(found):
            said = run.manifest
            took = duration(max(0.0, (said.ended or time.time()) - said.began)) if run.state != "killed" else "?"
            title = said.attempts[-1].title if said.attempts and run.state != "finished" else ""
            rows.append(
                {
                    "name": run.path.name,
                    "state": run.state,
                    "ranks": said.ranks,
                    "began": said.began,
                    "took": took,
                    "title": visible(title or ""),
                }
            )
        return rows


def application(runs: Runs, token: str, port: int) -> Gate:
    """What answers requests."""

    def of_run(answer: Callable[[Watched, Request], Response]) -> Callable[[Request], Response]:
        def answered(request: Request) -> Response:
            run = runs.get(request.path_params["name"])
            return answer(run, request) if run is not None else PlainTextResponse("there is no such run\n", 404)

        return answered

    def moment(run: Watched, request: Request) -> Response:
        try:
            rank, at = int(request.query_params["rank"]), float(request.query_params["at"])
        except (KeyError, ValueError):
            return PlainTextResponse("rank and at are numbers\n", 400)
        if not (0 <= rank < MOST_RANKS and 0.0 <= at < LATEST):
            return PlainTextResponse("rank or at is out of range\n", 400)
        return JSONResponse(run.moment(rank, at))

    async def events(request: Request) -> Response:
        run = await run_in_threadpool(runs.get, request.path_params["name"])
        if run is None or runs.streams >= MOST_STREAMS:
            return PlainTextResponse("there is no such run, or too many pages are open\n", 404 if run is None else 503)
        return StreamingResponse(_events(runs, run), media_type="text/event-stream")

    def text(name: str, kind: str) -> Callable[[Request], Response]:
        return lambda request: Response(asset(name), media_type=kind)

    def page(request: Request) -> Response:
        return Response(served(), media_type="text/html")

    def as_json(body: str) -> Response:
        return Response(body, media_type="application/json")

    routes = [
        Route("/", page),
        Route("/page.js", text("page.js", "text/javascript")),
        Route("/page.css", text("page.css", "text/css")),
        Route("/runs.json", lambda request: JSONResponse(runs.listed())),
        Route("/run/{name}", of_run(lambda run, request: page(request))),
        Route("/run/{name}/view.json", of_run(lambda run, request: as_json(run.view()))),
        Route("/run/{name}/past.json", of_run(lambda run, request: as_json(run.past()))),
        Route("/run/{name}/moment.json", of_run(moment)),
        Route("/run/{name}/events", events),
    ]
    return Gate(Starlette(routes=routes), token, port)


async def _events(runs: Runs, run: Watched) -> AsyncIterator[bytes]:
    """The view whenever it is new; a comment now and then, which shows whether the page is still open."""
    runs.streams += 1
    try:
        sent, quiet = "", 0
        while True:
            found = await run_in_threadpool(run.view)
            quiet += 1
            if found is not sent:
                sent, quiet = found, 0
                yield b"event: view\ndata: " + found.encode() + b"\n\n"
            elif quiet % 15 == 0:
                yield b": still here\n\n"
            await asyncio.sleep(BEAT_S)
    finally:
        runs.streams -= 1


def serve(root: Path, only: Path | None, port: int, say: Callable[[str], None]) -> None:
    """Until it is interrupted. ``say`` gets the lines for the user."""
    token = secrets.token_urlsafe(24)
    with _listening(port) as sock:
        port = sock.getsockname()[1]
        runs = Runs(root, only)
        if only is not None:
            runs.get(only.name)
        path = f"/run/{only.name}" if only is not None else "/"
        for line in (
            f"open  http://{LOOPBACK}:{port}{path}?token={token}",
            f"from another machine, first:  ssh -N -L {port}:{LOOPBACK}:{port} {socket.gethostname()}",
            "It only reads the run folder. Ctrl-C ends it; the run goes on.",
        ):
            say(line)
        config = uvicorn.Config(
            application(runs, token, port),
            http=Impatient,
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_REQUESTS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            lifespan="off",
            ws="none",
        )
        uvicorn.Server(config).run(sockets=[sock])


def _listening(port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise UserError(f"{port} is no port", hint="--port takes 0 to 65535")
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind((LOOPBACK, port))
        sock.listen()  # before the address is printed: whoever is fast waits, and is not refused
    except OSError as error:
        sock.close()
        raise Unavailable(f"port {port} cannot be used: {error.strerror}", hint="--port 0 takes a free one") from None
    return sock
