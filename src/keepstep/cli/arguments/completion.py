# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep completion`` and ``keepstep manual``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

COMPLETION = """\
Print a script that lets your shell complete keepstep's verbs, options, file
names, rule ids and scenario names when you press Tab.

bash, for this user (needs the bash-completion package):
  mkdir -p ~/.local/share/bash-completion/completions
  keepstep completion bash > ~/.local/share/bash-completion/completions/keepstep
or in ~/.bashrc:
  source <(keepstep completion bash)

zsh, in ~/.zshrc, after compinit:
  source <(keepstep completion zsh)

fish:
  keepstep completion fish > ~/.config/fish/completions/keepstep.fish

Start a new shell afterwards. Print the script again after an upgrade.
"""

MANUAL = """\
Print keepstep's manual page.

To read it now:
  keepstep manual | man -l -
To install it for `man keepstep`:
  mkdir -p ~/.local/share/man/man1
  keepstep manual > ~/.local/share/man/man1/keepstep.1
"""


def add(verbs: Verbs) -> None:
    """Add both verbs."""
    completion = add_verb(verbs, "completion", "print a script for Tab completion in your shell", COMPLETION)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to print it for")
    add_verb(verbs, "manual", "print the manual page", MANUAL)
