# SPDX-License-Identifier: Apache-2.0
"""How other hosts are reached over ssh: its options, which names it may be given, and its start."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from keepstep.errors import UserError

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "LogLevel=ERROR", "-T")
"""It asks no questions."""
MOST_HOSTS = 4096
USUAL = "keepstep"
NOT_THERE = (126, 127)
"""What a shell ends with if it cannot run a command, or knows none of that name."""
_HOST = re.compile(r"^(?:[A-Za-z0-9_][\w.+-]{0,63}@)?(?:[A-Za-z0-9_][\w.-]{0,252}|[0-9A-Fa-f:]{2,45})$")


def hosts_of(text: str) -> tuple[str, ...]:
    """The hosts of ``a,b,c``. Raises ``UserError`` for anything ssh could misread."""
    hosts = tuple(part.strip() for part in text.split(",") if part.strip())
    wrong = next((host for host in hosts if not _HOST.match(host)), None)
    if not hosts or wrong is not None:
        raise UserError(
            f"--hosts: {(wrong or text)[:80]!r} is not a host name", hint="for example --hosts node-0,node-1,me@node-2"
        )
    if len(hosts) > MOST_HOSTS:
        raise UserError(f"--hosts: more than {MOST_HOSTS} hosts")
    return hosts


def start(host: str, script: str, *options: str) -> subprocess.Popen[bytes]:
    """ssh with pipes as its streams, in a session of its own. Raises ``UserError`` where there is none."""
    try:
        return subprocess.Popen(
            [*SSH, *options, "--", host, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"cannot start ssh: {error.strerror}", hint="--hosts needs the ssh client") from error


def shell_words(remote: str, words: Sequence[str], env: Mapping[str, str] = os.environ) -> str:
    """``exec`` of the keepstep command there, in the environment that this one is in, if it exists there too.

    A login without a terminal activates no environment: its PATH knows neither our keepstep nor the user's python.
    """
    command = shlex.split(remote)
    folder = os.path.dirname(command[0]) if command and "/" in command[0] else _own_folder(env)
    there = f"[ -x {shlex.quote(f'{folder}/{os.path.basename(command[0])}')} ] && " if folder else ""
    first = f'{there}PATH={shlex.quote(folder)}:"$PATH"; export PATH; ' if folder else ""
    return f"{first}exec {shlex.join([*command, *words])}"


def _own_folder(env: Mapping[str, str]) -> str | None:
    """The folder of the command that was typed here, which PATH leads to."""
    found = shutil.which(USUAL, path=env.get("PATH"))
    return os.path.dirname(os.path.abspath(found)) if found else None
