# SPDX-License-Identifier: Apache-2.0
"""A cluster that is written in the script: its hosts, as far as they can be read."""

from __future__ import annotations

import ast
import re
from typing import Any

from keepstep.rules.api import Evidence, Value
from keepstep.rules.code.tensorflow._tensorflow import Distributed, is_seen_from

_HOST = re.compile(r"""["']([\w.\-]+):\d+["']""")
_SOME_LIST = re.compile(r"""["']worker["']\s*:\s*[A-Za-z_]""")
_VARIABLE = re.compile(r"(?<![\w.\"'])[A-Za-z_]\w*(?![\w\"'(])")
_LOCAL = ("localhost", "127.0.0.1", "0.0.0.0")


def written(tf: Distributed, place: Evidence[Any], value: Value) -> str:
    """The value as it is written, with the variables in it replaced by what they are."""
    calls = [each for each in tf.known.inside(place.fact.function) if each.fact.name == "json.dumps"]
    given = [each.fact.arguments[0].value.text for each in calls if each.fact.text == value.text]
    text = given[0] if given else _constant(tf, place, value) or value.literal or value.text
    for _ in range(2):
        for name in dict.fromkeys(_VARIABLE.findall(text)):
            text += "".join(f" {value}" for value in _values(tf, place, name) if value not in text)
    return text


def _constant(tf: Distributed, place: Evidence[Any], value: Value) -> str:
    """All of a text: a fact keeps only its beginning."""
    if value.literal is None or not value.text.startswith(("'", '"')):
        return ""
    syntax = tf.known.syntax(place.origin.source)
    texts = [
        each.value
        for each in (ast.walk(syntax) if syntax is not None else ())
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.lineno == value.line
    ]
    return max(texts, key=len, default="")


def _values(tf: Distributed, place: Evidence[Any], name: str) -> list[str]:
    return [
        each.fact.value.text
        for each in tf.known.assigned_in_file(place)
        if each.fact.target == name and is_seen_from(each.fact.function, place.fact.function, name)
    ]


def hosts_of(text: str) -> list[str]:
    """The hosts that are named, with a port."""
    return _HOST.findall(text)


def counts_tasks(text: str) -> bool:
    """Whether several tasks are named, or a list of them."""
    hosts = hosts_of(text)
    return len(hosts) > 1 if hosts else _SOME_LIST.search(text) is not None


def mixes_localhost(text: str) -> bool:
    """Whether some of the hosts are the machine itself, and some are not."""
    hosts = hosts_of(text)
    local = [host for host in hosts if host in _LOCAL]
    return bool(local) and len(local) < len(hosts)
