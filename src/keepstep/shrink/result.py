# SPDX-License-Identifier: Apache-2.0
"""The folder that is handed over: the program, its versions, what it prints, why it fails, the text of an issue."""

from __future__ import annotations

import ast
import getpass
import math
import os
import platform
import re
import shlex
import shutil
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from keepstep.base.redact import redact
from keepstep.base.safe_files import make_private, open_regular, share_whole
from keepstep.base.wording import count, duration
from keepstep.shrink.job_command import JobCommand
from keepstep.shrink.one_file import imported, in_one
from keepstep.shrink.other_packages import package_differences
from keepstep.shrink.program import Edits, Program, Rendered
from keepstep.shrink.same_failure import Failure, difference, failure_of, without_places
from keepstep.shrink.search import ENOUGH
from keepstep.shrink.shrink import Shrunk
from keepstep.shrink.trials import Trials
from keepstep.sources.host.software import packages

LARGEST_DATA = 1 << 16
ALONE = "collectives.py"
NOT_PRIVATE = ("root", "user", "admin", "ubuntu", "localhost")
"""Names of many users and hosts, and of much in programs."""
LAST_LINES = 25
MOST_OTHERS = 20


@dataclass
class Result:
    """``proof`` says how the last run, in a fresh folder, went; ``files`` are the program's."""

    folder: Path
    files: dict[str, str]
    run: str
    lines: int
    lines_before: int
    same: bool
    proof: str
    title: str = ""
    shown: str = ""
    output: str = ""
    others: list[str] = field(default_factory=list)
    """Packages that are others where the program works."""


def write_result(shrunk: Shrunk, folder: Path, env: Mapping[str, str], works: str = "") -> Result:
    """Write everything, after the program was run once more where nothing else is. Ctrl-C ends that run only.

    ``works``: the list of packages where it works.
    """
    several = _texts(shrunk)
    line = shrunk.smaller
    alone = line.as_script()
    one = in_one(_python(several), os.path.relpath(line.script, line.root))
    others = {name: text for name, text in several.items() if not name.endswith(".py")}
    if one is not None:
        tried = [({os.path.basename(alone.script): one, **others}, alone), (several, line)]
    else:
        tried = [(several, line)]
    for texts, line in tried:
        result = _unproven(shrunk, folder, texts, line)
        try:
            _prove(shrunk, result, line, env)
        except KeyboardInterrupt:
            break
        if result.same:
            break
    if works:
        result.others = package_differences(works, packages(), _versions(result.files))
    make_private(folder)
    _write(folder, result.files)
    share_whole(folder / "requirements.txt", "".join(f"{each}\n" for each in _versions(result.files)).encode())
    share_whole(folder / "report.txt", result.shown.encode())
    share_whole(folder / "output.txt", result.output.encode())
    if shrunk.alone:
        share_whole(folder / ALONE, shrunk.alone.encode())
    share_whole(folder / "issue.md", issue(shrunk, result).encode())
    return result


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        make_private((folder / name).parent)
        share_whole(folder / name, text.encode())
        if text.startswith("#!"):
            os.chmod(folder / name, 0o755)


def _unproven(shrunk: Shrunk, folder: Path, texts: dict[str, str], line: JobCommand) -> Result:
    return Result(
        folder=folder,
        files=texts,
        run=_variables(shrunk) + line.line(),
        lines=sum(map(_code_lines, _python(texts).values())),
        lines_before=shrunk.whole,
        same=False,
        proof="it was not tried",
        title=without_private(shrunk.failure.title),
    )


def _variables(shrunk: Shrunk) -> str:
    return "".join(f"{name}={shlex.quote(without_private(value))} " for name, value in sorted(shrunk.variables.items()))


def _texts(shrunk: Shrunk) -> dict[str, str]:
    """The files that have anything left, by their name below the script's folder, without what is private."""
    root = shrunk.launch.root
    found = {}
    for path, each in shrunk.made().items():
        name = os.path.relpath(path, root)
        if any(line.strip() for line in each.lines) and not name.startswith(".."):
            found[name] = without_private(each.text)
    script = os.path.relpath(shrunk.smaller.script, root)
    if script in found and not shrunk.launch.given:
        found = imported(found, script)
    more = dict(shrunk.data)
    for path in shrunk.launch.beside():
        with open_regular(path) as stream:
            more[path] = stream.read().decode(errors="replace")
    for path, text in more.items():
        name = os.path.relpath(path, root)
        if not name.startswith("..") and len(text) <= LARGEST_DATA:
            found[name] = without_private(text)
    return found


