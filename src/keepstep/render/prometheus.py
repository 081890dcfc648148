# SPDX-License-Identifier: Apache-2.0
"""Measured values in the text format that Prometheus reads. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass
class Family:
    """One metric: its name without ``keepstep_``, its help, and its samples by their labels."""

    name: str
    help: str
    kind: str = "gauge"
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """Nothing where there is no value."""
        if value is not None:
            self.samples.append((labels, value))


def render_prometheus(families: Iterable[Family]) -> str:
    """All of them, as one page. A family without samples is left out."""
    lines: list[str] = []
    for family in families:
        assert NAME.fullmatch(family.name), family.name
        if family.samples:
            name = f"keepstep_{family.name}"
            lines += [f"# HELP {name} {_escaped(family.help)}", f"# TYPE {name} {family.kind}"]
            lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in family.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{_escaped(value, quoted=True)}"' for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str, *, quoted: bool = False) -> str:
    found = text.replace("\\", "\\\\").replace("\n", "\\n")
    return found.replace('"', '\\"') if quoted else found


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.10g}"
