# SPDX-License-Identifier: Apache-2.0
"""The secret of one run: whoever knows it may start and end processes on all of its nodes.

It is random and new for every run. It reaches an agent through the environment, a file that only its user can read, or
ssh's stdin; never through the command line, which every user of a machine can see.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from keepstep.base.safe_files import open_private, open_regular
from keepstep.errors import UserError

VARIABLE = "KEEPSTEP_SECRET"
FILE_VARIABLE = "KEEPSTEP_SECRET_FILE"
SHORTEST, LONGEST = 32, 512
_HOW = "make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`"
_SHAPE = re.compile(rf"[A-Za-z0-9_-]{{{SHORTEST},{LONGEST}}}={{0,2}}")
_PAUSES_S = (0.02, 0.5)


class Secret:
    """A secret that no report, traceback or log shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not _SHAPE.fullmatch(text):
            raise ValueError(
                f"it must have {SHORTEST} to {LONGEST} characters, all of them letters, digits, - or _, and has "
                f"{len(text)} characters"
            )
        self._text = text

    def reveal(self) -> str:
        """The text itself, for an agent's environment or stdin."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text, other._text)

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written anywhere")


def make() -> Secret:
    """A new one, with 256 random bits."""
    return Secret(secrets.token_urlsafe(32))


def find(env: Mapping[str, str], *, file: Path | None = None) -> Secret | None:
    """The secret that this agent was given: in ``file``, else in KEEPSTEP_SECRET, else in KEEPSTEP_SECRET_FILE's file.

    None if it was given none. Raises ``UserError`` for one that is too short, or that other users can read.
    """
    if file is None and env.get(VARIABLE):
        try:
            return Secret(env[VARIABLE].strip())
        except ValueError as error:
            raise UserError(f"{VARIABLE} is not usable: {error}", hint=_HOW) from None
    if file is None and env.get(FILE_VARIABLE):
        file = Path(env[FILE_VARIABLE])
    return _read(file, pod="KUBERNETES_SERVICE_HOST" in env) if file is not None else None


def share(path: Path, secret: Secret) -> None:
    """Write the secret to a new file, for this user only. A file or link that is already there is left alone."""
    try:
        handle = open_private(path, os.O_WRONLY | os.O_EXCL)
    except FileExistsError:
        hint = "remove it if no run uses it, or name another file"
        raise UserError(f"{path} exists already; the run's secret needs a new file", hint=hint) from None
    except OSError as error:
        raise UserError(f"the run's secret cannot be written to {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, 0o600)  # the umask may have taken even our own bits
            stream.write(f"{secret.reveal()}\n".encode())
            stream.flush()
            os.fsync(handle)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise UserError(f"the run's secret cannot be written to {path}: {error.strerror}") from error


def wait_for(path: Path, timeout_s: float) -> Secret:
    """The secret that another node shares in a folder of both, as soon as it is whole."""
    ends = time.monotonic() + timeout_s
    pause, longest = _PAUSES_S
    while True:
        _forget_absence(path.parent)
        try:
            return _read(path, whole=True)
        except _NotYet as error:
            if time.monotonic() >= ends:
                hint = f"the leading node writes it; is {path.parent} the same folder on all nodes?"
                raise UserError(f"{path} did not appear within {timeout_s:g} s ({error})", hint=hint) from None
        time.sleep(max(0.0, min(pause, ends - time.monotonic())))
        pause = min(pause * 1.5, longest)


class _NotYet(Exception):
    """The file is absent or incomplete."""


def _read(path: Path, *, whole: bool = False, pod: bool = False) -> Secret:
    try:
        with open_regular(path) as stream:
            info = os.fstat(stream.fileno())
            text = stream.read(2 * LONGEST).decode("ascii", "replace")
    except FileNotFoundError as error:
        if whole:
            raise _NotYet("there is no such file") from None
        raise UserError(f"the file {path} with the run's secret does not exist") from error
    except OSError as error:
        raise UserError(f"the run's secret cannot be read from {path}: {error.strerror}") from error
    given = pod and info.st_uid == 0 and not info.st_mode & 0o022 and _is_given_to_container(info.st_dev)
    if info.st_uid != os.geteuid() and not given:
        hint = f"the agent must own it; or set {VARIABLE} in its environment"
        raise UserError(f"{path} with the run's secret belongs to user {info.st_uid}", hint=hint)
    if stat.S_IMODE(info.st_mode) & 0o077 and not given:
        raise UserError(f"other users may open {path} with the run's secret", hint=f"chmod 600 {path}")
    if whole and not text.endswith("\n"):
        raise _NotYet("it is incomplete")
    try:
        return Secret(text.strip())
    except ValueError as error:
        raise UserError(f"{path} holds no usable secret: {error}", hint=_HOW) from None


def _is_given_to_container(device: int) -> bool:
    """Whether a file lies in memory that was mounted here read-only, as the kubelet mounts a Secret into one container.

    Such a file belongs to root and is usually readable for all, but only this container has it.
    """
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
            return any(_is_read_only_memory(line, f"{os.major(device)}:{os.minor(device)}") for line in stream)
    except OSError:
        return False


def _is_read_only_memory(line: str, device: str) -> bool:
    """``line``: of mountinfo (proc(5)). Every user of a machine can see its ordinary tmpfs, which can be written to."""
    mount, _, system = line.partition(" - ")
    fields = mount.split()
    return (
        len(fields) >= 6
        and fields[2] == device
        and fields[4] != "/"
        and "ro" in fields[5].split(",")
        and system.split()[:1] == ["tmpfs"]
    )


def _forget_absence(folder: Path) -> None:
    """Open the folder: NFS remembers for half a minute that a file was absent, unless its folder is opened anew."""
    with contextlib.suppress(OSError):
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
