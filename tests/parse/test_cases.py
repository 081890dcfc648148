# SPDX-License-Identifier: Apache-2.0
"""Every signature has a case: a text as its tool prints it, read through the real scan."""

from __future__ import annotations

import pytest

from keepstep.parse.scan.bounded import narrowed
from tests.parse.table_cases import agrees, cases, facts_in, without_a_case

OF_ANY_TEXT = {"StreamEnded", "LastOwnLine", "ErrorSaid", "ExceptionRaised"}
"""Facts that no table states: they hold of whatever ends a log or looks like an exception."""


@pytest.mark.parametrize("who", cases())
def test_the_texts_of_a_tool_state_what_they_should(who: str) -> None:
    wrong = {}
    for case in cases()[who]:
        where = (case.row.where, case.row.expression) if case.row else who
        found = facts_in(case.text)
        if case.row and not case.row.pattern.search(narrowed(case.text)):
            wrong[case.text] = (where, "its row does not match it")
        if case.fact and not any(agrees(fact, case) for fact in found):
            wrong[case.text] = (where, case.fact, case.fields, found)
        kinds = {type(fact).__name__ for fact in found}
        if (case.only or not case.fact) and not kinds <= OF_ANY_TEXT | set(case.only):
            wrong[case.text] = (where, case.only or "nothing", {}, found)
    assert not wrong


def test_every_signature_has_a_case() -> None:
    assert not [f"{each.where}: {each.expression}" for each in without_a_case()]
