# SPDX-License-Identifier: Apache-2.0
"""SYN101: ranks differ in a setting that decides how they communicate."""

from __future__ import annotations

from keepstep.model.facts import AgreedSetting
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.config._exports import export


@rule(id="SYN101", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(AgreedSetting,))
def settings_differ(seen: EvidenceSet) -> Findings:
    """Ranks differ in a setting that decides how they communicate, or what they compile.

    ## What it looks like
    NCCL_ALGO, XLA_FLAGS, the collective implementation or a similar setting is set on some ranks only, or
    differently. The ranks enter different collectives and hang, or compile different programs.

    ## Why it happens
    The variable is set in one host's profile, or was exported in one shell.

    ## How we know
    Every process reports its value; we compare it with the value that most processes have.

    ## What to do
    Set it to the same value everywhere, in the batch script rather than in a profile.

    ## When this is wrong
    A setting that has no effect in this job (NCCL_ALGO where gloo is used).
    """
    for group in seen.groups(AgreedSetting, by=lambda fact: fact.name):
        values = [e.fact.value for e in group]
        if len(set(values)) < 2:
            continue
        usual = max(dict.fromkeys(values), key=values.count)
        odd = tuple(e for e in group if e.fact.value != usual)
        name = group[0].fact.name
        mend = (export(name, usual) if usual is not None else f"unset {name}") if name.isupper() else None
        who = say_ranks(tuple(w for e in odd if (w := e.who) is not None)) or "a process"
        yield Found(
            title=f"{who} has {name}={odd[0].fact.value or '(not set)'}, the others {usual or '(not set)'}",
            because="this setting decides how ranks communicate or what they compile, so it must be the same on all",
            evidence=odd,
            severity=Severity.WARNING,
            fixes=(Fix(do="set it to the same value everywhere", command=mend),),
        )
