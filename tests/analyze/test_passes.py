# SPDX-License-Identifier: Apache-2.0
"""The passes of an explanation say truly what they need and what they give."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from keepstep.analyze.passes import PASSES, Gathered, Part

PARTS = set(get_args(Part))
RECORDINGS = Path(__file__).parent.parent / "recordings"


class Untouchable:
    """Stands for what a pass does not say that it needs."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"a pass used .{name} of something that it does not need")

    def __iter__(self) -> Any:
        raise AssertionError("a pass went through something that it does not need")


def test_every_pass_needs_only_what_an_earlier_one_gave() -> None:
    given: set[str] = set()
    for each in PASSES:
        assert set(each.needs) <= given, each.name
        given |= set(each.gives)
    assert given == PARTS
    assert {field.name for field in fields(Gathered)} & PARTS == PARTS
    assert len({each.name for each in PASSES}) == len(PASSES)


@pytest.mark.parametrize("recording", sorted(path.name for path in RECORDINGS.glob("*"))[::60])
def test_a_pass_reads_only_what_it_needs_and_changes_only_what_it_gives(recording: str) -> None:
    now = Gathered(paths=[RECORDINGS / recording], kernel_log=True)
    for each in PASSES:
        hidden = {name: Untouchable() for name in PARTS - {*each.needs, *each.gives}}
        after = each.do(replace(now, **hidden))  # type: ignore[arg-type]
        for name in hidden:
            assert getattr(after, name) is hidden[name], (each.name, name)
        now = replace(after, **{name: getattr(now, name) for name in hidden})
    assert now.report is not None and now.seen is not None
