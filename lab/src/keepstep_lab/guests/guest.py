# SPDX-License-Identifier: Apache-2.0
"""What a guest is: somebody else's kind of program, how its own launcher starts it, and the ways to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

PORTS = ("{port}", "{port1}", "{port2}")
PROGRAMS = Path(__file__).parent / "programs"


class Way(Enum):
    """How a guest is run."""

    PLAIN = "plain"
    """Its own launcher, without keepstep: what the others are compared with."""
    GUARD = "guard"
    """`KEEPSTEP=on` and its own launcher."""
    RANKS = "ranks"
    """`keepstep run -n 2 -- python program.py`: keepstep starts the ranks."""
    WRAPPED = "wrapped"
    """`keepstep run -- <its own launcher>`."""

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Way.PLAIN: "without keepstep",
    Way.GUARD: "KEEPSTEP=on",
    Way.RANKS: "keepstep run -n 2 --",
    Way.WRAPPED: "keepstep run -- LAUNCHER",
}


@dataclass(frozen=True)
class Guest:
    """A program and how its user starts it.

    ``command`` is what the user types in the program's folder; programs are those of the environment that runs the lab.
    ``{port}``, ``{port1}`` and ``{port2}`` become free ports, in the command and in ``env``.
    """

    name: str
    framework: str
    """``tensorflow``, ``torch`` or ``jax``."""
    note: str
    """Whose idiom this is, in a sentence."""
    files: tuple[str, ...]
    """Of ``programs/``, copied into an empty folder; the first is the program."""
    command: tuple[str, ...]
    as_ranks: tuple[str, ...] = ()
    """What comes after `keepstep run -n 2 --`; empty: the program does not go by the variables of a rank."""
    run_options: tuple[str, ...] = ("-n", "2")
    """Of `keepstep run` where it starts the ranks, e.g. ``("-n", "2", "--ps", "1")``."""
    env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Modules that must be installed, besides the framework."""
    ranks: int = 2
    losses: str = r"(?i)loss\w*[^\w\n]+(?:nan|inf|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
    """A regular expression: all that it finds in the output must be the same, digit for digit, in any order."""
    limit: float = 300.0
    """Seconds after which a run that has not ended is ended; far more than a busy machine needs."""
    faults: tuple[str, ...] = ()
    """Of ``faults.py``: those that it is scored with."""
    quick: bool = False
    """Run by `make test`."""

    @property
    def ways(self) -> tuple[Way, ...]:
        return tuple(way for way in Way if way is not Way.RANKS or self.as_ranks)

    @property
    def program(self) -> str:
        return self.files[0]

    def words(self, way: Way) -> list[str]:
        """The command line of one way, ports not yet filled in."""
        if way is Way.RANKS:
            return ["keepstep", "run", *self.run_options, "--", *self.as_ranks]
        return [*(["keepstep", "run", "--"] if way is Way.WRAPPED else []), *self.command]


def with_ports(text: str, ports: Sequence[int]) -> str:
    """``text`` with free ports for its places."""
    for name, port in zip(PORTS, ports, strict=True):
        text = text.replace(name, str(port))
    return text