def without_private(text: str) -> str:
    """Without secrets, the user's name, the host's name and the home folder."""
    text = redact(text)
    for name, stands_for in (
        (os.path.expanduser("~"), "/home/user"),
        (socket.gethostname(), "host"),
        (_user(), "user"),
    ):
        if len(name) > 3 and name not in NOT_PRIVATE:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", stands_for, text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _prove(shrunk: Shrunk, result: Result, line: JobCommand, env: Mapping[str, str]) -> None:
    """Run the result as its own line says, in a folder that has nothing else."""
    fresh = os.path.realpath(tempfile.mkdtemp(prefix="keepstep-fresh-"))
    try:
        _write(Path(fresh), result.files)
        program = Program({os.path.join(fresh, name): text for name, text in _python(result.files).items()})
        made = program.made(Edits())
        order = line.order()
        order["command"] = [
            re.sub(rf"^{re.escape(line.root)}(?=/)", lambda _: fresh, each) for each in order["command"]
        ]
        if launcher := line.launcher():
            order = {"command": [line.python, "-m", *launcher, *line.what()], "ranks": None}
        kept = {name: value for name, value in env.items() if name not in shrunk.edits.unset} | shrunk.variables
        trials = Trials(fresh, (fresh,), kept)
        tries = 1 if shrunk.rate is None else math.ceil(ENOUGH / shrunk.rate[0])
        runs = failed = 0
        try:
            while runs < tries and failed < ENOUGH:
                runs += 1
                limits = {"limit_s": shrunk.limit_s, "patience_s": shrunk.patience_s}
                now = trials.run({**order, **limits, "files": {}, "shown": True})
                how = failure_of(now, program, made, line.ranks)
                late = f"it was still running after {duration(shrunk.limit_s)}"
                differs = late if now.get("late") else _differs(shrunk, how, made)
                if differs is None or not failed:
                    seen, found, why = now, how, differs
                failed += differs is None
        finally:
            trials.close()
        result.same = failed > 0
        result.title = without_private(found.title if found is not None and result.same else shrunk.failure.title)
        often = f" in {failed} of {count(runs, 'run')}" if tries > 1 else ""
        result.proof = (
            "it failed in the same way" + often if result.same else f"it did not fail in the same way ({why})"
        )
        result.shown = without_private(seen.get("shown", "").replace(fresh + os.sep, ""))
        logs = "\n".join(text for name, text in seen.get("logs", {}).items())
        result.output = without_private(logs.replace(fresh + os.sep, ""))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _differs(shrunk: Shrunk, found: Failure | None, made: Mapping[str, Rendered]) -> str | None:
    """As in a trial; the failing line is compared by its text."""
    wanted = shrunk.failure
    if found is None:
        return "it did not fail"
    original = shrunk.made()
    expected = {without_private(text) for place in wanted.at for text in _lines_at(original, place)}
    got = {text for place in found.at for text in _lines_at(made, place)}
    if expected != got:
        return f"it failed at another line: {' '.join(sorted(got))[:60]}"
    return difference(without_places(wanted), without_places(found))


def _lines_at(made: Mapping[str, Rendered], place: tuple[str, int]) -> set[str]:
    for each in made.values():
        found = [line.strip() for line, origin in zip(each.lines, each.origins, strict=True) if origin == place]
        if found:
            return {found[0]}
    return set()


def _python(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name.endswith(".py")}


def _versions(texts: Mapping[str, str]) -> list[str]:
    """The packages that the program imports, with the versions that are installed here."""
    names: set[str] = set()
    for text in _python(texts).values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    owners = metadata.packages_distributions()
    found = {owner for name in names for owner in owners.get(name, ())[:1]}
    return sorted(f"{each}=={metadata.version(each)}" for each in found)


def _code_lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def issue(shrunk: Shrunk, result: Result) -> str:
    """Markdown to paste."""
    ranks = ""
    if shrunk.needs is not None and shrunk.needs > 1:
        ranks = f" It needs {shrunk.needs} ranks: with {shrunk.needs - 1} it does not fail in this way."
    alone = f" `{ALONE}` has nothing but its collectives, and fails in the same way." if shrunk.alone else ""
    device = {
        None: "",
        True: " It fails without an accelerator too.",
        False: " On the CPU it does not fail in this way.",
    }
    parts = [f"# {result.title}\n", f"Run it with `{result.run}`.{ranks}{device[shrunk.on_cpu]}{alone}\n"]
    for name, text in result.files.items():
        kind = {".py": "python", ".sh": "sh"}.get(os.path.splitext(name)[1], "")
        parts.append(f"`{name}`:\n\n```{kind}\n{text.rstrip()}\n```\n")
    said = "\n".join(result.output.strip().splitlines()[-LAST_LINES:])
    parts += [f"It prints\n\n```\n{said}\n```\n", f"What `keepstep why` says:\n\n```\n{result.shown.strip()}\n```\n"]
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    parts.append(f"Versions: {', '.join(_versions(result.files)) or 'only the standard library'}; {system}.\n")
    if result.others:
        parts.append(f"Other versions than where it works: {'; '.join(result.others[:MOST_OTHERS])}.\n")
    trials, took = count(shrunk.trials, "trial"), duration(shrunk.took_s)
    parts.append(f"Made from {result.lines_before} lines by `keepstep shrink` in {trials} and {took}.\n")
    return "\n".join(parts)
