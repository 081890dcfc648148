# SPDX-License-Identifier: Apache-2.0
"""Which loop trains, and what is done in every turn of it."""

from __future__ import annotations

from keepstep.rules.code._asking import Call, ProjectFacts, blocks


def is_tried_again(call: Call) -> bool:
    """Whether a call stands in a ``try`` that a loop repeats until it succeeds."""
    tried = blocks(call, "try")
    if not tried or tried[-1].text not in ("return", "break"):
        return False
    around = call.fact.within[: call.fact.within.index(tried[-1])]
    loops = [each for each in around if each.kind in ("for", "while")]
    return bool(loops) and (loops[-1].kind == "while" or loops[-1].text.startswith("range("))


def in_every_step(known: ProjectFacts, call: Call) -> bool:
    """Whether a call stands in a loop with a backward pass in it, and no condition in that loop makes it rare."""
    loops = blocks(call, "for", "while")
    if not loops:
        return False
    innermost = call.fact.within.index(loops[-1])
    if any(each.kind in ("if", "else", "except") for each in call.fact.within[innermost:]):
        return False
    return any(
        each.fact.method == "backward" and loops[-1] in each.fact.within for each in known.inside(call.fact.function)
    )
