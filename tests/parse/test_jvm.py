# SPDX-License-Identifier: Apache-2.0
"""Classes of Java that do not fit each other."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.environment import LibraryMissing, SymbolMissing
from keepstep.parse.tools.spark import jvm
from tests.parse.reading import reader

read = reader(jvm)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("java.lang.NoSuchMethodError: isEncrypted", SymbolMissing(symbol="isEncrypted")),
        (
            "Exception in thread main java.lang.UnsupportedClassVersionError: org/example/Main : Unsupported major.minor version 52.0",
            SymbolMissing(symbol="org/example/Main"),
        ),
        ("java.lang.UnsatisfiedLinkError: no jnind4j in java.library.path", LibraryMissing(name="jnind4j")),
    ],
)
def test_a_class_that_does_not_fit_is_read(text: str, fact: Fact) -> None:
    assert read(text) == [fact]


def test_an_exception_of_the_program_says_nothing() -> None:
    assert read("java.lang.IllegalStateException: no such method") == []
