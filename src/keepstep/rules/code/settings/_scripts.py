# SPDX-License-Identifier: Apache-2.0
"""What the rules about scripts ask: on how many nodes a command runs, how often, and what its options are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from keepstep.model.facts import LaunchCommand, LaunchScript, ScriptOption
from keepstep.rules.api import Evidence, EvidenceSet
from keepstep.rules.code.settings._settings import at_line

LOCAL = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(?::\d+)?")
_GPUS = re.compile(r"(?:gpu:)?(?:[a-zA-Z][\w.-]*:)?(\d{1,3})(?:\(.*\))?")
PROCESSES = ("nproc_per_node", "num_gpus")
_NODES_OF_JOB = re.compile(r"\$\{?SLURM_(?:JOB_NUM_NODES|NNODES)\}?")
_GPUS_OF_NODE = re.compile(r"\$\{?SLURM_GPUS_(?:ON|PER)_NODE\}?")


@dataclass(frozen=True)
class Started:
    """A command of a script."""

    script: Evidence[LaunchScript]
    command: LaunchCommand

    @property
    def place(self) -> Evidence[LaunchScript]:
        return at_line(self.script, self.command.line)

    def has(self, *names: str) -> bool:
        return any(each.name in names for each in self.command.options)

    def option(self, *names: str) -> ScriptOption | None:
        return _last(self.command.options, names)

    def text(self, *names: str) -> str | None:
        """The value of an option, if it is written out."""
        return _text(self.option(*names))

    def number(self, *names: str) -> int | None:
        return number(self.option(*names))

    @property
    def of_srun(self) -> bool:
        return self.command.under == "srun"

    @property
    def nodes(self) -> int | None:
        """The nodes that srun starts it on, or that its batch script has."""
        own = _last(self.command.under_options, ("nodes",)) if self.of_srun else None
        return number(own) if own is not None else nodes_of(self.script.fact)

    @property
    def tasks_per_node(self) -> int | None:
        """How often srun starts it on each node; None: unknown."""
        if not self.of_srun:
            return None
        own, nodes = self.command.under_options, self.nodes
        for name in ("ntasks_per_node", "ntasks"):
            given = _last(own, (name,))
            if given is not None:
                tasks = number(given)
                return tasks if name != "ntasks" or tasks is None else _evenly(tasks, nodes)
        if any(each.name in ("gpus", "gpus_per_task", "ntasks_per_gpu", "distribution", "m") for each in own):
            return None
        directives = self.script.fact.directives
        per_node, every = (_last(directives, (name,)) for name in ("ntasks_per_node", "ntasks"))
        if per_node is not None:
            return number(per_node) if _last(own, ("nodes",)) is None else None
        return _evenly(number(every), nodes)

    @property
    def ranks(self) -> int | None:
        """How many ranks it starts in all, written out or as the batch script asks for; None: unknown."""
        if self.has("hostfile", "H", "include", "exclude"):
            return None
        if self.command.program == "accelerate":
            return self.number("num_processes")
        if self.command.program == "python":
            return _product(self.nodes, self.tasks_per_node) if self.of_srun else None
        nodes = self._said(("nnodes", "num_nodes"), _NODES_OF_JOB, self.nodes) if self.has("nnodes", "num_nodes") else 1
        gpus = gpus_per_node(self.script.fact)
        return _product(nodes, self._said(PROCESSES, _GPUS_OF_NODE, gpus[0] if gpus is not None else None))

    def _said(self, names: tuple[str, ...], variable: re.Pattern[str], meant: int | None) -> int | None:
        """The number that an option is given, also where it is given by Slurm's variable."""
        given = self.option(*names)
        if given is not None and variable.fullmatch(given.value or ""):
            return meant
        return number(given)


def started(seen: EvidenceSet, *programs: str) -> Iterator[Started]:
    for script in seen.all(LaunchScript):
        for command in script.fact.commands:
            if command.program in programs:
                yield Started(script, command)


def number(option: ScriptOption | None) -> int | None:
    text = _text(option)
    return int(text) if text is not None and text.isdecimal() and len(text) < 8 else None


def directive(script: LaunchScript, *names: str) -> ScriptOption | None:
    return _last(script.directives, names)


def nodes_of(script: LaunchScript) -> int | None:
    """How many nodes the batch script asks for, if that is one number."""
    text = _text(directive(script, "nodes"))
    least, _, most = (text or "").partition("-")
    return int(least) if least.isdecimal() and most in ("", least) and len(least) < 6 else None


def gpus_per_node(script: LaunchScript) -> tuple[int, ScriptOption] | None:
    """How many GPUs the batch script asks for on each node."""
    for name in ("gpus_per_node", "gres"):
        given = directive(script, name)
        text = _text(given) or ""
        found = _GPUS.fullmatch(text)
        if given is not None and found is not None and (name != "gres" or text.startswith("gpu")):
            return int(found[1]), given
    return None


def _last(options: tuple[ScriptOption, ...], names: tuple[str, ...]) -> ScriptOption | None:
    return next((each for each in reversed(options) if each.name in names), None)


def _text(option: ScriptOption | None) -> str | None:
    return option.value if option is not None and option.literal else None


def _product(one: int | None, other: int | None) -> int | None:
    return one * other if one is not None and other is not None else None


def _evenly(tasks: int | None, nodes: int | None) -> int | None:
    return tasks // nodes if tasks is not None and nodes and tasks % nodes == 0 else None
