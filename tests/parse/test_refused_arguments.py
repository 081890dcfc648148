# SPDX-License-Identifier: Apache-2.0
"""Programs that refuse their arguments."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import ExceptionRaised
from keepstep.parse.tools.python import refused_arguments as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("train.py: error: unrecognized arguments: --local-rank=0", "ArgumentError"),
        ("Accelerate CLI tool: error: unrecognized arguments: --multi_cpu", "ArgumentError"),
        ("/usr/bin/python3: No module named torch.distributed.lunch", "ModuleNotFoundError"),
        (
            "python: No module named train.__main__; 'train' is a package and cannot be directly executed",
            "ModuleNotFoundError",
        ),
        (
            "/opt/bin/python3.11: Error while finding module specification for 'train.py' (ModuleNotFoundError: No module named 'train')."
            " Try using 'train' instead of 'train.py' as the module name.",
            "ModuleNotFoundError",
        ),
        ("Error: No such option: --local_rank", "UsageError"),
        ("Override 'local-rank' not found", "OverrideError"),
        ("python3: can't open file 'train.py': [Errno 2] No such file or directory", "FileNotFoundError"),
    ],
)
def test_a_refusal_is_an_exception_of_the_program(text, kind):
    assert one(text, ExceptionRaised).type == kind


def test_a_warning_of_an_argument_says_nothing():
    assert facts("warning: ignoring unknown argument --foo") == []
