# SPDX-License-Identifier: Apache-2.0
"""Whether a launcher has started this command several times: only then is it worth waiting for the others.

TF_CONFIG, RANK or JAX's variables alone do not show it: people export them in a shell and then check one machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from keepstep.base.launchers import LAUNCHERS
from keepstep.base.whole_numbers import whole


def started_by(env: Mapping[str, str]) -> str | None:
    """The launcher, or None where this process may be the only one."""
    proofs = [(each.started_by, each.started_by[0] in each.size) for each in LAUNCHERS if each.started_by]
    counted = (by for (name, by), counts in proofs if counts and (whole(env.get(name, "")) or 0) > 1)
    named = (by for (name, by), counts in proofs if not counts and env.get(name))
    return next(itertools.chain(counted, named), None)
