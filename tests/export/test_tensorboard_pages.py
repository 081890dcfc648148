# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard's tab asks for, by the rules of WSGI and without TensorBoard."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from keepstep.export.tensorboard import LINK
from keepstep.export.tensorboard_pages import Pages
from keepstep.store import run_folders


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    run = run_folders.create(tmp_path / "runs", ["train.py"], name="<b>bold</b>", ranks=2, version="test")
    run.save()
    (tmp_path / "logs" / "export").mkdir(parents=True)
    (tmp_path / "logs" / "export" / LINK).write_text(str(run.path))
    (tmp_path / "logs" / LINK).write_text(str(tmp_path / "gone"))
    return Pages(tmp_path / "logs")


def ask(pages: Pages, route: str, query: str = "") -> tuple[str, dict[str, str], str]:
    environ = {"QUERY_STRING": query}
    setup_testing_defaults(environ)
    told: list[tuple[str, dict[str, str]]] = []

    def start(status: str, headers: list[tuple[str, str]], failed: object = None, /) -> Callable[[bytes], object]:
        told.append((status, dict(headers)))
        return bytes

    answer = validator(pages.routes[route])(environ, start)
    body = b"".join(answer)
    answer.close()  # type: ignore[attr-defined]
    (status, headers), *_ = told
    assert int(headers["Content-Length"]) == len(body) and headers["X-Content-Type-Options"] == "nosniff"
    return status, headers, body.decode()


def test_the_tab_lists_the_runs_that_are_there_and_shows_the_page_of_one(pages: Pages) -> None:
    loaded_before = set(sys.modules)
    status, headers, body = ask(pages, "/runs")
    assert status == "200 OK" and headers["Content-Type"].startswith("application/json")
    (name,) = json.loads(body)
    assert pages.runs()[0].name == name
    status, headers, page = ask(pages, "/page", "run=0")
    assert status == "200 OK" and headers["Content-Type"].startswith("text/html") and "<title>" in page
    assert "default-src 'none'" in headers["Content-Security-Policy"] and "<b>bold</b>" not in page
    status, headers, script = ask(pages, "/index.js")
    assert status == "200 OK" and "export async function render()" in script
    assert not {"tensorboard", "tensorflow"} & (sys.modules.keys() - loaded_before)


@pytest.mark.parametrize("query", ["run=1", "run=-1", "run=x", "run=%00", "run=" + "9" * 5000])
def test_another_run_is_not_found(pages: Pages, query: str) -> None:
    assert ask(pages, "/page", query)[0] == "404 Not Found"
