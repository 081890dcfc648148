# SPDX-License-Identifier: Apache-2.0
"""``keepstep rules``: list, search and show what keepstep knows, and what the user added."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keepstep.rules
from keepstep.base.did_you_mean import did_you_mean
from keepstep.base.visible import visible
from keepstep.base.wording import count
from keepstep.errors import UserError
from keepstep.extend import load_extensions
from keepstep.model.cause import Cause
from keepstep.model.rule import Rule, rules_in
from keepstep.render.json import dumps
from keepstep.render.rules_text import SEVERITIES, STANDINGS, sections, summary, wrapped

WIDTH = 80


def rules(asked: argparse.Namespace) -> int:
    """Do what was asked; returns the exit status."""
    if asked.ask == "trust":
        from keepstep.cli.rules_trust import trust_verb

        return trust_verb(asked)
    known = all_rules(Path(asked.config) if asked.config else None, [Path(each) for each in asked.rules])
    if asked.ask == "search":
        return search_rules(known, asked.words, as_json=asked.json)
    if asked.ask == "show":
        return show_rules(known, asked.words, as_json=asked.json)
    return list_rules(known, as_json=asked.json)


def all_rules(config: Path | None = None, folders: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """keepstep's own rules, then the user's; problems with the user's go to standard error."""
    builtin = rules_in(keepstep.rules)
    own = load_extensions(config, folders=folders, taken=(rule.id for rule in builtin))
    for problem in own.coverage:
        print(visible(f"keepstep: {problem.what}: {problem.why}"), file=sys.stderr)
    return (*builtin, *own.rules)


def list_rules(known: Sequence[Rule], *, as_json: bool = False) -> int:
    """All rules by cause, in one or two lines each."""
    if as_json:
        return _print_json(known, docs=False)
    by_family: dict[str, list[Rule]] = {}
    for rule in known:
        by_family.setdefault(rule.cause.family, []).append(rule)
    for family in sorted(by_family):
        print(_bold(family))
        for rule in sorted(by_family[family], key=lambda each: (each.cause.value, each.id)):
            _print_row(rule)
        print()
    print(f"{count(len(known), 'rule')}; `keepstep rules show ID` explains one")
    return 0


def search_rules(known: Sequence[Rule], words: Sequence[str], *, as_json: bool = False) -> int:
    """Rules that mention all the words, or else most of them; best first."""
    asked = [word.casefold() for text in words for word in text.split()]
    scored = [(_score(rule, asked), rule) for rule in known]
    most = max((hits for (hits, _), _ in scored), default=0)
    found = [rule for (hits, weight), rule in sorted(scored, key=_best_first) if hits == most and hits]
    if as_json:
        return _print_json(found, docs=False)
    if not found:
        print(f"no rule mentions {' '.join(words)}; `keepstep rules` lists all rules", file=sys.stderr)
        return 0
    if most < len(set(asked)):
        print(f"no rule mentions all of these words; these rules mention {most} of them", file=sys.stderr)
    for rule in found:
        _print_row(rule, with_family=True)
    return 0


def _best_first(scored: tuple[tuple[int, int], Rule]) -> tuple[int, bool, str]:
    """Of equals, what befalls a run comes before what is read in a program."""
    (_, weight), rule = scored
    return -weight, rule.id.startswith("COD"), rule.id


def _score(rule: Rule, words: Sequence[str]) -> tuple[int, int]:
    """How many of the words occur, and how prominently."""
    places = (
        (8, f"{rule.id} {rule.name} {rule.cause.value}".casefold()),
        (4, summary(rule).casefold()),
        (1, rule.doc.casefold()),
    )
    weights = [max((weight for weight, text in places if word in text), default=0) for word in dict.fromkeys(words)]
    return sum(weight > 0 for weight in weights), sum(weights)


def show_rules(known: Sequence[Rule], names: Sequence[str], *, as_json: bool = False) -> int:
    """Everything the named rules know. A name is an id, a rule's name or a cause."""
    found = list({rule.id: rule for name in names for rule in _named(known, name)}.values())
    if as_json:
        return _print_json(found, docs=True)
    for number, rule in enumerate(found):
        if number:
            print()
        _print_rule(rule)
    return 0


def _named(known: Sequence[Rule], name: str) -> list[Rule]:
    wanted = name.strip().casefold()
    found = [
        rule
        for rule in known
        if wanted in (rule.id.casefold(), rule.name.casefold(), rule.name.replace("-", "_").casefold())
        or wanted in (rule.cause.value, rule.cause.label, rule.cause.family)
    ]
    if found:
        return found
    if wanted in (cause.value for cause in Cause):
        raise UserError(f"no rule names the cause {wanted} yet", hint="`keepstep rules` lists the rules")
    options = [text for rule in known for text in (rule.id, rule.name, rule.cause.value)]
    hint = did_you_mean(wanted, options, f"try `keepstep rules search {name}`")
    raise UserError(f"no rule, cause or family has the name {name!r}", hint=hint)


def _print_row(rule: Rule, *, with_family: bool = False) -> None:
    name = rule.cause.value if with_family else rule.cause.label
    print(visible(f"  {rule.id}  {name}"))
    print(textwrap.fill(visible(summary(rule)), WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10))


def _print_rule(rule: Rule) -> None:
    print(_bold(f"{rule.id}  {rule.name}"))
    print("\n".join(wrapped(visible(summary(rule)), WIDTH)))
    print()
    print(f"  cause       {rule.cause.value}")
    print(f"  severity    {SEVERITIES[rule.severity]}")
    print(f"  standing    {STANDINGS[rule.standing]}")
    for section in sections(rule):
        print()
        if section.heading:
            print(_bold(section.heading))
        print("\n".join(wrapped(visible(section.body), WIDTH, "  ")))


def _print_json(chosen: Sequence[Rule], *, docs: bool) -> int:
    print(dumps({"schema": "keepstep.rules/1", "rules": [_as_dict(rule, docs) for rule in chosen]}, indent=2))
    return 0


def _as_dict(rule: Rule, docs: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": rule.id,
        "name": rule.name,
        "cause": rule.cause.value,
        "summary": summary(rule),
        "severity": rule.severity.value,
        "standing": rule.standing.name.lower(),
        "confidence": rule.confidence.value,
        "since": rule.since,
    }
    if docs:
        found["sections"] = {section.heading or "About": section.body for section in sections(rule)}
        found["explains"] = [cause.value for cause in rule.explains]
    return found


def _bold(text: str) -> str:
    text = visible(text)
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text
