# SPDX-License-Identifier: Apache-2.0
"""StableHLO: programs that one side of JAX, PyTorch/XLA or TensorFlow wrote and an older other side cannot read.

The Python side sends its program as versioned bytecode (the dialect ``vhlo``) to a plugin or runtime: libtpu, a PJRT
plugin, a proxy server. A reader that is older than the writer meets codes and operations that it does not know.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import SymbolMissing
from keepstep.parse.scan.signature import signature


def _unknown(match: re.Match[str]) -> Fact:
    return SymbolMissing(symbol=match["what"], library="the XLA runtime, older than the StableHLO it was given")


SIGNATURES = (
    signature(r"error: unknown (?P<what>vhlo (?:type|attribute) code: \d{1,6})", _unknown),
    signature(r"unregistered operation '(?P<what>(?:vhlo|stablehlo|mhlo|chlo|sdy)\.\w{1,80})'", _unknown),
    signature(r"(?P<what>failed to deserialize portable artifact using StableHLO_v[\d.]{1,12})", _unknown),
    signature(r"failed to legalize operation '(?P<what>vhlo\.\w{1,80})' that was explicitly marked illegal", _unknown),
    signature(r"error: (?P<what>bytecode version \d{1,4}) is newer than the current version \d", _unknown),
)
