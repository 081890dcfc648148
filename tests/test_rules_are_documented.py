# SPDX-License-Identifier: Apache-2.0
"""Every rule can be read by a person: identity, headings, a name that says what went wrong, one cause."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from types import ModuleType

import keepstep.rules
from keepstep.model.cause import Cause
from keepstep.model.rule import HEADINGS, Rule, rules_in

RULES = rules_in(keepstep.rules)

# "this run suffered ___" must read well
BANNED_STARTS = ("avoid-", "use-", "check-", "bad-")
BANNED_ENDS = ("-issue", "-problem")

NOT_SEEN_IN_LOGS_YET: dict[Cause, str] = {}
"""Causes that no rule can name, each with the reason."""

NAMED_BY_ANOTHER_FAMILY = {
    "HWD005": "a device-side error without a fault of the device is a bug of the code that ran on it",
    "NUM204": "numbers that are wrong on one replica, whether a device or the program changed them",
}
"""Rules that live with their subject rather than with their cause, each with the reason."""


def modules() -> list[ModuleType]:
    walked = pkgutil.walk_packages(keepstep.rules.__path__, "keepstep.rules.")
    return [importlib.import_module(info.name) for info in walked]


def own_rules(module: ModuleType) -> list[Rule]:
    return [r for r in vars(module).values() if isinstance(r, Rule) and r.find.__module__ == module.__name__]


def test_there_are_rules() -> None:
    assert RULES


def test_no_two_rules_share_an_id_or_a_name() -> None:
    every = [r for module in modules() for r in own_rules(module)]
    for what in ("id", "name"):
        twice = {value: n for value, n in Counter(getattr(r, what) for r in every).items() if n > 1}
        assert not twice, f"{what} used more than once: {twice}"


def test_one_file_holds_one_rule_of_its_own_name() -> None:
    for module in modules():
        file = module.__name__.rpartition(".")[2]
        names = [r.name.replace("-", "_") for r in own_rules(module)]
        assert len(names) <= 1, f"{module.__name__} holds {names}"
        if names:
            assert names == [file], f"{module.__name__} holds {names[0]}: name the file after the rule"


def test_a_rule_has_a_stable_identity() -> None:
    assert not [rule.id for rule in RULES if not re.fullmatch(r"[A-Z]{3}\d{3}", rule.id)]
    assert not [rule.name for rule in RULES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)]
    vague = [rule.name for rule in RULES if rule.name.startswith(BANNED_STARTS) or rule.name.endswith(BANNED_ENDS)]
    assert not vague, "name what went wrong"


def test_a_rule_lives_in_the_folder_of_its_family() -> None:
    elsewhere = [
        f"{rule.id} of {rule.cause.family} lives in {folder}"
        for rule in RULES
        if (folder := rule.find.__module__.split(".")[2]) not in ("code", rule.cause.family)  # programs: by framework
        and rule.id not in NAMED_BY_ANOTHER_FAMILY
    ]
    assert not elsewhere


def test_a_rule_is_explained_under_all_headings_in_order() -> None:
    wrong = []
    for rule in RULES:
        found = tuple(re.findall(r"^\s*## (.+?)\s*$", rule.doc, re.M))
        if tuple(h for h in found if h in HEADINGS) != HEADINGS or not set(found) <= {*HEADINGS, "References"}:
            wrong.append(f"{rule.id} has the headings {found}")
        texts = re.split(r"^\s*## .+$", rule.doc, flags=re.M)[1:]
        wrong += [
            f"{rule.id} says nothing under {heading!r}"
            for heading, text in zip(found, texts, strict=True)
            if len(text.split()) < 3
        ]
    assert not wrong


def test_a_rules_summary_is_one_sentence_of_one_line() -> None:
    wrong = []
    for rule in RULES:
        summary, *rest = rule.doc.splitlines()
        if not summary.strip() or not summary.endswith(".") or len(summary) > 120 or not rest or rest[0].strip():
            wrong.append(f"{rule.id}: {summary}")
    assert not wrong, "the first line is a sentence of at most 120 characters, and a blank line follows"


def test_the_file_of_a_rule_names_its_id() -> None:
    """So that grep for an id finds the file."""
    of = {rule.id: importlib.import_module(rule.find.__module__).__doc__ or "" for rule in RULES}
    assert not [id for id, doc in of.items() if not doc.startswith(f"{id}: ")]


def test_every_cause_has_a_rule_or_a_reason_why_not() -> None:
    with_rule = {r.cause for r in RULES}
    silent = {c.value for c in Cause if c not in with_rule and c not in NOT_SEEN_IN_LOGS_YET}
    assert not silent, f"no rule can name {sorted(silent)}"
    stale = {c.value for c in NOT_SEEN_IN_LOGS_YET if c in with_rule}
    assert not stale, f"has a rule by now, take it off the list: {sorted(stale)}"


def test_a_family_has_one_prefix_and_a_prefix_one_family() -> None:
    pairs = {(rule.find.__module__.split(".")[2], rule.id[:3]) for rule in RULES}
    for side in (0, 1):
        assert max(Counter(pair[side] for pair in pairs).values()) == 1, sorted(pairs)
