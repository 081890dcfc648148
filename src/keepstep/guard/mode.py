# SPDX-License-Identifier: Apache-2.0
"""What the variable KEEPSTEP asks for. An unknown value means off, and is reported once."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

ON, STRICT, OFF, UNSET = "on", "strict", "off", "unset"
_MEANS = {
    "": UNSET,
    **dict.fromkeys(("off", "0", "no", "false"), OFF),
    **dict.fromkeys(("on", "1", "yes", "true"), ON),
    "strict": STRICT,
}


def mode(env: Mapping[str, str] = os.environ) -> str:
    """On, strict, off, or unset."""
    return _MEANS.get(_value(env), OFF)


def tell_if_unknown() -> None:
    """One line for the whole job: the processes that this one starts inherit the answer."""
    if _value(os.environ) not in _MEANS:
        value = os.environ["KEEPSTEP"][:40]
        os.environ["KEEPSTEP"] = OFF
        sys.stderr.write(f"keepstep: KEEPSTEP={value} is unknown, so the guard is off (use on, strict or off)\n")


def _value(env: Mapping[str, str]) -> str:
    return env.get("KEEPSTEP", "").strip().lower()
