# SPDX-License-Identifier: Apache-2.0
"""Completion for bash: one function that finds the command on the line, then tables of what may follow."""

from __future__ import annotations

from collections.abc import Iterable

from keepstep.cli.completion.commands import RUNS, Command, OptionValue, Takes

_SCRIPT = """\
# bash completion for keepstep; `keepstep completion bash` prints it.

_keepstep_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_keepstep_paths() {
    [[ $1 == -c ]] || compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$1" -- "$2")
}

# Names of runs, the word for the newest one, and files.
_keepstep_runs() {
    local runs=(@RUNS@/*/)
    runs=("${runs[@]%/}")
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -W "last ${runs[*]##*/}" -- "$1"; compgen -f -- "$1")
}

# The rest of the line is a command of its own: use its own completion where bash-completion is loaded.
_keepstep_command() {
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)); then
        _keepstep_paths -c "$2"
    else
        _keepstep_paths -f "$2"
    fi
}

_keepstep() {
    local current=${COMP_WORDS[COMP_CWORD]} at=keepstep option= word i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then
            continue
        elif [[ -n $option ]]; then
            option=
            continue
        fi
        case $at/$word in
            @COMMANDS@) at=$at/$word ;;
            @VALUED@) option=$word ;;
@RESTS@        esac
    done
    [[ $current == = ]] && current=
    if [[ -n $option ]]; then
        case $at/$option in
@VALUES@        esac
        return
    fi
    if [[ $current == -* ]]; then
        case $at in
@OPTIONS@        esac
        return
    fi
    case $at in
@ARGUMENTS@    esac
}

complete -F _keepstep keepstep
"""


def script(keepstep: Command) -> str:
    """The whole script."""
    commands = list(keepstep.walk())
    options = [(command, option) for command in commands for option in command.options if option.value]
    valued = [f"{_at(c)}/{name}" for c, o in options if o.value and o.value.required for name in o.names]
    rests = [_rest(_at(command)) for command in commands if command.value and command.value.rest]
    values = [
        _case("|".join(f"{_at(command)}/{name}" for name in option.names), found, 12)
        for command, option in options
        if option.value and (found := _suggest(option.value))
    ]
    names = [
        _case(_at(each), f'_keepstep_words "{_joined(n for o in each.options for n in o.names)}" "$current"', 12)
        for each in commands
    ]
    arguments = [_case(_at(command), found, 8) for command in commands if (found := _argument(command))]
    filled = {
        "@RUNS@": RUNS,
        "@COMMANDS@": " | ".join(_at(command) for command in commands if command.path),
        "@VALUED@": " | ".join(valued),
        "@RESTS@": "".join(rests),
        "@VALUES@": "".join(values),
        "@OPTIONS@": "".join(names),
        "@ARGUMENTS@": "".join(arguments),
    }
    text = _SCRIPT
    for place, content in filled.items():
        text = text.replace(place, content)
    return text


def _at(command: Command) -> str:
    return "/".join(("keepstep", *command.path))


def _joined(words: Iterable[str]) -> str:
    return " ".join(words)


def _case(pattern: str, action: str, indent: int) -> str:
    return f"{' ' * indent}{pattern}) {action} ;;\n"


def _rest(at: str) -> str:
    """After `--` or the first word of the user's command, all that follows is the user's."""
    return "".join(
        _case(pattern, action, 12)
        for pattern, action in (
            (f"{at}/--", '_keepstep_command $((i + 1)) "$current"; return'),
            (f"{at}/-*", ":"),
            (f"{at}/*", '_keepstep_command "$i" "$current"; return'),
        )
    )


def _argument(command: Command) -> str:
    if command.commands:
        words = (*(command.value.words if command.value else ()), *(each.path[-1] for each in command.commands))
        return f'_keepstep_words "{_joined(words)}" "$current"'
    return _suggest(command.value) if command.value else ""


def _suggest(value: OptionValue) -> str:
    if value.takes is Takes.WORDS:
        return f'_keepstep_words "{_joined(value.words)}" "$current"'
    if value.takes is Takes.RUN:
        return '_keepstep_runs "$current"'
    flag = {Takes.FILE: "-f", Takes.FOLDER: "-d", Takes.COMMAND: "-c"}.get(value.takes)
    return f'_keepstep_paths {flag} "$current"' if flag else ""
