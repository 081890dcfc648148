# SPDX-License-Identifier: Apache-2.0
"""Shell scripts that start trainings: their ``#SBATCH`` lines, and the launchers in them with their options.

No shell is imitated. Variables that are set once to a plain text are put in; all other ``$`` stay, and are no literals.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from keepstep.model.facts.config_files import LaunchCommand, LaunchScript, ScriptOption
from keepstep.parse.tools.slurm.batch_scripts import early_index

LONGEST_LINE = 20_000
MOST_LINES = 5_000
ON_HOSTS = ("srun", "mpirun", "mpiexec", "jsrun", "aprun", "pdsh", "ssh", "clush", "flux", "parallel-ssh", "pssh")
_STARTS = re.compile(r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed)\b|^#SBATCH", re.M)
_ELSEWHERE = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, ON_HOSTS))}|kubectl|xargs|parallel)(?![\w./-])")
_HERE = re.compile(r"<<-?\s*(['\"\\]?)(\w+)\1")
_DIRECTIVE = re.compile(r"#SBATCH[ \t]+(-.*)")
_ASSIGNED = re.compile(r"(?:(?:export|declare(?: -\w+)?|local|readonly)\s+)?([A-Za-z_]\w*)=(.*)", re.S)
_SET_OTHERWISE = re.compile(r"\bfor\s+(\w+)\s+in\b|\bread\s+(?:-\w+\s+)*(\w+)|\bgetopts\s+\S+\s+(\w+)|\b(\w+)\+?=")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\])?\}|(\w+))")
_PLAIN = re.compile(r"[^`$;&|<>()'\"\\]*")
_OPENS = re.compile(r"^(?:if|for|while|until|case|select)\b|^(?:function\s+)?[\w-]+\s*\(\)|^function\b|^\{")
_CLOSES = re.compile(r"(?:^|[;\s])(?:fi|done|esac)(?=$|[\s;&|>)])|^\}")
_OTHER_SIDE = re.compile(r"(?:else|elif)\b|\(?[\w\"'*?|$ .-]+\)")
"""Of a condition: what stands there does not run beside what stands above."""
_WAITS = re.compile(r"(?:^|[;&|]\s*)(?:wait|kill|pkill)\b")
_BEFORE = ("time", "nohup", "exec", "env", "sudo", "command", "eval", "then", "do", "else", "!", "{", "(", "numactl")
_FLAGS = frozenset(
    "standalone no_python module m use_env run_path multi_gpu use_deepspeed use_fsdp cpu quiet tpu mps ipex force "
    "no_local_rank no_ssh no_ssh_check use_megatron_lm debug same_network rdzv_same_network local_ranks_filter "
    "label exclusive overlap export_all unbuffered l u K kill_on_bad_exit".split()
)
_SHORT = {"N": "nodes", "n": "ntasks", "G": "gpus", "c": "cpus_per_task", "w": "nodelist", "np": "ntasks"}


def launch_script(text: str) -> LaunchScript | None:
    """What a script starts; None if it starts nothing that is known, and is no batch script."""
    if not _STARTS.search(text):
        return None
    lines = text.replace("\r\n", "\n").split("\n")[:MOST_LINES]
    directives = tuple(_directives(lines))
    logical = list(_logical(lines))
    code = "\n".join(line for _, line, _ in logical)
    variables = _variables(logical, code)
    commands = tuple(
        found
        for number, line, block in logical
        if len(line) <= LONGEST_LINE
        for found in _commands(_filled(line, variables), number, block)
    )
    if not commands and not directives:
        return None
    early = early_index(text)
    where = [number for number, line in enumerate(lines, 1) if early is not None and early[0] in line]
    return LaunchScript(
        commands=commands,
        directives=directives,
        variables=tuple(variables.values()),
        waits=tuple(number for number, line, _ in logical if _WAITS.search(line)),
        elsewhere=bool(_ELSEWHERE.search(code)),
        index_early=early["variable"] if early is not None and where else "",
        index_line=where[0] if where else 0,
    )


def _directives(lines: list[str]) -> Iterator[ScriptOption]:
    """Slurm reads them until the first command."""
    head = takewhile(lambda each: not each[1].strip() or each[1].lstrip().startswith("#"), enumerate(lines, 1))
    for number, line in head:
        found = _DIRECTIVE.match(line)
        if found is not None:
            words = re.sub(r"\s#.*", "", found[1]).split()
            yield from _options(words, number)[0]


def _logical(lines: list[str]) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    """Lines without comments and here-documents, joined where they go on; each with the blocks it stands in."""
    blocks: list[int] = []
    pending, began, until = "", 0, ""
    for number, line in enumerate(lines, 1):
        if until:
            until = "" if line.strip() == until else until
            continue
        if not pending:
            began = number
            if line.lstrip().startswith("#"):
                continue
        elif line.lstrip().startswith("#") and not _is_open(pending):
            continue  # bash ends the command there; people mean to switch one option off
        pending += line
        if pending.endswith("\\") and not pending.endswith("\\\\"):
            pending = pending[:-1] + " "
            continue
        if _is_open(pending) and len(pending) < LONGEST_LINE:
            pending += "\n"
            continue
        whole, pending = _without_comment(pending.strip()), ""
        here = _HERE.search(whole)
        until = here[2] if here is not None and "<<<" not in whole else ""
        closes = len(_CLOSES.findall(whole))
        opens = len(re.findall(r"(?:^|[;\s])(?:if|for|while|until|case|select)\s", whole)) if closes else 0
        if blocks and _OTHER_SIDE.match(whole):
            blocks[-1] = began
        if _OPENS.match(whole) and closes < max(opens, 1):
            blocks.append(began)
        elif not _OPENS.match(whole):
            for _ in range(max(closes - opens, 0)):
                blocks[-1:] = []
        if whole:
            yield began, whole, tuple(blocks)


def _is_open(text: str) -> bool:
    """Whether a quotation or a list of an array goes on in the next line."""
    bare = re.sub(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|(?:^|\s)#[^\n]*", "", text, flags=re.S)
    return "'" in bare or '"' in bare or (re.match(r"\s*(?:\w+\s+)*\w+\+?=\([^)]*$", bare) is not None)


def _without_comment(line: str) -> str:
    kept = re.sub(r"('[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.)|(?:(?<=\s)|^)#[^\n]*", lambda m: m[1] or "", line, flags=re.S)
    return kept.strip()


def _variables(logical: list[tuple[int, str, tuple[int, ...]]], code: str) -> dict[str, ScriptOption]:
    """The variables that have one plain value in the whole script."""
    times = Counter(name for found in _SET_OTHERWISE.findall(code) for name in found if name)
    known: dict[str, ScriptOption] = {}
    for number, line, block in logical:
        found = _ASSIGNED.fullmatch(line.rstrip("; "))
        if found is None or block or times[found[1]] != 1:
            continue
        value = _filled(found[2], known).strip()
        if value[:1] + value[-1:] in ("()", '""', "''"):
            value = " ".join(value[1:-1].split())
        elif re.search(r"\s", value):
            continue
        if _PLAIN.fullmatch(value):
            known[found[1]] = ScriptOption(name=found[1], value=value, line=number)
    return known


def _filled(line: str, variables: dict[str, ScriptOption]) -> str:
    def value(match: re.Match[str]) -> str:
        known = variables.get(match[1] or match[2])
        return match[0] if known is None else known.value or ""

    return _VARIABLE.sub(value, line) if "$" in line else line


def _substituted(line: str) -> str:
    """``$(...)`` and backticks as one unknown word; redirections whose ``&`` sends nothing to the background gone."""
    line = re.sub(r"\d{0,2}[<>]&[\d-]*|&>{1,2}|(?<=\|)&", " ", line)
    line = re.sub(r"`[^`]*`", "$UNKNOWN", line)
    while (start := line.find("$(")) >= 0:
        depth, end = 0, len(line)
        for at in range(start + 1, len(line)):
            depth += {"(": 1, ")": -1}.get(line[at], 0)
            if depth == 0:
                end = at + 1
                break
        line = line[:start] + "$UNKNOWN" + line[end:]
    return line


def _commands(line: str, number: int, block: tuple[int, ...], depth: int = 0) -> Iterator[LaunchCommand]:
    lexer = shlex.shlex(_substituted(line), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        return
    part: list[str] = []
    for word in (*words, ";"):
        if word and not word.strip(";&|"):
            yield from _command(part, number, block, background=word == "&", depth=depth)
            part = []
        else:
            part.append(word)


def _command(
    words: list[str], number: int, block: tuple[int, ...], *, background: bool, depth: int
) -> Iterator[LaunchCommand]:
    sets: list[ScriptOption] = []
    under = ""
    under_options: tuple[ScriptOption, ...] = ()
    at = 0
    while at < len(words):
        word = words[at]
        name = word.rpartition("/")[2]
        assigned = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.S)
        if assigned is not None:
            sets.append(_option(assigned[1], assigned[2], number))
        elif name in ON_HOSTS:
            options, used = _options(words[at + 1 :], number)
            under, under_options = under or name, tuple(options)
            at += used
        elif name in ("bash", "sh") and depth < 2:
            inner = [each for each in words[at + 1 :] if " " in each]
            for each in inner[:1]:
                for found in _commands(each, number, block, depth + 1):
                    yield LaunchCommand(
                        program=found.program,
                        line=number,
                        options=found.options,
                        arguments=found.arguments,
                        under=under or found.under,
                        under_options=under_options or found.under_options,
                        background=background or found.background,
                        block=block,
                        sets=(*sets, *found.sets),
                    )
            return
        elif (start := _launcher(words, at)) is not None:
            program, after = start
            options, used = ([], 0) if program == "python" else _options(words[after:], number)
            yield LaunchCommand(
                program=program,
                line=number,
                options=tuple(options),
                arguments=tuple(words[after + used :])[:200],
                under=under,
                under_options=under_options,
                background=background,
                block=block,
                sets=tuple(sets),
            )
            return
        elif not under and name not in _BEFORE and not word.startswith("-"):
            return  # another program, whatever its arguments are
        at += 1


def _launcher(words: list[str], at: int) -> tuple[str, int] | None:
    """The launcher that begins at a word, and where its options begin."""
    name = words[at].rpartition("/")[2]
    rest = words[at + 1 : at + 5]
    if name in ("torchrun", "deepspeed"):
        return name, at + 1
    if name == "accelerate" and rest[:1] == ["launch"]:
        return name, at + 2
    if re.fullmatch(r"python[\d.]*", name):
        for ahead, word in enumerate(rest):
            if word == "-m" and rest[ahead + 1 : ahead + 2] in (
                ["torch.distributed.run"],
                ["torch.distributed.launch"],
            ):
                return "torchrun", at + ahead + 3
            if word == "-m" and rest[ahead + 1 : ahead + 2] == ["accelerate.commands.launch"]:
                return "accelerate", at + ahead + 3
            if not word.startswith("-"):
                break
        return "python", at + 1
    return None


def _options(words: list[str], number: int) -> tuple[list[ScriptOption], int]:
    """The options at the beginning of words, and how many words they take."""
    found: list[ScriptOption] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        name, equals, value = words[at].lstrip("-").partition("=")
        short = re.fullmatch(r"-([NnGcw])(\d+)", words[at])
        following = words[at + 1] if at + 1 < len(words) else None
        at += 1
        name = name.replace("-", "_")
        if short is not None:
            found.append(_option(_SHORT[short[1]], short[2], number))
        elif equals:
            found.append(_option(_SHORT.get(name, name), value, number))
        elif name in _FLAGS or following is None or following.startswith("-") or following.endswith(".py"):
            found.append(ScriptOption(name=name, line=number))
            if name in ("m", "module"):
                break
        else:
            found.append(_option(_SHORT.get(name, name), following, number))
            at += 1
    return found, at


def _option(name: str, value: str, number: int) -> ScriptOption:
    return ScriptOption(name=name, value=value, line=number, literal="$" not in value and "{" not in value)
