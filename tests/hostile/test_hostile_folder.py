# SPDX-License-Identifier: Apache-2.0
"""One folder with everything hostile in it, read by `why`, `--json`, `--html` and `--bundle`: real processes with
bounded memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import unicodedata
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.hostile.folder import write_everything

ALWAYS = 8 << 20
"""Of a packed log, instead of 256 MB: the test is about what happens beyond it."""
MEMORY = 4 << 30
PROGRAM = f"from keepstep.sources.files import unpack; unpack.ALWAYS = {ALWAYS}; from keepstep.cli import main; main()"
MAY_STAND = {"\n", "\t", *map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))}
"""Line ends, tabs, and the marks of numbers in Arabic and its kin, which are seen."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    err: str


def keepstep(*words: str, cwd: Path, **variables: str) -> Said:
    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    env = {**os.environ, "XDG_STATE_HOME": str(cwd / "state"), **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=cwd, env=env, capture_output=True, timeout=300, preexec_fn=bounded
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def acting(text: str) -> set[str]:
    """What must not leave keepstep."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - MAY_STAND


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    write_everything(folder / "left", bomb_bytes=2 * ALWAYS)
    return folder


@pytest.fixture(scope="module")
def told(place: Path) -> Said:
    return keepstep("why", "left", "--html", "page.html", "--bundle", "bundle.tar.gz", cwd=place)


def test_why_ends_with_a_report_and_a_status_of_its_own(told: Said, place: Path) -> None:
    assert told.status == 1, told.err
    assert "Traceback" not in told.err and "itself broke" not in told.err
    assert not (place / "state" / "keepstep" / "broke").exists()
    assert not list(place.rglob("touch"))


def test_nothing_on_the_terminal_acts(told: Said) -> None:
    assert not acting(told.out) and not acting(told.err)
    assert r"\x1b]0;owned" in told.out


def test_every_bomb_is_said_to_be_cut_off(told: Said, place: Path) -> None:
    coverage = json.loads(keepstep("why", "left", "--json", cwd=place).out)["coverage"]
    cut = {
        each["what"] for each in coverage if "unpack to more than" in each["why"] and each["state"] == "partly checked"
    }
    assert cut == {path.name for path in (place / "left").glob("bomb.log.*")}


@pytest.mark.long
def test_json_is_one_document_of_plain_ascii(place: Path) -> None:
    said = keepstep("why", "left", "--json", cwd=place)
    assert said.out.isascii() and not acting(said.out)
    report = json.loads(said.out)
    assert report["schema"] == "keepstep.report/1" and not report["skipped"], report["skipped"]
    why = " ".join(f"{each['what']}: {each['why']}" for each in report["coverage"])
    for words in ("nested too deeply", "wants to run code", "damaged", "unpack to more than"):
        assert words in why


def test_a_damaged_manifest_is_named(place: Path) -> None:
    said = keepstep("why", "left/guard", "--json", cwd=place)
    assert said.status in (0, 1, 3), said.err
    assert any(
        "manifest.json" in each["what"] and "damaged" in each["why"] for each in json.loads(said.out)["coverage"]
    )


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.usefixtures("told")
def test_the_page_holds_no_element_that_it_did_not_make(place: Path) -> None:
    text = (place / "page.html").read_text("utf-8")
    assert not acting(text)
    page = _Elements()
    page.feed(text)
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "object", "embed", "form", "base")]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert "&lt;script&gt;window.owned=1" in text


@pytest.mark.usefixtures("told")
def test_nothing_in_the_bundle_acts_or_leaves_it(place: Path) -> None:
    with tarfile.open(place / "bundle.tar.gz") as bundle:
        members = bundle.getmembers()
        for member in members:
            assert (
                member.isreg()
                and not acting(member.name)
                and ".." not in Path(member.name).parts
                and not member.name.startswith("/")
            )
            stream = bundle.extractfile(member)
            assert stream is not None
            assert not acting(stream.read().decode()), member.name
    assert sum(member.size for member in members) < 60 << 20


QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
"""A browser that asks nobody on the network."""
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (found := shutil.which(name))),
    None,
)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.usefixtures("told")
def test_no_script_of_a_hostile_name_runs_in_a_browser(place: Path) -> None:
    assert BROWSER is not None
    page = place / "page.html"
    shown = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=3000",
        f"--user-data-dir={place / 'profile'}",
    ]
    command = [BROWSER, *shown, *QUIET, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    dom = done.stdout.decode()
    assert "keepstep" in dom and not acting(dom)
    live = _Elements()
    live.feed(dom)
    assert sum(tag == "script" for tag, _ in live.tags) == 1
    assert not [tag for tag, _ in live.tags if tag in ("img", "iframe")]
    # a copy whose policy lets a witness run, so that it can tell what else ran
    text = page.read_text("utf-8")
    assert "Content-Security-Policy" in text
    witness = place / "witness.html"
    free = (
        text.replace("Content-Security-Policy", "X-Nothing")
        + "<script>document.title = 'owned=' + String(window.owned)</script>"
    )
    witness.write_text(free, "utf-8")
    done = subprocess.run([*command[:-1], witness.as_uri()], capture_output=True, timeout=120)
    assert "<title>owned=undefined</title>" in done.stdout.decode()


@pytest.mark.parametrize(
    "value",
    [
        "[" * 200_000,
        "\x1b]0;owned\x07",
        '{"cluster": {"worker": [[[]]]}, "task": {"type": [], "index": 1e999}}',
        '{"cluster": NaN, "task": ' + "9" * 5000 + "}",
    ],
)
def test_a_hostile_variable_is_a_finding_of_check(value: str, tmp_path: Path) -> None:
    said = keepstep("check", "config", cwd=tmp_path, TF_CONFIG=value[:100_000])
    assert said.status in (1, 3), said.err
    assert not acting(said.out) and not acting(said.err) and "itself broke" not in said.err


@pytest.mark.parametrize("size", ["99999999999", "-1", "1²3", "9" * 5000, "\x1b[2J"])
def test_a_world_of_any_size_in_the_environment_is_a_finding_of_check(size: str, tmp_path: Path) -> None:
    variables = {
        "RANK": "0",
        "WORLD_SIZE": size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "LOCAL_RANK": size,
    }
    said = keepstep("check", "config", cwd=tmp_path, **variables)
    assert said.status in (0, 1, 3), said.err
    assert not acting(said.out) and "itself broke" not in said.err


def test_a_hostile_list_of_runs_is_shown(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "a\x1b[2J\n\u202eb"
    run.mkdir(parents=True)
    attempts = [{"number": 0, "began": 1.0, "title": "\x1b]0;owned\x07", "status": 1}]
    (run / "manifest.json").write_text(
        json.dumps(
            {
                "schema": "keepstep.run/1",
                "name": "\x1b",
                "command": ["\x1b"],
                "cwd": "/",
                "began": 1.0,
                "ended": 2.0,
                "ranks": 1,
                "state": "failed",
                "attempts": attempts,
            }
        )
    )
    said = keepstep("runs", "--run-dir", "runs", cwd=tmp_path)
    assert said.status == 0 and not acting(said.out) and r"\x1b]0;owned" in said.out
