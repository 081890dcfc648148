"""The tables give the same knowledge whether derived anew or taken from an earlier start, and follow a changed row."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import keepstep
from keepstep.parse.scan import anchors
from keepstep.store.user_cache import Kept

WORDS = [("Watchdog caught", False), ("out of memory", True)]
PACKAGE = Path(keepstep.__file__).parent


@pytest.fixture
def made(monkeypatch):
    """A database is made even for a small text."""
    monkeypatch.setattr(anchors, "FEW", 0)
    monkeypatch.setattr(anchors, "MANY", 0)


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
def test_a_kept_database_finds_the_same(made, tmp_path):
    text = b"x Watchdog caught y Out Of Memory"
    fresh = anchors.finder(WORDS).find(text)
    assert anchors.finder(WORDS, Kept(tmp_path)).find(text) == fresh
    assert list(tmp_path.glob("literals-*"))
    assert anchors.finder(WORDS, Kept(tmp_path)).find(text) == fresh


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
def test_a_sealed_file_that_is_no_database_is_made_anew(made, tmp_path):
    class Liar(Kept):
        def get(self, name, key):
            return b"not a database"

    assert anchors.finder(WORDS, Liar(tmp_path)).find(b"Watchdog caught") == [(0, 15)]


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
def test_no_database_is_made_for_a_small_log_but_one_that_is_there_is_used(monkeypatch, tmp_path):
    text = b"Watchdog caught\n" * 100
    monkeypatch.setattr(anchors, "FEW", 1000)
    monkeypatch.setattr(anchors, "MANY", 10_000)
    small = anchors.finder(WORDS, Kept(tmp_path))
    found = small.find(text)
    assert not list(tmp_path.iterdir()) and small._database is None
    large = anchors.finder(WORDS, Kept(tmp_path))
    large.expect(10_000)
    assert large._database is not None and list(tmp_path.iterdir())
    again = anchors.finder(WORDS, Kept(tmp_path))
    assert again.find(text) == large.find(text) == found
    assert again._database is not None


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the package that may be changed."""
    folder = tmp_path_factory.mktemp("checkout") / "keepstep"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("lab", "derived"))
    (folder / "knowledge" / "derived").mkdir()
    for each in (PACKAGE / "knowledge" / "derived").iterdir():
        shutil.copy(each, folder / "knowledge" / "derived")
    return folder


def why(checkout: Path, text: str, cache: Path) -> str:
    log = cache.parent / "a.log"
    log.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(checkout.parent), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-m", "keepstep", "why", "--no-kernel-log", str(log)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cache.parent).stdout


def test_a_changed_row_is_known_at_the_next_start(checkout, tmp_path):
    text = "RuntimeError: tunnelctl says that port 2222 is somebody's\n"
    assert "2222 is taken" not in why(checkout, text, tmp_path / "cache").split("\n")[0]
    table = checkout / "knowledge" / "network" / "sockets.toml"
    row = "[[signature]]\npattern = 'tunnelctl says that port (?P<port>\\d+) is somebody'\nfact = \"PortTaken\"\n"
    table.write_text(f"{table.read_text()}\n{row}")
    assert "port 2222" in why(checkout, text, tmp_path / "cache").split("\n")[0]
    assert not (tmp_path / "cache").exists()


def test_where_the_package_cannot_be_written_the_users_cache_keeps_what_was_derived(checkout, tmp_path):
    derived = checkout / "knowledge" / "derived"
    shutil.rmtree(derived)
    derived.write_text("not a folder, so nothing can be written there, whoever tries")
    text = "RuntimeError: CUDA error: out of memory\n"
    first = why(checkout, text, tmp_path / "cache")
    assert [each.name for each in (tmp_path / "cache" / "keepstep").glob("signatures-*")]
    assert first and first == why(checkout, text, tmp_path / "cache")
    for each in (tmp_path / "cache" / "keepstep").iterdir():
        each.write_bytes(b"junk")
    assert first == why(checkout, text, tmp_path / "cache")
