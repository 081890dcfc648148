# SPDX-License-Identifier: Apache-2.0
"""What makes large projects fast must not change what is found: facts made late, rules asked in two processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keepstep.check.code import ask_rules
from keepstep.check.code.ask_rules import answered
from keepstep.check.code.check_code import CodeRequest, check_code
from keepstep.check.code.program.facts import evidence_of
from keepstep.check.code.program.project import Project
from keepstep.check.code.unit_bytes import BROKEN, packed, unpacked
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.code import CodeAssigned, CodeCall
from keepstep.model.finding import Found
from keepstep.parse.code.read import read_program
from keepstep.parse.code.unit import Unit
from keepstep.rules import code_rules
from keepstep.rules.code._asking import program

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model, rank):
        self.model = DDP(model)
        self.rank = rank

    @classmethod
    def made(cls, rank):
        return cls.of(torch.nn.Linear(2, 2), rank)

    def save(self):
        if self.rank == 0:
            dist.barrier()
            settings = {"state": self.model.state_dict(), "epoch": 1}
            torch.save(settings, os.path.join("out",
                                              "last.pt"))

    def place(self):
        return self.rank, "out"
"""


def unit() -> Unit:
    return read_program(PROGRAM, "train")


def seen() -> EvidenceSet:
    return evidence_of(Project({"train.py": unit()}))


def the_call(name: str) -> CodeCall:
    (found,) = program(seen()).calls(name)
    return found.fact


def test_two_processes_find_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, path in enumerate(
        sorted(path for part in ("shown", "added") for path in (PROGRAMS / part).glob("*/wrong.py"))[::2]
    ):
        (tmp_path / f"p{number}.py").write_text(path.read_text())
    asked = CodeRequest(paths=(tmp_path,), preview=True)
    found = []
    for least in (10**6, 1):
        monkeypatch.setattr(ask_rules, "FROM_FILES", least)
        report = check_code(asked).report
        found.append((report.findings, report.crashed, report.verdict))
    assert found[0] == found[1]
    assert len(found[0][0]) > 12


def test_a_rule_that_fails_is_left_to_be_asked_as_usual() -> None:
    def fails(seen: EvidenceSet) -> Iterator[Found]:
        raise RuntimeError("a rule failed")
        yield

    first, second, *_ = code_rules()
    failing = replace(first, find=fails)
    ready = answered([failing, second], seen(), ask_rules.FROM_FILES)
    assert ready[0] is failing
    assert ready[1].id == second.id and ready[1] is not second


def test_a_call_knows_all_about_itself_when_it_is_asked() -> None:
    saved = the_call("torch.save")
    assert saved.text == 'torch.save(settings, os.path.join("out", "last.pt"))'
    assert [each.value.text for each in saved.arguments] == ["settings", 'os.path.join("out", "last.pt")']
    assert [block.ranked for block in saved.within] == [True]
    assert saved == the_call("torch.save") and hash(saved) == hash(the_call("torch.save"))
    assert the_call("torch.nn.parallel.DistributedDataParallel").assigned == "self.model"
    made = the_call("train.Trainer.of")
    assert made.on is not None and (made.on.text, made.on.made) == ("self", "train.Trainer")


def test_only_what_is_asked_for_is_made() -> None:
    evidence = seen()
    known = program(evidence)
    assert [each.fact.name for each in known.named(lambda name: name.startswith("torch.save"), "last.pt")]
    assert not list(known.named(lambda name: name == "torch.save", "no such word"))
    (calls,) = evidence.later[CodeCall]
    assert len([each for each in calls._made if each is not None]) == 1
    assert [each.fact.target for each in known.assigned_to("model")] == ["self.model"]
    (assigned,) = evidence.later[CodeAssigned]
    assert len([each for each in assigned._made if each is not None]) == 1
    assert len(evidence.all(CodeCall)) == len(calls)


def test_a_unit_comes_back_as_it_was() -> None:
    there = unit()
    assert any(each.elements for function in there.functions for each in function.returns)
    assert unpacked(packed(there)) == there


def test_unpacking_runs_no_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (open, (str(tmp_path / "made"), "w"))

    for data in (pickle.dumps(Evil()), pickle.dumps(tuple([Evil()])), b"", b"\x80\x05.", packed(unit())[:-9]):
        with pytest.raises(BROKEN):
            unpacked(data)
    assert not (tmp_path / "made").exists()
