# SPDX-License-Identifier: Apache-2.0
"""What is made later is the same as what would have been made at once."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import subprocess
import sys

import pytest

from keepstep.base.lazy_pattern import LazyPattern, lazy_pattern
from keepstep.model.codec import fact_types
from keepstep.model.facts.process import ExceptionRaised, FatalSignal, Frame

MOST_COMPILED = 60
"""Patterns at the start of `keepstep why`: the standard library's own, and a few that are asked of every log."""


def test_a_fact_equals_another_with_the_same_parts() -> None:
    one, other = FatalSignal(signal="SIGSEGV", rank=1), FatalSignal(signal="SIGSEGV", rank=1)
    assert one == other and hash(one) == hash(other)
    assert one != FatalSignal(signal="SIGBUS", rank=1)
    assert one != Frame(file="a.py", line=1, function="f")
    assert repr(one).startswith("FatalSignal(rank=1, signal='SIGSEGV'")


def test_a_fact_cannot_be_changed() -> None:
    fact = FatalSignal(signal="SIGSEGV")
    with pytest.raises(dataclasses.FrozenInstanceError):
        fact.signal = "SIGBUS"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del fact.signal
    with pytest.raises(AttributeError):
        object.__setattr__(fact, "other", 1)


def test_a_fact_takes_its_fields_as_keywords_and_no_others() -> None:
    with pytest.raises(TypeError):
        FatalSignal("SIGSEGV")  # type: ignore[call-arg, misc]
    with pytest.raises(TypeError):
        FatalSignal(signal="SIGSEGV", unheard_of=1)  # type: ignore[call-arg]


def test_a_fact_survives_pickling_copying_and_replacing() -> None:
    fact = ExceptionRaised(type="KeyError", message="'label'", frames=(Frame(file="a.py", line=1, function="f"),))
    assert pickle.loads(pickle.dumps(fact)) == fact
    assert copy.deepcopy(fact) == fact
    assert dataclasses.replace(fact, logged=True).logged


def test_every_fact_has_slots_and_is_a_dataclass() -> None:
    kinds = fact_types().values()
    assert not [kind for kind in kinds if not dataclasses.is_dataclass(kind) or "__dict__" in dir(kind)]


def test_a_pattern_is_compiled_when_it_is_asked() -> None:
    pattern = lazy_pattern(r"port (\d+)", re.IGNORECASE)
    assert isinstance(pattern, LazyPattern)
    assert pattern.pattern == r"port (\d+)" and "compiled" not in vars(pattern)
    match = pattern.search("Port 80")
    assert match is not None and match[1] == "80" and "compiled" in vars(pattern)
    assert lazy_pattern(rb"\d+").findall(b"1 and 2") == [b"1", b"2"]


def test_a_pattern_for_short_texts_looks_no_further() -> None:
    pattern = lazy_pattern(r"\w+ failed", most=10)
    assert isinstance(pattern, LazyPattern) and pattern.most == 10
    assert pattern.search("it failed!") and pattern.match("it failed, and more") and pattern.fullmatch("it failed")
    assert not pattern.search("in the end it failed") and not pattern.match("somebody failed")
    assert not pattern.fullmatch("somebody failed")
    assert pattern.search("in the end it failed", 11) and not pattern.search("it failed", 0, 5)
    assert (
        lazy_pattern("a", most=3).findall("aaaaa")
        == ["a"] * 3
        == [each[0] for each in lazy_pattern("a", most=3).finditer("aaaaa")]
    )
    assert lazy_pattern("a", most=3).sub("b", "aaaaa") == "bbbaa"


def test_every_lazy_pattern_compiles() -> None:
    program = """
import gc
from keepstep.parse.scan.tables import tables
from keepstep.rules import builtin_rules
from keepstep.base.lazy_pattern import LazyPattern
from keepstep.signals.waits import read_waits
from keepstep.rules.last_resort.table import table as last_resort
signatures, blocks, progress = tables()
builtin_rules()
last_resort(), read_waits()
for each in (*signatures, *(block.begin for block in blocks), *progress):
    each.pattern
lazy = [each for each in gc.get_objects() if isinstance(each, LazyPattern)]
for each in lazy:
    each.compiled
print(len(lazy))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_a_start_compiles_few_patterns() -> None:
    program = """
import re
compile_it, compiled = re._compiler.compile if hasattr(re, "_compiler") else re.sre_compile.compile, []
def counting(pattern, flags=0):
    compiled.append(pattern)
    return compile_it(pattern, flags)
(re._compiler if hasattr(re, "_compiler") else re.sre_compile).compile = counting
import keepstep.cli.why
from keepstep.parse.scan.tables import tables
from keepstep.rules import builtin_rules
builtin_rules()
tables()
print(*compiled, sep="\\n---\\n")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    compiled = done.stdout.split("\n---\n")
    assert len(compiled) <= MOST_COMPILED, "use keepstep.base.lazy_pattern in place of re.compile for: " + done.stdout
