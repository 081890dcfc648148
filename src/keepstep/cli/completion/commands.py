# SPDX-License-Identifier: Apache-2.0
"""What can be typed, read from an argparse parser: commands, their options, and what each of them takes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

Suggestions = Mapping[tuple[str, str], tuple[str, ...]]
"""Words for what takes no fixed choices, by command (``lab run``) and name of the argument (``NAME``)."""


class Takes(Enum):
    """What a value is, for a shell that suggests some."""

    TEXT = "text"
    WORDS = "words"
    FILE = "file"
    FOLDER = "folder"
    COMMAND = "command"
    RUN = "run"
    """A file, the name of a run, or ``last``."""


_BY_METAVAR = {
    "FILE": Takes.FILE,
    "PATH": Takes.FILE,
    "DIR": Takes.FOLDER,
    "FOLDER": Takes.FOLDER,
    "COMMAND": Takes.COMMAND,
    "COMMAND|URL": Takes.COMMAND,
    "PYTHON": Takes.COMMAND,
}

_TAKES_RUNS = {("why", "PATH"): Takes.RUN}
RUNS = ".keepstep/runs"


@dataclass(frozen=True)
class OptionValue:
    """What an option or a command takes."""

    name: str
    takes: Takes
    words: tuple[str, ...] = ()
    required: bool = True
    many: bool = False
    rest: bool = False
    """Whether it is the whole rest of the line, options included."""


@dataclass(frozen=True)
class Option:
    """One option, by all its names."""

    names: tuple[str, ...]
    help: str
    value: OptionValue | None
    repeatable: bool
    group: str


@dataclass(frozen=True)
class Command:
    """A verb, a verb below a verb, or keepstep itself, whose path is empty."""

    path: tuple[str, ...]
    help: str
    description: str
    options: tuple[Option, ...]
    value: OptionValue | None
    commands: tuple[Command, ...]

    def walk(self) -> Iterator[Command]:
        """This command and all below it."""
        yield self
        for each in self.commands:
            yield from each.walk()


def command_of(
    parser: argparse.ArgumentParser, suggested: Suggestions | None = None, path: tuple[str, ...] = (), help: str = ""
) -> Command:
    """What a parser accepts."""
    options: list[Option] = []
    commands: list[Command] = []
    value: OptionValue | None = None
    titles = {id(action): group.title or "" for group in parser._action_groups for action in group._group_actions}
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            commands = _nested(
                command_of(below, suggested, (*path, *name.split()), helps.get(name, ""))
                for name, below in action.choices.items()
            )
        elif action.option_strings:
            repeatable = isinstance(action, argparse._AppendAction)
            found = _value(action, path, suggested or {})
            group = titles.get(id(action), "")
            options.append(Option(tuple(action.option_strings), action.help or "", found, repeatable, group))
        else:
            value = _value(action, path, suggested or {})
    return Command(path, help, parser.description or "", tuple(options), value, tuple(commands))


def _nested(commands: Iterable[Command]) -> list[Command]:
    """Verbs of two words (`check data`) below the verb that is their first."""
    found: dict[tuple[str, ...], Command] = {}
    for each in commands:
        above = found.get(each.path[:-1])
        if above is None:
            found[each.path] = each
        else:
            found[above.path] = replace(above, commands=(*above.commands, each))
    return list(found.values())


def _value(action: argparse.Action, path: tuple[str, ...], suggested: Suggestions) -> OptionValue | None:
    if action.nargs == 0:
        return None
    choices = tuple(str(each) for each in action.choices or ())
    name = str(action.metavar or ("|".join(choices) if choices else action.dest.upper()))
    words = choices or suggested.get((" ".join(path), name), ())
    takes = _TAKES_RUNS.get((" ".join(path), name)) or _BY_METAVAR.get(name, Takes.TEXT)
    return OptionValue(
        name,
        takes=Takes.WORDS if words else takes,
        words=words,
        required=action.nargs not in ("?", "*"),
        many=action.nargs in ("*", "+", argparse.REMAINDER),
        rest=action.nargs == argparse.REMAINDER,
    )


def suggestions() -> Suggestions:
    """Names of parts, rules, and of what the lab has, as this installation has them."""
    from keepstep.check.parts import PARTS
    from keepstep.cli.arguments import lab
    from keepstep.cli.parser import VERBS
    from keepstep.rules import builtin_rules

    return {
        ("help", "VERB"): tuple(dict.fromkeys(verb.split()[0] for verb in VERBS)),
        ("check", "PART"): tuple(PARTS),
        ("rules show", "ID"): tuple(sorted(rule.id for rule in builtin_rules())),
        **lab.suggestions(),
    }
