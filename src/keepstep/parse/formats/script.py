# SPDX-License-Identifier: Apache-2.0
"""A training script's text: the strategies, calls and loader settings that it visibly uses. It is not run."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.software import ScriptCalls

_STRATEGY = lazy_pattern(r"\b(\w*(?:MultiWorkerMirrored|ParameterServer|Mirrored|TPU|CentralStorage)Strategy)\b")
_FIT = lazy_pattern(r"\.fit\s*\(")
_WORKERS = lazy_pattern(r"\bnum_workers\s*=\s*(\d{1,4})\b")


def read_script(name: str, text: str) -> ScriptCalls:
    """What ``text`` uses, by its words; comments do not count."""
    code = re.sub(r"^[^\S\n]*#.*$", "", text, flags=re.M)
    workers = [int(number) for number in _WORKERS.findall(code)]
    return ScriptCalls(
        script=name,
        strategies=tuple(sorted(set(_STRATEGY.findall(code)))),
        fits=bool(_FIT.search(code)),
        faulthandler="faulthandler.enable" in code,
        loader_workers=max(workers) if workers else None,
    )
