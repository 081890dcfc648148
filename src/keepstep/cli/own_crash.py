# SPDX-License-Identifier: Apache-2.0
"""When keepstep itself breaks: say so, exit with a status of its own, and leave a report that can be sent.

The report has versions, the verb, the names of the options and the traceback. It has no values: no paths, no
arguments and no exception texts, except Python's own sentences, and nothing in quotes from those.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import platform
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from keepstep import __version__
from keepstep.base.redact import redact
from keepstep.base.safe_files import make_private

STATUS = 70
"""EX_SOFTWARE of sysexits.h, which no script mistakes for a finding."""
WHERE = "the project's issue page (where you got keepstep)"
PACKAGE = Path(__file__).parents[1]
PACKAGES = ("hyperscan", "pystack", "psutil", "rich", "zstandard")
MOST_FRAMES, MOST_ERRORS, MOST_REPORTS = 40, 5, 20
VERBS = (
    *("why", "check", "check code", "check data", "check checkpoint", "check collectives", "check gpu", "check memory"),
    *("run", "runs", "top", "watch", "save", "pause", "resume", "profile", "export", "shrink"),
    *("rules", "lab", "completion", "manual", "help"),
)

_QUOTED = re.compile(r"""b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*\"""")
_TYPES = frozenset(
    [
        "'int'",
        "'str'",
        "'bytes'",
        "'float'",
        "'bool'",
        "'list'",
        "'dict'",
        "'tuple'",
        "'set'",
        "'NoneType'",
        "'utf-8'",
        "'ascii'",
    ]
)
_PYTHONS_OWN = re.compile(
    r"(?:unsupported operand type\(s\) for |can only concatenate |unhashable type: |bad operand type for "
    r"|argument of type |cannot unpack non-iterable "
    r"|'[\w.]+' (?:object|codec) (?:is not |has no |does not |can't |cannot )"
    r"|'[<>=!]{1,2}' not supported between instances of |'\.\.\.' object (?:is not |has no |does not )"
    r"|(?:list|string|tuple|bytes|range object|pop) index out of range|pop from |not enough values to unpack"
    r"|too many values to unpack"
    r"|invalid literal for int\(\) with base |could not convert string to float: |cannot convert float "
    r"|(?:integer )?division |float division "
    r"|maximum recursion depth exceeded|int too (?:large|big) to |math domain error|embedded null "
    r"|Exceeds the limit |year \S+ is out of range"
    r"|\[Errno \d+\] |\w{1,60}(?:\.\w{1,60}){0,3}\(\) (?:missing|takes|got) |No module named |cannot import name "
    r"|No template named )[\w\s()\[\]<>=+*/:.,;'!-]{0,200}"
)


def broke(error: BaseException, arguments: Sequence[str]) -> int:
    """Say what happened and write the report. Returns the exit status."""
    text = report(error, arguments)
    place = next(reversed(list(_ours(error))), None)
    verb = _verb(arguments)
    print(f"keepstep: keepstep itself broke: {type(error).__name__}{f' in {place}' if place else ''}", file=sys.stderr)
    if verb == "run":
        print("  the processes it had started were ended", file=sys.stderr)
    print("  this is a bug in keepstep and says nothing about your run", file=sys.stderr)
    written = _write(text)
    if written is not None:
        print(f"  please report it on {WHERE} and attach {written}", file=sys.stderr)
        print("  the file holds versions, the verb and the traceback, and none of your values", file=sys.stderr)
    else:
        print(f"  please report it on {WHERE}, with these lines:\n{text}", file=sys.stderr)
    return STATUS


def report(error: BaseException, arguments: Sequence[str]) -> str:
    """What a developer needs to fix it."""
    lines = [
        f"keepstep {__version__}",
        f"Python {platform.python_version()} ({platform.python_implementation()}), "
        f"{platform.system()} {platform.machine()}",
        "packages: " + ", ".join(f"{name} {version}" for name, version in _versions()),
        f"verb: {_verb(arguments)}, options: {' '.join(_options(arguments)) or 'none'}",
    ]
    known: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in known and len(known) < MOST_ERRORS:
        known.append(cause)
        lines += ["", f"{type(cause).__name__}: {_words(cause)}", *_frames(cause)]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return redact("\n".join(lines)) + "\n"


def _verb(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if word in VERBS), "none")


def _options(arguments: Sequence[str]) -> list[str]:
    """The names of keepstep's own options; what follows `--` is the user's command."""
    own = list(arguments[: list(arguments).index("--")] if "--" in arguments else arguments)
    return [name for word in own if re.fullmatch(r"--?[a-z][a-z-]{0,30}", name := word.partition("=")[0])]


def _versions() -> Iterator[tuple[str, str]]:
    from importlib import metadata

    for name in PACKAGES:
        try:
            yield name, metadata.version(name)
        except Exception:  # a damaged package must not hide the error
            yield name, "absent"


def _words(error: BaseException) -> str:
    try:
        said = _QUOTED.sub(lambda found: found[0] if found[0] in _TYPES else "'...'", str(error)[:1000])
    except Exception:
        return "(its text is not available)"
    if not said:
        return ""
    return said if _PYTHONS_OWN.fullmatch(said) else "(its text is left out because it may hold your values)"


def _frames(error: BaseException) -> Iterator[str]:
    """From the outermost. Only keepstep's own lines of code are shown."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    skipped = len(frames) - MOST_FRAMES
    for number, (code, line) in enumerate(frames):
        if 0 <= number - MOST_FRAMES // 2 < skipped:
            if number == MOST_FRAMES // 2:
                yield f"  ... {skipped} more"
            continue
        yield f"  {_file(code.co_filename)}:{line} {code.co_name}"
        if _is_ours(code.co_filename):
            yield f"      {linecache.getline(code.co_filename, line).strip()}"


def _ours(error: BaseException) -> Iterator[str]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        if _is_ours(frame.f_code.co_filename):
            yield f"{_file(frame.f_code.co_filename)}:{line}"


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(PACKAGE)


def _file(file: str) -> str:
    """A file's path within its package; the user's folders are left out."""
    path = Path(file)
    if _is_ours(file):
        return str(Path("keepstep") / path.relative_to(PACKAGE))
    for root in sys.path:
        if root and path.is_relative_to(root) and ("site-packages" in root or "lib/python" in root):
            return str(path.relative_to(root))
    return "(a file of yours)"


def _write(text: str) -> Path | None:
    """Readable by the user alone: in the state folder, else among temporary files; None if neither can be written."""
    for folder in (_state_folder(), None):
        with contextlib.suppress(OSError, RuntimeError):
            if folder is not None:
                make_private(folder)
                _forget_oldest(folder)
            handle, name = tempfile.mkstemp(
                prefix=time.strftime("keepstep-broke-%Y%m%dT%H%M%S-"), suffix=".txt", dir=folder
            )
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
                stream.write(text)
            return Path(name)
    return None


def _state_folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "keepstep" / "broke"


def _forget_oldest(folder: Path) -> None:
    for path in sorted(folder.glob("keepstep-broke-*.txt"))[: -MOST_REPORTS + 1]:
        path.unlink(missing_ok=True)
