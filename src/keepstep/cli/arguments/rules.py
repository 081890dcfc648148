# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep rules``."""

from __future__ import annotations

import argparse

from keepstep.cli.arguments import Verbs, add_verb

TRUST = """\
keepstep uses the TOML signatures of any keepstep.toml it finds in this folder
or above it. Python rules can do anything you can, so they run only after you
trust their folder here. Read the files first. Trust covers the files as they
are now: if one changes, you are asked again. Your decisions are kept in
~/.config/keepstep/trusted.json.
"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    rules = add_verb(verbs, "rules", "read what keepstep knows", "List, search and show the rules.")
    rules.add_argument("--json", action="store_true", help="print JSON")
    rules.add_argument("--config", metavar="FILE", help="the keepstep.toml with your own rules")
    rules.add_argument(
        "--rules", action="append", default=[], metavar="FOLDER", help="a folder of your own rules (repeatable)"
    )
    rules.set_defaults(ask="list", words=[])
    asks = rules.add_subparsers(dest="ask_given", metavar="list | search WORDS | show ID | trust FOLDER")
    for name, about, word in (
        ("list", "list all rules", None),
        ("search", "find the rules that mention these words", "WORD"),
        ("show", "show everything a rule knows", "ID"),
    ):
        ask = asks.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        ask.set_defaults(ask=name)
        ask.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
        if word:
            ask.add_argument("words", nargs="+", metavar=word)
    trust = add_verb(asks, "trust", "let the Python rules of a folder run, as they are now", TRUST)
    trust.set_defaults(ask="trust")
    trust.add_argument("words", nargs="*", metavar="FOLDER")
    trust.add_argument("--list", action="store_true", help="show the folders you trust")
    trust.add_argument("--forget", action="store_true", help="stop trusting FOLDER")
