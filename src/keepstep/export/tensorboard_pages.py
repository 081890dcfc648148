# SPDX-License-Identifier: Apache-2.0
"""What the tab "keepstep" in TensorBoard asks for, as WSGI applications: the exported runs, and the page of each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from keepstep.errors import KeepstepError
from keepstep.export.tensorboard import LINK
from keepstep.store import run_folders
from keepstep.watch.look import RunLook
from keepstep.watch.page.one_file import render_page
from keepstep.watch.page.template import one_file_policy

DEEPEST, LARGEST = 4, 10_000
SCRIPT = """
export async function render() {
  const runs = await (await fetch('./runs')).json();
  document.body.style.cssText = 'margin:0;display:flex;flex-direction:column;height:100vh';
  const choice = document.createElement('select');
  choice.setAttribute('aria-label', 'run');
  const frame = document.createElement('iframe');
  frame.title = 'keepstep';
  frame.style.cssText = 'border:0;flex:1';
  runs.forEach((name, number) => choice.add(new Option(name, number)));
  choice.onchange = () => { frame.src = './page?run=' + choice.value; };
  if (runs.length > 1) document.body.append(choice);
  document.body.append(frame);
  if (runs.length) frame.src = './page?run=0';
  else document.body.append('No run was exported here: keepstep export tensorboard RUN --logdir DIR');
}
"""
Application = Callable[[dict[str, Any], Any], list[bytes]]


class Pages:
    """Of the runs that `keepstep export tensorboard` named below the logdir."""

    def __init__(self, logdir: Path) -> None:
        self._logdir = logdir
        self.routes: dict[str, Application] = {"/index.js": _index, "/runs": self._names, "/page": self._page}

    def runs(self) -> list[Path]:
        """Their folders, the newest first."""
        found = []
        for place, folders, files in os.walk(self._logdir):
            if len(Path(place).relative_to(self._logdir).parts) >= DEEPEST:
                folders.clear()
            if LINK in files:
                run = Path((Path(place) / LINK).read_text(errors="replace")[:LARGEST])
                if run_folders.read_manifest(run) is not None:
                    found.append(run)
        return sorted(set(found), key=lambda run: run.name, reverse=True)

    def _names(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        return _answer(start, json.dumps([run.name for run in self.runs()]), "application/json")

    def _page(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        runs, number = self.runs(), parse_qs(environ.get("QUERY_STRING", "")).get("run", ["0"])[0]
        if not number.isdecimal() or len(number) > 6 or int(number) >= len(runs):
            return _answer(start, "no such run", "text/plain", HTTPStatus.NOT_FOUND)
        try:
            page = render_page(RunLook(runs[int(number)]))
        except (KeepstepError, OSError) as error:
            return _answer(start, str(error), "text/plain", HTTPStatus.INTERNAL_SERVER_ERROR)
        return _answer(start, page, "text/html", policy=one_file_policy())


def _index(environ: dict[str, Any], start: Any) -> list[bytes]:
    return _answer(start, SCRIPT, "text/javascript")


def _answer(
    start: Any, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK, policy: str = "default-src 'none'"
) -> list[bytes]:
    body = text.encode()
    headers = {
        "Content-Type": f"{kind}; charset=utf-8",
        "Content-Length": str(len(body)),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": policy,
    }
    start(f"{status.value} {status.phrase}", list(headers.items()))
    return [body]
