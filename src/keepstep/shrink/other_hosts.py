# SPDX-License-Identifier: Apache-2.0
"""Workers on other hosts that a program waits for: a trial has no network but loopback, so it would wait in vain."""

from __future__ import annotations

import ast
import ipaddress
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLE = "TF_CONFIG"


def other_hosts(script: str, env: Mapping[str, str]) -> list[str]:
    """The addresses of TF_CONFIG that are not this host, as the environment or the script itself sets it."""
    texts = [env.get(VARIABLE, "")]
    try:
        source = Path(script).read_text()
        if VARIABLE in source:
            nodes = ast.walk(ast.parse(source))
            texts += [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    except (OSError, ValueError, SyntaxError):
        pass
    return sorted({each for text in texts for each in _addresses(text) if not _is_here(each.rpartition(":")[0])})


def _addresses(text: str) -> Iterator[str]:
    try:
        said = json.loads(text)
        for tasks in said["cluster"].values():
            yield from (each for each in tasks if isinstance(each, str))
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
