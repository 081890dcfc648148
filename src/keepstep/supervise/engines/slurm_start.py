# SPDX-License-Identifier: Apache-2.0
"""How the job was given to Slurm, and what of it ends the run when one node fails. Says only what can be known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from keepstep.sources.schedulers import slurm_controller

_FLAGS = "kKlQuvsHEIOX"
"""srun's short options without a value: several may be one word, as in ``-lk``."""


def warnings(env: Mapping[str, str], node: str) -> list[str]:
    """What is missing, for the leader to say at the start."""
    job, step = env.get("SLURM_JOB_ID", ""), env.get("SLURM_STEP_ID", "")
    found = []
    srun = slurm_controller.srun_words(f"{job}.{step}", node)
    if srun is not None:
        options = options_of(srun[1:])
        if not _says_no_kill(options.get("--no-kill"), env.get("SLURM_NO_KILL")):
            found.append("srun was started without --no-kill: Slurm ends all of the step when one node fails")
        bad = options.get("--kill-on-bad-exit", env.get("SLURM_KILL_BAD_EXIT"))
        if (bad if bad is not None else slurm_controller.setting("KillOnBadExit")) not in ("0", None):
            found.append("add --kill-on-bad-exit=0 to srun: without it, Slurm ends all nodes when one agent fails")
    script = slurm_controller.batch_script(job)
    if script is not None and "SBATCH_NO_KILL" not in env and not script_says_no_kill(script):
        found.append(
            "the batch script has no line `#SBATCH --no-kill`: unless sbatch was given it, Slurm ends the job when one "
            "node fails"
        )
    return found


def options_of(words: Sequence[str]) -> dict[str, str]:
    """What is said about killing: an option's value, or ``1`` where it has none. The command's own words come later."""
    found: dict[str, str] = {}
    for word in words:
        if word == "--" or "keepstep" in word:
            break
        name, equals, value = word.partition("=")
        if name in ("--no-kill", "--kill-on-bad-exit"):
            found[name] = value if equals else "1"
        elif short := re.fullmatch(rf"-[{_FLAGS}]*?([kK])([{_FLAGS}]*|\d|off)", word):
            known = "--no-kill" if short[1] == "k" else "--kill-on-bad-exit"
            found[known] = short[2] if short[2].isdecimal() or short[2] == "off" else "1"
    return found


def script_says_no_kill(script: str) -> bool:
    """Whether a line ``#SBATCH`` of a batch script has ``--no-kill``."""
    for line in re.findall(r"^#SBATCH[ \t]+([^\n]*)", script, re.M):
        options = options_of(line.split("#")[0].split())
        if "--no-kill" in options and options["--no-kill"] != "off":
            return True
    return False


def _says_no_kill(option: str | None, variable: str | None) -> bool:
    return option != "off" if option is not None else variable is not None
