# SPDX-License-Identifier: Apache-2.0
"""The manual page, in roff, from the parser's own texts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from keepstep import __version__
from keepstep.cli.completion.commands import Command, Option, OptionValue, command_of


def page(parser: argparse.ArgumentParser) -> str:
    """The whole page."""
    keepstep = command_of(parser)
    return "\n".join(_page(keepstep, parser.epilog or "")) + "\n"


def _page(keepstep: Command, epilog: str) -> Iterator[str]:
    name, _, summary = keepstep.description.partition(" ")
    yield f'.TH KEEPSTEP 1 "" "keepstep {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"{name} \\- {_text(summary.rstrip('.'))}"
    yield ".SH SYNOPSIS"
    for verb in keepstep.commands:
        yield from (_usage(verb), ".br")
    yield from (".B keepstep", "\\-\\-version | \\-\\-help")
    yield ".SH VERBS"
    for verb in keepstep.commands:
        for each in verb.walk():
            yield from _verb(each)
    for title, text in _sections(epilog):
        yield f".SH {title.upper()}"
        yield from _prose(text)


def _verb(command: Command) -> Iterator[str]:
    yield f".SS keepstep {' '.join(command.path)}"
    yield from _prose(command.description or f"{command.help[:1].upper()}{command.help[1:]}.")
    yield from (".PP", _usage(command))
    group = ""
    for option in command.options:
        if option.group not in (group, "options"):
            yield from (".PP", f"{_text(option.group[:1].upper() + option.group[1:])}:")
        group = option.group
        if option.names != ("-h", "--help"):
            yield from (".TP", _option(option), _text(option.help))


def _usage(command: Command) -> str:
    after = [_shown(command.value)] if command.value else ["VERB"] if command.commands else []
    options = ["[options]"] if len(command.options) > 1 else []
    return " ".join([f'.BR "keepstep {" ".join(command.path)}" " {_text(" ".join([*options, *after]))}"'])


def _shown(value: OptionValue) -> str:
    name = f"-- {value.name}" if value.rest else value.name
    return f"{name if value.required else f'[{name}'}{' ...' if value.many else ''}{'' if value.required else ']'}"


def _option(option: Option) -> str:
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
    if option.value is None:
        return names
    shown = f"\\fI{_text(option.value.name)}\\fR"
    return f"{names} {shown if option.value.required else f'[{shown}]'}"


def _sections(epilog: str) -> Iterator[tuple[str, str]]:
    """The parts of a text whose headings are lines such as ``examples:``."""
    parts = re.split(r"^(\w[\w ]*):\n", epilog, flags=re.M)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def _prose(text: str) -> Iterator[str]:
    """Paragraphs as such; what is indented stays as it is."""
    indented = None
    for line in text.strip("\n").splitlines():
        if not line.strip():
            yield from ([".fi"] if indented else [])
            yield ".PP"
            indented = None
            continue
        if line.startswith(" ") and not indented:
            yield ".nf"
        elif indented and not line.startswith(" "):
            yield ".fi"
        indented = line.startswith(" ")
        yield _text(line)
    if indented:
        yield ".fi"


def _text(text: str) -> str:
    """Text in which nothing is a request or an escape, and a hyphen can be searched for and copied."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
