"""The tables give the same knowledge whether derived anew or recalled from an earlier start."""

import json
import os
import subprocess
import sys

import pytest

from keepstep.analyze.load_tables import PATTERNS, _way_of_deriving, keep, recall
from keepstep.parse.scan import anchors, signature
from keepstep.store.user_cache import Kept

WORDS = [("Watchdog caught", False), ("out of memory", True)]


@pytest.fixture
def memory(monkeypatch):
    monkeypatch.setattr(signature, "recalled", {})
    monkeypatch.setattr(signature, "derived", {})


def test_a_pattern_is_parsed_once_and_recalled_by_the_next_start(memory, monkeypatch, tmp_path):
    its = signature._derive(r"(?i)no (?P<what>\w+) left on device")
    keep(Kept(tmp_path))
    signature.derived.clear()
    monkeypatch.setattr(signature, "_parse", lambda pattern: pytest.fail("parsed again"))
    recall(Kept(tmp_path))
    assert signature._derive(r"(?i)no (?P<what>\w+) left on device") == its


def test_only_patterns_still_in_use_are_kept(memory, tmp_path):
    signature._derive("an old pattern")
    keep(Kept(tmp_path))
    signature.derived.clear()
    recall(Kept(tmp_path))
    signature._derive("a new pattern")
    keep(Kept(tmp_path))
    body = Kept(tmp_path).get(PATTERNS, _way_of_deriving())
    assert body is not None
    assert list(json.loads(body)) == ["a new pattern"]


def test_what_another_version_derived_is_not_recalled(memory, tmp_path):
    Kept(tmp_path).put(PATTERNS, "another version", b'{"a pattern": ["x", ["x"], false, []]}')
    recall(Kept(tmp_path))
    assert signature.recalled == {}


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
def test_a_kept_database_finds_the_same(tmp_path):
    text = b"x Watchdog caught y Out Of Memory"
    fresh = anchors.finder(WORDS).find(text)
    assert anchors.finder(WORDS, Kept(tmp_path)).find(text) == fresh
    assert list(tmp_path.glob("literals-*"))
    assert anchors.finder(WORDS, Kept(tmp_path)).find(text) == fresh


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
def test_a_sealed_file_that_is_no_database_is_made_anew(tmp_path):
    class Liar(Kept):
        def get(self, name, key):
            return b"not a database"

    assert anchors.finder(WORDS, Liar(tmp_path)).find(b"Watchdog caught") == [(0, 15)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: None,
        pytest.param(lambda folder: [f.write_bytes(b"junk") for f in folder.iterdir()], marks=pytest.mark.long),
    ],
)
def test_the_second_start_answers_as_the_first(tmp_path, spoil):
    log = tmp_path / "a.log"
    log.write_text("RuntimeError: CUDA error: out of memory\n")
    command = [sys.executable, "-m", "keepstep", "why", "--no-kernel-log", "--json", str(log)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert sorted(f.name for f in (tmp_path / "cache" / "keepstep").iterdir())[-1].startswith(PATTERNS)
    spoil(tmp_path / "cache" / "keepstep")
    second = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (first.stdout, first.returncode) == (second.stdout, second.returncode)
