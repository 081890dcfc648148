# SPDX-License-Identifier: Apache-2.0
"""The example in CONTRIBUTING.md is a rule that works."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.network import NameUnresolved
from keepstep.model.identity import Rank
from keepstep.model.rule import HEADINGS, Rule
from keepstep.story.engine import diagnose

GUIDE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"


def test_the_rule_of_the_guide_names_the_host_and_the_rank() -> None:
    code = re.search(r"```python\n(# src/.+?)```", GUIDE.read_text(), re.S)
    assert code
    module = ModuleType("guide")
    exec(compile(code[1], str(GUIDE), "exec"), module.__dict__)
    rule = next(value for value in vars(module).values() if isinstance(value, Rule))
    assert re.findall(r"## (.+)", rule.doc) == list(HEADINGS)

    fact = NameUnresolved(host="node-b")
    place = Origin(source="rank1.log", line=3)
    seen = Evidence(fact=fact, origin=place, rank=Rank(index=1), quote="Name or service not known")
    report = diagnose(EvidenceSet(items=(seen,)), [rule])

    assert report.root is not None
    assert report.root.title == "node-b could not be resolved"
    assert report.root.ranks == (1,)
