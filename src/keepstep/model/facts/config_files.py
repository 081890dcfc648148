# SPDX-License-Identifier: Apache-2.0
"""What the files beside a program say about how it is started: settings, manifests, scripts. One fact per kind."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A value of a file, with the keys that lead to it. Entries of lists are counted from 0."""

    path: tuple[str, ...]
    text: str
    """As it is written, without quotes."""
    kind: str = "text"
    """``text``, ``int``, ``float``, ``bool`` or ``null``; ``map`` or ``list`` if it has more in it, and no text."""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile(Fact):
    """A file of settings, or one document of it. ``twice``: keys that stand in it twice, at their second place."""

    settings: tuple[Setting, ...]
    twice: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedConfig(ConfigFile):
    """The JSON that DeepSpeed is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccelerateConfig(ConfigFile):
    """What ``accelerate config`` writes and ``accelerate launch`` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightningConfig(ConfigFile):
    """The part of a YAML file that becomes Lightning's Trainer; paths begin below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesObject(ConfigFile):
    """One document of a manifest."""

    object_kind: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeFile(ConfigFile):
    """Services of ``docker compose``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigUnreadable(Fact):
    """A file of settings that its format's own reader refuses. ``what``: whose settings they are."""

    what: str
    form: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageAsked(Fact):
    """A package that a project needs. ``spec``: the versions, as they are written; empty: any."""

    package: str
    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOption:
    """An option of a command or of a batch script, or a variable that a script sets. ``value`` is None if it has
    none; ``literal``: it is written out, no shell has to replace anything in it."""

    name: str
    value: str | None = None
    line: int = 0
    literal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """A command of a script that starts a training."""

    program: str
    """``torchrun``, ``accelerate``, ``deepspeed`` or ``python``."""
    line: int
    options: tuple[ScriptOption, ...] = ()
    """Of the launcher; dashes in names are underscores."""
    arguments: tuple[str, ...] = ()
    """What follows the launcher's options: the program, and its own options."""
    under: str = ""
    """``srun``, ``mpirun`` or another that starts it on several hosts; empty: the shell itself."""
    under_options: tuple[ScriptOption, ...] = ()
    background: bool = False
    block: tuple[int, ...] = ()
    """The lines of the loops, conditions and functions that it stands in."""
    sets: tuple[ScriptOption, ...] = ()
    """Variables before the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchScript(Fact):
    """A shell script that starts trainings. ``directives`` are its ``#SBATCH`` lines."""

    commands: tuple[LaunchCommand, ...] = ()
    directives: tuple[ScriptOption, ...] = ()
    variables: tuple[ScriptOption, ...] = ()
    """Set once, not in conditions and functions."""
    waits: tuple[int, ...] = ()
    """The lines in which it waits for what runs in the background, or ends it."""
    elsewhere: bool = False
    """It names a tool that starts commands on other hosts: srun, mpirun, ssh."""
    index_early: str = ""
    """A task's index that the script's own shell replaces, so all tasks get the same: ``SLURM_NODEID``."""
    index_line: int = 0
