# SPDX-License-Identifier: Apache-2.0
"""`keepstep watch`: who may see the page, what is on it, also as one file. In a real Chromium, if there is one."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from keepstep.model.facts.links import Reached
from keepstep.store.evidence_file import append
from keepstep.watch.look import RunLook
from keepstep.watch.run_view import RunView
from tests.render.test_link_matrix import cluster, link
from tests.supervise.starting import LIMIT_S, Running, wait_for
from tests.watch.chromium import Chromium, chromium, needs_chromium

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
SEEN = "document.querySelector('#problems h2')?.textContent"
DRAWN = "!document.getElementById('map').hidden && document.querySelectorAll('#charts canvas').length > 0"
HEAT = "document.getElementById('heat')"
ESCAPES = "document.images.length + document.querySelectorAll('[onerror]').length"


class Served:
    """A `keepstep watch` and how to ask it."""

    def __init__(self, folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "keepstep", "watch", *words]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]
        self.ssh = self.process.stdout.readline()
        parts = urlsplit(self.address)
        self.port, self.path, self.token = parts.port, parts.path, parts.query.removeprefix("token=")

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        link.request(method, path, headers=headers)
        answer = link.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read().decode()
        link.close()
        return found

    def ask_as_owner(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
        return self.ask(path, method, Cookie=f"keepstep-{self.port}={self.token}")

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=LIMIT_S)


@pytest.fixture(scope="module")
def served(failed: Running) -> Iterator[Served]:
    one = Served(failed.folder, str(failed.run))
    yield one
    one.end()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one


def test_without_the_token_nothing_is_shown(served: Served) -> None:
    name = served.path
    for path in ("/", "/page.js", "/runs.json", name, f"{name}/view.json", f"{name}/events", f"{name}?token=wrong"):
        status, _, text = served.ask(path)
        assert status == 403 and "KeyError" not in text and served.token not in text
    assert served.ask(name, Cookie=f"keepstep-{served.port}={served.token[:-1]}")[0] == 403


def test_a_name_of_somebody_elses_that_leads_here_is_refused(served: Served) -> None:
    cookie = f"keepstep-{served.port}={served.token}"
    assert served.ask(served.path, Cookie=cookie, Host=f"evil.example:{served.port}")[0] == 403
    assert served.ask(served.path, Cookie=cookie, Host=f"localhost:{served.port}")[0] == 200


def test_the_token_leaves_the_address_and_becomes_a_cookie(served: Served) -> None:
    status, headers, _ = served.ask(f"{served.path}?token={served.token}")
    assert status == 303 and headers["location"] == served.path
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=strict" in headers["set-cookie"]


def test_it_only_shows_this_run_and_only_shows(served: Served) -> None:
    assert served.ask_as_owner("/run/another")[0] == 404 and served.ask_as_owner("/run/..%2f..%2fetc")[0] == 404
    assert served.ask_as_owner(served.path, "POST")[0] == 405
    for bad in ("rank=x&at=1", "rank=1", "rank=-1&at=1", "rank=1&at=nan", "rank=1&at=1e99"):
        assert served.ask_as_owner(f"{served.path}/moment.json?{bad}")[0] == 400


def test_the_page_is_small_and_may_load_nothing_from_elsewhere(served: Served) -> None:
    parts = [served.ask_as_owner(path) for path in (served.path, "/page.js", "/page.css", f"{served.path}/past.json")]
    assert all(status == 200 for status, _, _ in parts) and sum(len(text) for _, _, text in parts) < 2_000_000
    for _, headers, _ in parts:
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_a_moment_has_readings_and_the_log_around_it(served: Served) -> None:
    view = json.loads(served.ask_as_owner(f"{served.path}/view.json")[2])
    at = view["problems"][0]["since"]
    moment = json.loads(served.ask_as_owner(f"{served.path}/moment.json?rank=1&at={at}")[2])
    assert dict(moment["readings"])["steps done"] in ("19", "20")  # the finding is as old as the traceback
    assert any("KeyError" in line for line in moment["lines"])


def test_the_ssh_line_forwards_the_port(served: Served) -> None:
    assert f"ssh -N -L {served.port}:127.0.0.1:{served.port} " in served.ssh


def test_a_flood_of_strangers_leaves_it_answering(served: Served) -> None:
    assert {served.ask(f"/run/{n}")[0] for n in range(300)} == {403}
    assert served.ask_as_owner(f"{served.path}/view.json")[0] == 200


def test_connections_that_say_nothing_do_not_keep_the_owner_out(served: Served) -> None:
    held = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(300)]
    for each in held[::2]:
        each.send(b"GET / HTTP/1.1\r\n")
    wait_for(lambda: served.ask_as_owner(f"{served.path}/view.json")[0] == 200)
    assert all(each.recv(1) == b"" for each in held), "they were closed"


def test_another_user_of_the_host_gets_nothing(served: Served, failed: Running) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    pid, route = served.process.pid, f"http://127.0.0.1:{served.port}{served.path}"
    files = [f"/proc/{pid}/{name}" for name in ("environ", "mem", "maps")] + [str(failed.run / "manifest.json")]
    script = f"cat /proc/{pid}/cmdline; cat {' '.join(files)}; ls /proc/{pid}/fd; curl -s {route} {route}/view.json"
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script]
    said = subprocess.run(words, capture_output=True, text=True, cwd="/").stdout.replace("\0", " ")
    assert f"watch {failed.run}" in said and served.token not in said and "KeyError" not in said
    if shutil.which("curl"):
        assert said.count("open the address that") == 2, said
    assert failed.run.parent.stat().st_mode & 0o077 == 0 == failed.run.stat().st_mode & 0o077


def test_no_page_waits_while_the_run_is_looked_at_again(failed: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from keepstep.watch.page import server

    monkeypatch.setattr(server, "OVER_S", 0.0)
    watched, looking, go_on, see = server.Watched(failed.run), threading.Event(), threading.Event(), RunLook.see
    first = watched.view()

    def slowly(look: RunLook) -> RunView:
        looking.set()
        assert go_on.wait(LIMIT_S)
        return see(look)

    monkeypatch.setattr(RunLook, "see", slowly)
    wait_for(lambda: watched.view() is first and looking.is_set())
    assert watched.view() is first
    go_on.set()
    wait_for(lambda: watched.view() is not first)
    assert json.loads(watched.past())["rows"]


def test_without_a_run_the_list_comes_first(failed: Running) -> None:
    one = Served(failed.folder)
    try:
        listed = json.loads(one.ask_as_owner("/runs.json")[2])
        assert [each["name"] for each in listed] == [failed.run.name] and "KeyError" in listed[0]["title"]
        assert one.ask_as_owner(f"/run/{failed.run.name}/view.json")[0] == 200
    finally:
        one.end()


def test_without_the_extra_the_command_that_installs_it_is_named() -> None:
    program = (
        "import sys; sys.modules['starlette'] = None; from keepstep.cli.parser import run; sys.exit(run(['watch']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 3 and "pip install 'keepstep[web]'" in done.stderr


@needs_chromium
@pytest.mark.parametrize(("wide", "high", "dark"), [(1280, 800, False), (400, 800, True)])
def test_the_first_screen_names_rank_and_cause(
    served: Served, browser: Chromium, wide: int, high: int, dark: bool
) -> None:
    browser.open(served.address, wide, high, dark=dark)
    assert "KeyError" in browser.until(SEEN)
    browser.until(DRAWN)
    first = browser.value(
        "[...document.querySelectorAll('dt,dd,h2')].filter((e) => e.getBoundingClientRect().bottom <= innerHeight)"
        ".map((e) => e.textContent).join('\\n')"
    )
    assert "rank 1" in first and "user.code_exception" in first
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert "token" not in browser.value("location.href")
    assert browser.value(ESCAPES) == 0 and not browser.said


@needs_chromium
def test_keys_alone_open_a_moment(served: Served, browser: Chromium) -> None:
    browser.open(served.address)
    browser.until(DRAWN)
    browser.value("document.getElementById('heat').focus()")
    for key in ("ArrowDown", "ArrowLeft", "Enter"):
        browser.key(key)
    assert "Rank 1 at " in browser.until("document.querySelector('#moment h2')?.textContent")
    assert "KeyError" in browser.value("document.getElementById('moment').textContent")
    assert browser.value("document.activeElement.id") == "moment"


@needs_chromium
def test_the_links_between_hosts_are_drawn(failed: Running, browser: Chromium, tmp_path: Path) -> None:
    shutil.copytree(failed.run, tmp_path / "copy", symlinks=True)
    slow, dropped = link(0, 2, 1.25e7), link(1, 2, None, Reached.NO_ANSWER)
    append(tmp_path / "copy" / "attempt-0" / "network.jsonl", cluster(3, slow, dropped))
    page = tmp_path / "run.html"
    command = [sys.executable, "-m", "keepstep", "watch", str(tmp_path / "copy"), "--html", str(page)]
    assert subprocess.run(command, timeout=LIMIT_S).returncode == 0
    browser.open(page.as_uri(), 400)
    rows = browser.until("[...document.querySelectorAll('#links tr')].map((row) => row.textContent)")
    assert rows == ["012", "0 node-0·10G100M", "1 node-1" + "10G·drop", "2 node-2" + "10G10G·"]
    assert browser.value("document.querySelector('#links td.l4').title") == "node-1 -> node-2"
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")


def clicked(browser: Chromium, along: float) -> str:
    """What a click into the row of rank 1 opens, so far along the time of the run."""
    box = "document.getElementById('heat').getBoundingClientRect()"
    left, top, wide = browser.value(f"scrollTo(0, 0), (({{left, top, width}}) => [left, top, width])({box})")
    browser.click(left + 47 + (wide - 48) * along, top + 25)
    return str(browser.until("document.getElementById('moment').textContent"))


@needs_chromium
def test_one_file_opens_without_a_server(failed: Running, browser: Chromium, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    command = [sys.executable, "-m", "keepstep", "watch", str(failed.run), "--html", str(page)]
    assert subprocess.run(command, timeout=LIMIT_S).returncode == 0 and page.stat().st_size < 2_000_000
    browser.asked_for.clear()
    browser.said.clear()
    browser.open(page.as_uri())
    assert "'<img src=x onerror=alert(1)>'" in browser.until(SEEN)
    browser.until(DRAWN)
    late, early = clicked(browser, 0.99), clicked(browser, 0.0)
    assert "KeyError" in late and re.search("steps done(19|20)", late) and not re.search("steps done(19|20)", early)
    assert browser.value(ESCAPES) == 0 and not browser.said
    assert {urlsplit(each).scheme for each in browser.asked_for} <= {"file", "data"}
