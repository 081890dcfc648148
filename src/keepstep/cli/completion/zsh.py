# SPDX-License-Identifier: Apache-2.0
"""Completion for zsh: one function per command, which tells ``_arguments`` what it takes."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.cli.completion.commands import RUNS, Command, Option, OptionValue, Takes

_HEAD = """\
#compdef keepstep
# zsh completion for keepstep; `keepstep completion zsh` prints it.

# Names of runs, the word for the newest one, and files.
_keepstep_runs() {
    local -a runs
    runs=(last @RUNS@/*(N/:t))
    _alternative 'runs:run:compadd -a runs' 'files:file:_files'
}
"""
_TAIL = """
if [[ $funcstack[1] == _keepstep ]]; then
    _keepstep "$@"
else
    compdef _keepstep keepstep
fi
"""
_ACTIONS = {
    Takes.FILE: "_files",
    Takes.FOLDER: "_files -/",
    Takes.COMMAND: "_command_names -e",
    Takes.TEXT: " ",
    Takes.RUN: "_keepstep_runs",
}


def script(keepstep: Command) -> str:
    """The whole script."""
    return (
        _HEAD.replace("@RUNS@", RUNS)
        + "".join("\n" + "\n".join(_function(each)) + "\n" for each in keepstep.walk())
        + _TAIL
    )


def _function(command: Command) -> Iterator[str]:
    specs = [_option(option) for option in command.options]
    yield f"{_name(command)}() {{"
    if command.commands:
        yield '    local curcontext="$curcontext" state line ret=1'
        yield "    typeset -A opt_args"
        yield from _call(["-C", *specs, "'1: :->verb'", "'*:: :->rest'"], " && ret=0")
        yield from _below(command)
        yield "    return ret"
    else:
        yield from _call([*specs, *_positional(command.value)])
    yield "}"


def _call(words: list[str], end: str = "") -> Iterator[str]:
    yield "    _arguments \\"
    for number, word in enumerate(words, 1):
        yield f"        {word}" + (" \\" if number < len(words) else end)


def _below(command: Command) -> Iterator[str]:
    yield "    case $state in"
    yield "        verb)"
    yield "            local -a verbs"
    yield "            verbs=("
    for each in command.commands:
        yield f"                {_quoted(each.path[-1] + ':' + each.help)}"
    for word in command.value.words if command.value else ():
        yield f"                {_quoted(word)}"
    yield "            )"
    yield "            _describe -t commands verb verbs && ret=0"
    yield "            ;;"
    yield "        rest)"
    yield "            case $words[1] in"
    for each in command.commands:
        yield f"                {each.path[-1]}) {_name(each)} && ret=0 ;;"
    if command.value:
        specs = [_option(option) for option in command.options]
        yield "                *)"
        yield from _call([*specs, *_positional(command.value)], " && ret=0 ;;")
    yield "            esac"
    yield "            ;;"
    yield "    esac"


def _positional(value: OptionValue | None) -> Iterator[str]:
    if value is None:
        return
    if value.rest:
        yield "'(-)1:command:_command_names -e'"
        yield "'*::arguments:_normal'"
    else:
        yield _quoted(f"{'*' if value.many else '1'}:{_plain(value.name)}:{_action(value)}")


def _option(option: Option) -> str:
    """``'(-q --quiet)'{-q,--quiet}'[help]'``, as ``_arguments`` reads it."""
    about = f"[{_plain(option.help)}]"
    names = option.names
    if option.value is not None:
        about += f"{'' if option.value.required else ':'}:{_plain(option.value.name)}:{_action(option.value)}"
        joined = "=" if option.value.required else "=-"
        names = tuple(name + (joined if name.startswith("--") else "") for name in names)
    if len(names) == 1:
        return _quoted(("*" if option.repeatable else "") + names[0] + about)
    before = "*" if option.repeatable else f"({' '.join(option.names)})"
    return f"{_quoted(before)}{{{','.join(names)}}}{_quoted(about)}"


def _action(value: OptionValue) -> str:
    return f"({' '.join(value.words)})" if value.takes is Takes.WORDS else _ACTIONS[value.takes]


def _name(command: Command) -> str:
    return "_".join(("_keepstep", *command.path))


def _plain(text: str) -> str:
    """Text inside a specification, where brackets and colons have a meaning."""
    for letter in "\\[]:":
        text = text.replace(letter, "\\" + letter)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
