# SPDX-License-Identifier: Apache-2.0
"""The examples in CONTRIBUTING.md are rules that work."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path
from types import ModuleType

from keepstep.check.code.program.facts import evidence_of
from keepstep.check.code.program.project import Project
from keepstep.model import facts
from keepstep.model.codec import fact_types
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.network import NameUnresolved
from keepstep.model.identity import Rank
from keepstep.model.rule import HEADINGS, Rule
from keepstep.parse.code.read import read_program
from keepstep.story.engine import diagnose

GUIDE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"


def rule_of_the_guide(fence: str) -> Rule:
    code = re.search(rf"^{fence}python\n(# src/.+?)^{fence}$", GUIDE.read_text(), re.S | re.M)
    assert code
    module = ModuleType("guide")
    exec(compile(code[1], str(GUIDE), "exec"), module.__dict__)
    rule = next(value for value in vars(module).values() if isinstance(value, Rule))
    assert re.findall(r"## (.+)", rule.doc) == list(HEADINGS)
    return rule


def test_the_lint_rule_of_the_guide_finds_its_wrong_program_and_not_its_right_one() -> None:
    rule = rule_of_the_guide("````")
    programs = re.findall(r"```python\n(.*?)```", textwrap.dedent(rule.doc), re.S)
    projects = [Project({"train.py": read_program(textwrap.dedent(text), "train")}) for text in programs]
    found = [diagnose(evidence_of(project), [rule]).findings for project in projects]
    assert [[(each.rule, each.evidence[0].origin.line) for each in some] for some in found] == [[("COD901", 4)], []]


def test_no_two_facts_share_a_name() -> None:
    folder = Path(facts.__file__).parent
    names = [name for path in folder.glob("*.py") for name in re.findall(r"^class (\w+)\(", path.read_text(), re.M)]
    assert [name for name, times in Counter(names).items() if times > 1 and name in fact_types()] == []


def test_the_rule_of_the_guide_names_the_host_and_the_rank() -> None:
    rule = rule_of_the_guide("```")
    fact = NameUnresolved(host="node-b")
    place = Origin(source="rank1.log", line=3)
    seen = Evidence(fact=fact, origin=place, rank=Rank(index=1), quote="Name or service not known")
    report = diagnose(EvidenceSet(items=(seen,)), [rule])

    assert report.root is not None
    assert report.root.title == "node-b could not be resolved"
    assert report.root.ranks == (1,)
