# SPDX-License-Identifier: Apache-2.0
"""A parser that says what a mistyped verb, option or choice was meant to be."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from keepstep.base.did_you_mean import did_you_mean


class HelpfulParser(argparse.ArgumentParser):
    """The verbs below it are parsers of this kind too."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Nothing may be left over: each verb says so itself, because it knows its options."""
        found, left = super().parse_known_args(args, namespace)
        left += getattr(found, argparse._UNRECOGNIZED_ARGS_ATTR, [])
        if left:
            self._unknown(left)
        return found, left

    def _unknown(self, left: Sequence[str]) -> NoReturn:
        option = next((word.partition("=")[0] for word in left if word.startswith("-")), None)
        if option is None:
            self.error(f"too many words: {' '.join(left)}")
        known = (name for action in self._actions if action.help != argparse.SUPPRESS for name in action.option_strings)
        self._mistyped(f"unknown option: {option}", option, known)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            self._mistyped(f"no such verb: {value}", str(value), known)
        near = did_you_mean(str(value), known, f"choose from {', '.join(known)}")
        raise argparse.ArgumentError(action, f"not {value!r}; {near}")

    def _mistyped(self, said: str, word: str, known: Iterable[str]) -> NoReturn:
        hint = did_you_mean(word, known, f"`{self.prog} --help` lists them")
        self.exit(2, f"{self.prog}: {said}\n  hint: {hint}\n")
