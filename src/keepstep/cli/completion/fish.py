# SPDX-License-Identifier: Apache-2.0
"""Completion for fish: one ``complete`` line per option, each under the condition that its command is on the line."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.cli.completion.commands import RUNS, Command, OptionValue, Takes

_HEAD = """\
# fish completion for keepstep; `keepstep completion fish` prints it.

# Whether the verbs on the command line are exactly these.
function __keepstep_at
    set -l at
    for word in (commandline -opc)[2..-1]
        if test "$word" = --
            break
        end
        set -l longer (string join -- ' ' $at $word)
        if contains -- "$longer" @PATHS@
            set at $longer
        end
    end
    test "$at" = "$argv"
end

# Names of runs, and the word for the newest one.
function __keepstep_runs
    echo last
    for run in @RUNS@/*/
        basename $run
    end
end

complete -c keepstep -f
"""


def script(keepstep: Command) -> str:
    """The whole script."""
    paths = " ".join(_quoted(" ".join(each.path)) for each in keepstep.walk() if each.path)
    return _HEAD.replace("@PATHS@", paths).replace("@RUNS@", RUNS) + "".join(
        f"{line}\n" for each in keepstep.walk() for line in _lines(each)
    )


def _lines(command: Command) -> Iterator[str]:
    start = f"complete -c keepstep -n {_quoted(' '.join(('__keepstep_at', *command.path)))}"
    for below in command.commands:
        yield f"{start} -a {below.path[-1]} -d {_quoted(below.help)}"
    if command.value is not None and (suggested := _suggest(command.value)):
        yield f"{start}{suggested}"
    for option in command.options:
        names = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in option.names)
        taken = ""
        if option.value is not None:
            taken = (" -r" if option.value.required else "") + _suggest(option.value)
        yield f"{start}{names}{taken} -d {_quoted(option.help)}"


def _suggest(value: OptionValue) -> str:
    if value.takes is Takes.WORDS:
        return f" -a {_quoted(' '.join(value.words))}"
    return {
        Takes.FILE: " -F",
        Takes.FOLDER: " -a '(__fish_complete_directories)'",
        Takes.COMMAND: " -F -a '(__fish_complete_command)'",
        Takes.TEXT: "",
        Takes.RUN: " -F -a '(__keepstep_runs)'",
    }[value.takes]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
