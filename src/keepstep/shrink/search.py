# SPDX-License-Identifier: Apache-2.0
"""The search for a smaller program: the original, the best so far, and how a candidate is tried and judged."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import make_private, open_regular, write_whole
from keepstep.base.wording import count, duration
from keepstep.errors import Unavailable
from keepstep.shrink.chance import Chance
from keepstep.shrink.collectives_alone import Issued, difference_alone, issued_in, program_of
from keepstep.shrink.deciding import deciding
from keepstep.shrink.going_on import going_on, looks_for_files, that_start, that_write
from keepstep.shrink.job_command import JobCommand
from keepstep.shrink.names import Names
from keepstep.shrink.other_hosts import other_hosts
from keepstep.shrink.plain_numbers import PlainNumbers
from keepstep.shrink.program import SCOPES, Edits, Node, Program, Rendered, uid
from keepstep.shrink.same_failure import ABSENT, Failure, common, difference, failure_of, failure_of_json, other_numbers
from keepstep.shrink.trials import Trials

TRIES, SHARE = 8, 0.25
"""How often a command that does not fail is run before that is the answer, within which share of the budget."""
SLACK_S = 20.0
COLD = 4
"""So much longer than here the frameworks may take in ranks that import them all at once, while lines are traced."""
ENOUGH, MOST_RUNS = 3, 12
"""Of a failure that does not come every time: seen so often, or after so many runs, its rate is taken as known."""
DOUBTS = (1, 4, 16)
"""After so many candidates that did not fail at all, the best so far is run again: does it fail every time?"""
PATIENCE_S, LEAST_PATIENCE_S = 15.0, 6.0
"""A program that falls silent may give up by itself, which is another failure than one that has to be ended."""
LONGER, MORE_LINES = 4, 1 << 12
"""A candidate that runs so many times more lines than the original, and so many more, is taken to go on for ever."""
LARGEST_FILE = 4 << 20
ALONG = {"torch": "torch._dynamo"}
"""What a framework imports once it is used: the first step of an optimizer."""
WARM = {"torch", "tensorflow", "keras", "tf_keras", "jax", "jaxlib", "flax", "numpy", "transformers", "lightning"}
STATE = "state.json"
ON_CPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
OF_EDITS = "user.code_exception"
"""What most candidates fail with that lack something they need: not worth a word."""


class OutOfTime(Exception):
    """The budget is spent, or the user has had enough: the best so far is the result."""


@dataclass
class Search:
    """The best so far, and how a candidate is tried. Reductions ask ``same``."""

    trials: Trials
    launch: JobCommand
    env: Mapping[str, str]
    budget_s: float
    keep: tuple[re.Pattern[str], ...] = ()
    say: Callable[[str], None] = lambda _: None
    state: Path | None = None
    program: Program = field(default_factory=lambda: Program({}))
    best: Edits = field(default_factory=Edits)
    count: int = 0
    refused: int = 0
    also: dict[str, int] = field(default_factory=dict)
    limit_s: float = math.inf
    most_lines: int = 0
    """A rank of a trial may run so many lines."""
    cold_limit_s: float = 600.0
    """The same for a run whose ranks import everything themselves, as the original did."""
    began: float = field(default_factory=time.monotonic)
    needs: int | None = None
    on_cpu: bool | None = None
    """Whether it fails without an accelerator; None: there is none, or it was not tried."""
    patience_s: float = PATIENCE_S
    """A rank of a trial may be silent so long; 0.0: one that is silent is what is looked for, or was never seen."""
    plain: bool = False
    """Python frames say of the failure what native ones said."""
    shortened: tuple[tuple[Node, Node], ...] = ()
    """What the program waits for less than it did: `replaced` has these, and the result has not."""
    variables_tried: bool = False
    """Those that are left are needed."""
    doing: str = "as it is"
    chance: Chance | None = None
    """How often the original fails, if not always."""
    failed_of: tuple[int, int] = (1, 1)
    """How often the best so far failed."""
    executed: set[tuple[str, int]] = field(default_factory=set)
    apart: set[tuple[str, int]] = field(default_factory=set)
    """Lines that other ranks ran before they passed the failing one; the rank that failed there at once did not."""
    again: set[tuple[str, int]] = field(default_factory=set)
    """Lines that a rank ran more than once."""
    data: dict[str, list[str]] = field(default_factory=dict)
    """The lines of the text files that the program reads."""
    ran: int = 0
    """Lines of the original that ran."""
    alone: str | None = None
    """The program of nothing but the collectives, if it fails in the same way."""
    whole: int = 0
    """Lines of the original."""
    _known: dict[str, bool] = field(default_factory=dict)
    _wanted: Failure | None = None
    _warm: list[str] = field(default_factory=list)
    _issued: Issued | None = None
    _of: str = ""
    _first: list[Failure | None] = field(default_factory=list)
    """How the first runs of the original went."""
    last: Failure | None = None
    """How the last candidate failed, if it did."""
    in_vain: int = 0
    """Candidates of this reduction that were refused since the last one that was not."""
    needed: set[Node] = field(default_factory=set)
    """What was taken away alone, whereupon a line failed that stays in any case."""
    _numbers: tuple[str, ...] | None = None
    """Those in the message of the candidate that was tried last and failed in the same way."""
    _passed: int = 0
    """Candidates that did not fail at all."""

    @property
    def failure(self) -> Failure:
        assert self._wanted is not None
        return self._wanted

    @property
    def knows_the_failure(self) -> bool:
        return self._wanted is not None

    # --- the original

    def look(self, folders: tuple[str, ...]) -> Failure:
        """Run the original, and learn what it executes and imports. Raises Unavailable if it does not fail."""
        if away := other_hosts(self.launch.script, self.env):
            raise Unavailable(
                f"the program waits for workers on other hosts ({', '.join(away[:3])}), and a trial has only loopback",
                hint="give each worker a port of localhost, and start all of them with one command",
            )
        edits = Edits(words=self.launch.words, ranks=self.launch.ranks)
        self._warm = sorted(_frameworks(self.launch.script, self.launch.root))
        began = time.monotonic()
        self.warm_up()
        import_s = time.monotonic() - began
        for number in range(TRIES):
            seen = self._run(edits, {}, issued=True)
            self.executed = {(file, line) for file, line in seen.get("lines", ())}
            self.program = Program(_texts({self.launch.script, *(file for file, _ in self.executed)}))
            found = failure_of(seen, self.program, self.program.made(edits), edits.ranks)
            self._first.append(found)
            spent = time.monotonic() - self.began
            if found is not None or spent > SHARE * self.budget_s:
                break
            self.say(f"it did not fail in run {number + 1} of {TRIES}, {duration(seen['took_s'])}")
            if not number and self._warm:
                self.trials.warm_up([])  # in case that is why
        if found is None:
            said = [line for log in seen.get("logs", {}).values() for line in log.splitlines() if line.strip()][-3:]
            runs = f"{count(len(self._first), 'run')}, {duration(spent)}"
            how = "does not fail here" if not seen.get("status") else "fails, but keepstep finds no cause"
            last = f"it printed last: {'; '.join(said)}" if said else None
            raise Unavailable(f"the command {how} ({runs})", hint=last)
        about = [self.program.texts, asdict(self.launch), [each.pattern for each in self.keep]]
        self._of = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        self.ran = len(self.executed)
        self.data = _records(set(seen.get("opened", ())) - set(self.program.texts))
        self.whole = sum(map(_lines, self.program.made(edits).values()))
        self._issued = issued_in(seen.get("issued", ()), edits.ranks or 1)
        self._learn_patience(found, seen)
        self.again = {(file, line) for file, line in seen.get("again", ())}
        self.apart = {(file, line) for file, line in seen.get("apart", ())} if found.again is False else set()
        self._begin_with(found, edits)
        self.limit_s = 3 * seen["took_s"] + SLACK_S
        self.most_lines = LONGER * seen.get("count", 0) + MORE_LINES
        self.cold_limit_s = self.limit_s + 3 * COLD * import_s
        loaded = {name.partition(".")[0] for name in seen["imports"] if "." in name}  # the others were only looked for
        warm = [name for name in seen["imports"] if name.partition(".")[0] in loaded & WARM]
        self.say(f"{found.title} [{found.cause}]")
        self._warm = warm
        return found

    def _begin_with(self, failure: Failure, edits: Edits) -> None:
        self._wanted, self.best = failure, edits
        self._known[self._key(edits, self.program.made(edits))] = True
        self.names, self._numbers = Names(self.program, self.executed), failure.numbers
        stack = [self.program.statement_at(*place) for place in failure.places]
        failing = [each for each in stack if each]
        self.names.unreached = going_on(self.program, self.names, self.executed, failing) | self._told_apart(failing)
        self.writes, self.starts = that_write(self.program), that_start(self.program)
        if dict(failure.held).get(ABSENT) or looks_for_files(self.program, failing):
            self.names.unreached |= self.writes
        self.kept = self._kept(failure) | self.names.unreached
        self.feeding = self.names.slice_of(self.kept, mutators=True)
        self.kept |= deciding(self.program, self.executed, self.feeding)
        self.numbers_in = PlainNumbers(self.program)

    def _told_apart(self, failing: list[ast.stmt]) -> set[Node]:
        """What gave the other ranks something that the failing line needs, and not the rank that failed: once it is
        gone all ranks fail, which is another fault."""
        needed = self.names.slice_of(map(uid, failing), mutators=False)
        found = [self.program.statement_at(*place) for place in self.apart]
        reasons = [each for each in found if each is not None and uid(each) in needed]
        around = [node for each in reasons for node in (each, *self.program.above(each))]
        return {uid(node) for node in around if isinstance(node, ast.stmt)}

    def warm_up(self) -> None:
        """Import the frameworks once for all trials."""
        if self._warm:
            self.trials.warm_up(self._warm)

    def collectives_alone(self) -> None:
        """Whether nothing but the collectives fails in the same way, without model and data."""
        if self._issued is None or (text := program_of(self._issued)) is None:
            return
        if self.failure.elsewhere and self._issued.at(self.failure.elsewhere[0]) is False:
            return  # what the others wait for is no collective
        self.doing = "collectives alone"
        program, edits = Program({self.launch.script: text}), Edits(ranks=self.launch.ranks)
        made = program.made(edits)
        seen = self._run(edits, made, issued=True)
        found = failure_of(seen, program, made, edits.ranks)
        now = issued_in(seen.get("issued", ()), edits.ranks or 1)
        why = difference_alone(self.failure, found, self._issued, now)
        self.alone = text if why is None else None
        self.say("the collectives alone " + ("fail so too" if why is None else f"do not fail in this way ({why})"))

    def settle(self) -> None:
        """See whether the program fails every time."""
        if len(self._first) == 1:
            self.plain = True
            self._first.append(self._once_more())
            if common(self.failure, self._first[1]) is None and self._stood_still(self._first):
                self.plain = False
                self._first[1] = self._once_more()
            if self._warm and common(self.failure, self._first[1]) is None:
                self.trials.warm_up([])  # ranks that have imported the framework before they begin may fail otherwise
                self._first.append(self._once_more())
                if common(self.failure, self._first[-1]) is None:
                    self.warm_up()
            if (both := common(self.failure, self._first[-1])) is not None:
                self._wanted = both
                return
        self._measure(self._first)

    def _learn_patience(self, found: Failure, seen: Mapping[str, Any]) -> None:
        """Twice as long as ranks were silent before the program failed by itself."""
        silent_s = seen.get("silent_s", 0.0) if found.verdict != "hung" else 0.0
        self.patience_s = min(self.patience_s, max(2 * silent_s, LEAST_PATIENCE_S)) if silent_s else 0.0

    def _stood_still(self, runs: list[Failure | None]) -> bool:
        return self.patience_s > 0 or any(each is not None and each.verdict == "hung" for each in runs)

    def _once_more(self) -> Failure | None:
        """How the best so far fails now."""
        made = self.program.made(self.best)
        seen = self._run(self.best, made)
        found = failure_of(seen, self.program, made, self.best.ranks)
        if found is not None:
            self.limit_s = min(self.limit_s, 3 * seen["took_s"] + SLACK_S)
        return found

    def _measure(self, found: list[Failure | None]) -> None:
        """How often the best so far fails. Of several failures the most frequent is the one that is looked for."""
        while True:
            kinds: list[list[Failure]] = []
            for each in filter(None, found):
                for kind in kinds:
                    if (both := common(kind[0], each)) is not None:
                        kind[:] = [both, *kind[1:], each]
                        break
                else:
                    kinds.append([each])
            kinds.sort(key=len, reverse=True)
            if kinds and (len(kinds[0]) >= ENOUGH or len(found) >= MOST_RUNS):
                break
            found.append(self._once_more())
        most = kinds[0]
        for other in kinds[1:]:
            self.also[other[0].title] = self.also.get(other[0].title, 0) + len(other)
        if self._wanted is not None and common(self._wanted, most[0]) is None:
            self.say(f"{most[0].title} [{most[0].cause}]")
        self._begin_with(most[0], self.best)
        if len(most) < len(found):
            early = len(most) >= ENOUGH  # it ended with a failure, which is one too many for the rate
            self.chance = Chance((len(most) - early) / (len(found) - early))
            self.failed_of = len(most), len(found)
            self.say(f"this failure came in {len(most)} of {len(found)} runs; candidates are run until that is clear")

    def _kept(self, failure: Failure) -> set[Node]:
        """The failing statements, their callers, what is around them, and lines that the user wants to keep."""
        found: set[Node] = set()
        asked = [self.program.statement_at(*place) for place in failure.places]
        for each in self.program.statements():
            text = self.program.texts[uid(each)[0]].splitlines()[each.lineno - 1]
            if any(pattern.search(text) for pattern in self.keep):
                asked.append(each)
        for node in asked:
            if node is not None:
                found |= {uid(node), *(uid(each) for each in self.program.above(node))}
        return found

    # --- candidates

    def same(self, edits: Edits, *, close: bool = True) -> bool:
        """Whether the candidate fails as the original does; then it is the best so far."""
        self.last, self._numbers = None, self.failure.numbers
        closed = self.names.closed(edits, self.kept) if close else edits
        made = self.program.made(closed) if closed is not None else {}
        if closed is None or not _parses(made):
            self.refused += 1
            return False
        key = self._key(closed, made)
        if key not in self._known:
            self._known[key] = self._fails(closed, made)
            self.in_vain = 0 if self._known[key] else self.in_vain + 1
        if not self._known[key] and self.last is not None and self.last.at and self.failed_at() is None:
            alone = edits.removed - self.best.removed
            self.needed |= alone if len(alone) == 1 and edits == replace(self.best, removed=edits.removed) else set()
        if self._known[key]:
            self.best, self._wanted = closed, replace(self.failure, numbers=self._numbers)
            self.save()
        return self._known[key]

    def allowed(self, edits: Edits) -> bool:
        """Whether it may be tried: nothing that is kept lacks a name."""
        return self.names.closed(edits, self.kept) is not None

    def left(self) -> Iterator[ast.stmt]:
        """The statements of the best so far."""
        gone = set(self.best.removed)
        return (each for each in list(self.program.statements()) if not self.is_gone(each, gone))

    def is_gone(self, node: ast.stmt, gone: Set[Node]) -> bool:
        return uid(node) in gone or any(uid(each) in gone for each in self.program.above(node))

    def failed_at(self) -> Node | None:
        """The statement that the last candidate failed at, if it may go."""
        if self.last is None or len(self.last.at) != 1 or ABSENT in dict(self.last.held):
            return None  # of a file that is not there, what writes it is what is lacking
        node = self.program.statement_at(*self.last.at[0])
        return uid(node) if node is not None and uid(node) not in self.kept else None

    def suspects(self, among: set[Node], depth: int = 1) -> set[Node]:
        """Of removed statements, those next to what the last candidate failed at, or should have failed at."""
        places = self.last.at if self.last is not None and self.last.at else self.failure.places
        found = [self.program.statement_at(*place) for place in places]
        around = [each for node in found if node is not None for each in (node, *self.program.above(node))]
        reached = {uid(each) for each in around if not isinstance(each, (*SCOPES, ast.Module))}
        for _ in range(len(among)):
            wider = self.names.feeding(reached)
            if wider <= reached:
                break
            reached |= wider
            depth -= bool(reached & among)
            if depth <= 0:
                break
        if self.last is not None and ABSENT in dict(self.last.held):
            reached |= self.writes
        elif self.last is None:
            reached |= self.starts
        return reached & among or self.writes & among

    def _fails(self, edits: Edits, made: Mapping[str, Rendered]) -> bool:
        runs = failed = 0
        while True:
            seen = self._run(edits, made)
            found = failure_of(seen, self.program, made, edits.ranks) if not seen.get("endless") else None
            same = self._differs(edits, found) is None
            self.last = found
            if found is not None and found.cause not in (self.failure.cause, OF_EDITS):
                self.also[found.title] = self.also.get(found.title, 0) + 1
            runs, failed = runs + 1, failed + same
            if same:
                if self.patience_s:
                    self._learn_patience(self.failure, seen)
                self.limit_s = min(self.limit_s, 3 * seen["took_s"] + SLACK_S / 2)
                self.most_lines = min(self.most_lines, LONGER * seen.get("count", 0) + MORE_LINES)
            verdict = same if self.chance is None else self.chance.keeps_failing(failed, runs)
            doubtful = found is None and edits.ranks == self.best.ranks  # fewer ranks are a reason not to fail
            if doubtful and self.chance is None and not (seen.get("late") or seen.get("endless")):
                self._passed += 1
                if self._passed in DOUBTS and (again := self._once_more()) != self.failure:
                    if common(self.failure, again) is None:
                        self._measure([self.failure, again])
                    if self.chance is not None:
                        self._known = {key: same for key, same in self._known.items() if same}
                        continue
            if verdict is not None:
                self.failed_of = (failed, runs) if verdict else self.failed_of
                return verdict

    def _differs(self, edits: Edits, found: Failure | None) -> str | None:
        """Why a candidate fails in another way. Its numbers are held against those of the best so far."""
        why = difference(self.failure, found)
        if why is not None or found is None:
            return why
        best = self.best
        free = (edits.ranks, edits.words, edits.records) != (best.ranks, best.words, best.records)
        literal: dict[str, set[str]] = {}
        if edits.numbers != best.numbers:
            before, now = dict(best.numbers), dict(edits.numbers)
            for node, value in self.program.whole_numbers.items():
                literal.setdefault(str(before.get(node, value)), set()).add(str(now.get(node, value)))
        wanted = self.failure
        why = other_numbers(wanted, found, literal, free=free)
        if why is None and wanted.numbers and found.numbers:
            self._numbers = tuple(
                now if before else "" for before, now in zip_longest(wanted.numbers, found.numbers, fillvalue="")
            )
        return why

    def _run(self, edits: Edits, made: Mapping[str, Rendered], **more: Any) -> dict[str, Any]:
        left = self.began + self.budget_s - time.monotonic()
        if left <= 0:
            raise OutOfTime
        self.count += 1
        self.say(self.progress())
        launch = self.launch.smaller(edits.ranks, edits.words)
        changed = {path: each.text for path, each in made.items() if each.text != self.program.texts[path]}
        changed |= {path: "".join(self.data[path][n] for n in left) for path, left in edits.records}
        env = self.variables(edits)
        limit_s = min(self.limit_s, left)
        finite = self._wanted is None or self._wanted.not_finite is not None
        order = {**launch.order(), "files": changed, "env": env, "limit_s": limit_s, "lines": True, "finite": finite}
        order |= {"most_lines": self.most_lines, "plain": self.plain, "patience_s": self.patience_s}
        seen = self.trials.run({**order, **more})
        if seen.get("late") and limit_s == left:
            raise OutOfTime
        if "broken" in seen:
            raise Unavailable(f"a trial could not be made: {seen['broken']}", hint=seen.get("trace", ""))
        return seen

    def variables(self, edits: Edits) -> dict[str, str]:
        """Of a candidate."""
        env = {name: value for name, value in self.env.items() if name not in edits.unset}
        return env | ON_CPU if edits.on_cpu else env

    def progress(self) -> str:
        """`trial 12 (statements): 41 of 212 lines, 2 of 8 ranks, 14 min left`."""
        left = max(0.0, self.began + self.budget_s - time.monotonic())
        lines = sum(map(_lines, self.program.made(self.best).values()))
        ranks = f", {self.best.ranks} of {self.launch.ranks} ranks" if self.launch.ranks and self.best.ranks else ""
        size = f"{lines} of {self.whole} lines{ranks}, " if self.whole else ""
        return f"trial {self.count} ({self.doing}): {size}{left / 60:.0f} min left"

    def _key(self, edits: Edits, made: Mapping[str, Rendered]) -> str:
        about = [
            edits.ranks,
            edits.words,
            sorted(edits.unset),
            edits.on_cpu,
            edits.records,
            sorted((path, each.text) for path, each in made.items()),
        ]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def save(self) -> None:
        if self.state is not None:
            make_private(self.state.parent)
            said = {"edits": self.best.as_json(), "known": self._known, "needs": self.needs, "of": self._of}
            said |= {
                "on_cpu": self.on_cpu,
                "alone": self.alone,
                "failure": asdict(self.failure),
                "failed_of": self.failed_of,
                "shortened": self.shortened,
            }
            said["rate"] = None if self.chance is None else self.chance.rate
            write_whole(self.state, json.dumps(said).encode())

    def earlier(self) -> dict[str, Any] | None:
        """What an earlier search of the same program kept."""
        try:
            assert self.state is not None
            with open_regular(self.state) as stream:
                said: dict[str, Any] = json.load(stream)
            failure = failure_of_json(said["failure"])
        except (AssertionError, OSError, ValueError, KeyError, TypeError):
            return None
        if said["of"] != self._of:
            self.say("starting anew: the program, its options or --keep are others than in the earlier search")
        elif common(failure, self.failure) is None:
            self.say(f"starting anew: the earlier search was about: {failure.title}")
        else:
            return said
        return None

    def resume(self, said: Mapping[str, Any]) -> None:
        """Go on where it ended."""
        self.say("going on where the earlier search ended")
        self._begin_with(failure_of_json(said["failure"]), Edits.of_json(said["edits"]))
        self.alone, self.on_cpu = said["alone"], said["on_cpu"]
        self.shortened = tuple((tuple(node), tuple(other)) for node, other in said.get("shortened", ()))
        self._known, self.needs, self.failed_of = said["known"], said["needs"], tuple(said["failed_of"])
        self.chance = None if said["rate"] is None else Chance(said["rate"])


def _frameworks(script: str, root: str) -> set[str]:
    """The modules of frameworks that the script imports, or a file of the user's that it imports."""
    found: set[str] = set()
    waiting, seen = [Path(script)], set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        with contextlib.suppress(OSError, ValueError, SyntaxError), open_regular(str(path)) as stream:
            for node in ast.walk(ast.parse(stream.read(LARGEST_FILE))):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
                for name in names:
                    top = name.partition(".")[0]
                    found |= {top, name, ALONG.get(top, top)} if top in WARM else set()
                    parts = name.split(".")
                    folders = {Path(root), path.parent}
                    waiting += [each.joinpath(*parts).with_suffix(".py") for each in folders]
    return found


def _texts(paths: set[str]) -> dict[str, str]:
    found = {}
    for path in sorted(paths):
        with open_regular(path) as stream:
            found[path] = stream.read(LARGEST_FILE).decode()
    return found


def _records(paths: set[str]) -> dict[str, list[str]]:
    """The lines of each that is a text of several lines."""
    found = {}
    for path in sorted(paths):
        with contextlib.suppress(OSError, ValueError), open_regular(path) as stream:
            text = stream.read(LARGEST_FILE + 1).decode()
            if "\n" in text.rstrip() and "\0" not in text and len(text) <= LARGEST_FILE and not path.endswith(".py"):
                found[path] = text.splitlines(keepends=True)
    return found


def _parses(made: Mapping[str, Rendered]) -> bool:
    try:
        for path, each in made.items():
            compile(each.text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _lines(each: Rendered) -> int:
    return sum(bool(line.strip()) for line in each.lines)
