# SPDX-License-Identifier: Apache-2.0
"""Candidates: what is cut, what keeps its form, and which line each line comes from."""

from __future__ import annotations

import ast

import pytest

from keepstep.shrink.delta_debugging import reduce
from keepstep.shrink.going_on import going_on, looks_for_files, that_start, that_write
from keepstep.shrink.names import Names
from keepstep.shrink.one_file import imported, in_one
from keepstep.shrink.program import Edits, Node, Program, uid

TEXT = """\
import os, sys
from json import (
    dumps,
    loads,
)


def unused(x):
    return x


def total(rows, count):
    found = 0  # the sum
    for index in range(count):
        if index > 1:
            found += rows[
                index
            ]
        else:
            print("small")
    return found


class Table:
    def __init__(self):
        self.rows = [1, 2, 3]
        self.log = []


table = Table()
table.log.append("made")
print(total(table.rows, 32), dumps([]))
"""


@pytest.fixture
def program() -> Program:
    return Program({"job.py": TEXT})


def node(program: Program, text: str) -> Node:
    line = next(n for n, each in enumerate(TEXT.splitlines(), 1) if text in each)
    found = program.statement_at("job.py", line)
    assert found is not None
    return uid(found)


def test_without_edits_the_text_is_the_original(program: Program) -> None:
    assert program.made(Edits())["job.py"].text == TEXT


def test_what_stays_keeps_its_form_and_knows_its_line(program: Program) -> None:
    gone = frozenset({node(program, "def unused"), node(program, 'print("small")')})
    made = program.made(Edits(removed=gone))["job.py"]
    assert "found = 0  # the sum" in made.text
    assert "else:" not in made.text and "unused" not in made.text
    line = made.lines.index("                index") + 1
    assert made.origins[line - 1] == ("job.py", 16), "all lines of a statement come from its first"
    compile(made.text, "job.py", "exec")


def test_an_emptied_body_passes(program: Program) -> None:
    made = program.made(Edits(removed=frozenset({node(program, "return x")})))["job.py"].text
    assert "def unused(x):\n    pass" in made


def test_numbers_names_of_imports_and_wrappers_change_in_place(program: Program) -> None:
    tree = program.trees["job.py"]
    number = next(each for each in ast.walk(tree) if isinstance(each, ast.Constant) and each.value == 32)
    loads = next(each for each in ast.walk(tree) if isinstance(each, ast.alias) and each.name == "loads")
    edits = Edits(
        numbers=((uid(number), 4),), removed=frozenset({uid(loads)}), unwrapped=frozenset({node(program, "if index")})
    )
    made = program.made(edits)["job.py"].text
    assert "total(table.rows, 4)" in made
    assert "from json import dumps\n" in made
    assert "        found += rows[index]\n" in made
    compile(made, "job.py", "exec")


def test_edits_survive_being_kept() -> None:
    edits = Edits(
        frozenset({("a", 1)}), frozenset({("b", 2)}), ((("a", 3), ("a", 5)),), ((("a", 3), 4),), ("--x", "1"), 2
    )
    assert Edits.of_json(edits.as_json()) == edits


def test_what_uses_a_removed_name_goes_with_it(program: Program) -> None:
    names, kept = Names(program), {node(program, "found += rows")}
    closed = names.closed(Edits(removed=frozenset({node(program, "self.log = ")})), kept)
    assert closed is not None and node(program, 'table.log.append("made")') in closed.removed
    assert names.closed(Edits(removed=frozenset({node(program, "found = 0")})), kept) is None, (
        "the failing line needs it"
    )


def test_an_attribute_that_others_may_set_holds_nothing_back() -> None:
    text = "class Unused:\n    def __init__(self):\n        self.every = 1\n\n\nargs = parse()\nprint(args.every)\n"
    program = Program({"job.py": text})
    unused, failing = program.statement_at("job.py", 1), program.statement_at("job.py", 7)
    assert unused is not None and failing is not None
    closed = Names(program).closed(Edits(removed=frozenset({uid(unused)})), {uid(failing)})
    assert closed is not None and closed.removed == {uid(unused)}


def test_an_attribute_that_is_only_changed_was_there_before() -> None:
    """`grad` comes from the framework, though the program divides it."""
    text = "def average(params):\n    for p in params:\n        if p.grad is None:\n            continue\n"
    program = Program({"train.py": text + "        send(p.grad)\n        p.grad /= 2\n    print(params)\n"})
    condition, printed = program.statement_at("train.py", 3), program.statement_at("train.py", 7)
    assert condition is not None and printed is not None
    closed = Names(program).closed(Edits(removed=frozenset({uid(printed)})), set())
    assert closed is not None and uid(condition) not in closed.removed


def test_a_slice_holds_what_the_failing_line_needs(program: Program) -> None:
    kept = {node(program, "found += rows"), node(program, "print(total(")}
    wanted = Names(program).slice_of(kept, mutators=False)
    for text in ("def total", "found = 0", "for index", "class Table", "self.rows =", "table = Table()"):
        assert node(program, text) in wanted, text
    assert node(program, "def unused") not in wanted
    assert node(program, 'table.log.append("made")') not in wanted


def test_delta_debugging_leaves_what_is_needed() -> None:
    gone: set[int] = set()
    tried = []

    def goes(piece: list[int]) -> bool:
        tried.append(piece)
        if set(piece) & {3, 17}:
            return False
        gone.update(piece)
        return True

    assert reduce(range(20), goes) == [3, 17]
    assert gone == set(range(20)) - {3, 17}
    assert len(tried) < 20


def test_what_failed_leads_to_what_is_needed() -> None:
    gone: set[int] = set()
    tried = []

    def goes(piece: list[int]) -> bool:
        tried.append(piece)
        if set(piece) & {40, 41}:
            return False
        gone.update(piece)
        return True

    def suspects(piece: list[int], depth: int) -> list[int]:
        return [each for each in piece if 39 < each < 42]

    assert reduce(range(100), goes, suspects) == [40, 41]
    assert len(tried) == 4, "all, all but the suspects, and each of the two"


def test_what_feeds_a_statement(program: Program) -> None:
    feeding = Names(program).feeding({node(program, "found += rows")})
    assert node(program, "found = 0") in feeding and node(program, "for index") in feeding
    assert node(program, "self.log = ") not in feeding


def test_what_gives_a_parameter_feeds_its_user(program: Program) -> None:
    assert node(program, "print(total(") in Names(program).feeding({node(program, "for index")})


LAYERS = """\
import wrapping


class Block:
    def forward(self, x):
        return x


class Model:
    def __init__(self, width):
        self.block = Block()
        self.head = width

    def forward(self, x):
        return self.block(x) + self.head


model = wrapping.wrapped(Model(3))
model.forward(1) / 0
"""


def test_a_part_stands_for_an_expression_and_what_only_the_rest_used_goes() -> None:
    program = Program({"job.py": LAYERS})
    call, inner = (
        next(uid(each) for each in ast.walk(program.trees["job.py"]) if ast.unparse(each) == text)
        for text in ("self.block(x)", "x")
    )
    failing, wrapped = program.statement_at("job.py", 19), program.statement_at("job.py", 18)
    assert isinstance(wrapped, ast.Assign) and isinstance(wrapped.value, ast.Call) and failing is not None
    pairs = ((call, inner), (uid(wrapped.value), uid(wrapped.value.args[0])))
    closed = Names(program).closed(Edits(replaced=pairs), {uid(failing)})
    assert closed is not None
    text = program.made(closed)["job.py"].text
    assert "wrapping" not in text and "Block" not in text and "self.block" not in text
    assert "return x + self.head" in text and "model = Model(3)" in text


def test_what_gives_a_value_or_is_called_by_others_stays_with_its_users(program: Program) -> None:
    names, kept = Names(program), {node(program, "print(total(")}
    assert names.closed(Edits(removed=frozenset({node(program, "return found")})), kept) is None
    layers = Program({"job.py": LAYERS})
    failing, forward = layers.statement_at("job.py", 19), layers.statement_at("job.py", 14)
    assert failing is not None and forward is not None
    assert Names(layers).closed(Edits(removed=frozenset({uid(forward)})), {uid(failing)}) is None


STOPS = """\
class Block:
    def forward(self, x):
        return x / 0


class Head:
    def forward(self, x):
        return widened(x)


class Unused:
    def forward(self, x):
        return x


def widened(x):
    return x * 2


class Model:
    def __init__(self):
        self.block = Block()
        self.head = Head()
        self.other = Unused()

    def forward(self, x):
        x = self.block.forward(x)
        print(x)
        y = []
        for number in range(2):
            y.append(self.head(x))
        return y

    def later(self):
        return self.other


def loss_of(x):
    return x


print(loss_of(Model().forward(3)))
"""


def test_what_a_mended_program_goes_on_with_stays_though_no_trial_gets_there() -> None:
    program = Program({"job.py": STOPS})
    at = {text: n for n, text in enumerate(map(str.strip, STOPS.splitlines()), 1)}

    def statement(text: str) -> ast.stmt:
        found = program.statement_at("job.py", at[text])
        assert found is not None
        return found

    ran = ["return x / 0", "self.block = Block()", "self.head = Head()", "self.other = Unused()"]
    ran += ["x = self.block.forward(x)", "print(loss_of(Model().forward(3)))"]
    ran += [text for text in at if text.startswith(("class ", "def "))]
    executed = {("job.py", line) for line in (at[text] for text in ran)}
    names = Names(program, executed)
    stack = [statement(text) for text in ("return x / 0", *ran[4:6])]
    names.unreached = going_on(program, names, executed, stack)
    for text in ("y = []", "y.append(self.head(x))", "return y"):
        assert uid(statement(text)) in names.unreached, text
    for text in ("return widened(x)", "return x * 2", "def loss_of(x):"):
        assert uid(statement(text)) in names.unreached, text
    for text in ("print(x)", "class Unused:", "return self.other"):
        assert uid(statement(text)) not in names.unreached, text
    kept = names.unreached | {uid(each) for each in stack}
    assert names.closed(Edits(removed=frozenset({uid(statement("self.head = Head()"))})), kept) is None
    assert names.closed(Edits(removed=frozenset({uid(statement("class Head:"))})), kept) is None
    assert names.closed(Edits(removed=frozenset({uid(statement("class Unused:"))})), kept) is not None


WRITES = """\
def store(path, text):
    with open(path, "w") as out:
        print(text, file=out)


def main(path):
    if path:
        store(path, "x")
    print(open(path).read())
    print(sum([1]))
"""


def test_what_writes_files_is_found_with_what_calls_it() -> None:
    program = Program({"job.py": WRITES})
    found = {each.lineno for each in program.statements() if uid(each) in that_write(program)}
    assert found == {1, 2, 3, 6, 7, 8}


def test_what_starts_processes_is_found_with_what_calls_it() -> None:
    text = (
        "import subprocess\n\n\ndef begin(rest):\n    return subprocess.Popen(rest)\n\n\nprint(1)\nbegin([]).wait()\n"
    )
    program = Program({"job.py": text})
    assert {each.lineno for each in program.statements() if uid(each) in that_start(program)} == {4, 5, 9}


def test_a_wait_for_a_file_is_known_by_its_loop() -> None:
    program = Program({"job.py": "import os, time\nwhile not os.path.exists('x'):\n    time.sleep(1)\ntime.sleep(1)\n"})
    sleep, other = program.statement_at("job.py", 3), program.statement_at("job.py", 4)
    assert sleep is not None and looks_for_files(program, [sleep])
    assert other is not None and not looks_for_files(program, [other])


FILES = {
    "train.py": "import torch\nfrom model import Net\n\n\nnet = Net()\n",
    "model.py": "import torch\nfrom parts.block import Block\n\n\nclass Net(Block):\n    pass\n",
    "parts/block.py": "class Block:\n    pass\n",
}


def test_several_files_become_one() -> None:
    text = in_one(FILES, "train.py")
    assert text == ("import torch\n\n\nclass Block:\n    pass\n\n\nclass Net(Block):\n    pass\n\n\nnet = Net()\n")


def test_a_file_that_is_started_by_its_name_belongs_to_it() -> None:
    texts = {"launch.py": "start(['python', 'train.py'])\n", "train.py": "import rows\n", "rows.py": "", "other.py": ""}
    assert set(imported(texts, "launch.py")) == {"launch.py", "train.py", "rows.py"}


def test_modules_of_a_package_become_one() -> None:
    files = {"jobs/train.py": "from .model import Net\n\nnet = Net()\n", "jobs/model.py": "class Net:\n    pass\n"}
    assert in_one(files, "jobs/train.py") == "class Net:\n    pass\n\n\nnet = Net()\n"
    files["jobs/train.py"] = "from . import model\n\nnet = model.Net()\n"
    assert in_one(files, "jobs/train.py") is None


def test_files_that_read_their_syntax_alike_become_one() -> None:
    future = "from __future__ import annotations\n"
    files = {
        "train.py": future + "from model import Net\n\nnet = Net()\n",
        "model.py": future + "class Net:\n    pass\n",
    }
    assert in_one(files, "train.py") == future + "\n\nclass Net:\n    pass\n\n\nnet = Net()\n"
    assert in_one({**files, "train.py": "from model import Net\n\nnet = Net()\n"}, "train.py") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", "import model\nnet = model.Net()\n"),
        ("train.py", "from model import Net as Other\n"),
        ("train.py", "def late():\n    from model import Net\n"),
        ("train.py", "from model import Net\nclass Block:\n    pass\n"),
        ("model.py", "print(__name__)\nNet = 1\n"),
    ],
)
def test_what_one_file_would_change_stays_in_several(name: str, text: str) -> None:
    assert in_one({**FILES, name: text}, "train.py") is None


def test_of_an_import_only_the_name_that_is_gone_goes() -> None:
    program = Program(
        {
            "job.py": "from rows import one, two\n\nprint(two(), 1 / 0)\n",
            "rows.py": "def one():\n    pass\n\n\ndef two():\n    pass\n",
        }
    )
    one, failing = program.statement_at("rows.py", 1), program.statement_at("job.py", 3)
    assert one is not None and failing is not None
    closed = Names(program).closed(Edits(removed=frozenset({uid(one)})), {uid(failing)})
    assert closed is not None and program.made(closed)["job.py"].lines[0] == "from rows import two"


def test_a_name_that_is_made_of_itself_needs_another_statement() -> None:
    program = Program({"job.py": "x = 3\nx = x + 1\nprint(x / 0)\n"})
    first, failing = program.statement_at("job.py", 1), program.statement_at("job.py", 3)
    assert first is not None and failing is not None
    assert Names(program).closed(Edits(removed=frozenset({uid(first)})), {uid(failing)}) is None


LOOPS = """\
import itertools
from dataclasses import dataclass


@dataclass
class Settings:
    width: int = 4


rows = []
step = done = 0
while step < 10:
    done += 1
    rows.append(step)
    step += 1
for number in itertools.cycle([1]):
    print(rows[number], dict(width=3))
    if number > 5:
        break
"""


def at_line(program: Program, line: int) -> Node:
    found = program.statement_at("job.py", line)
    assert found is not None
    return uid(found)


def test_a_loop_keeps_what_ends_it_and_goes_with_it() -> None:
    program = Program({"job.py": LOOPS})
    names = Names(program)
    kept = {at_line(program, line) for line in (12, 16, 17)}
    for line, may_go in ((13, True), (15, False), (19, False)):
        assert (names.closed(Edits(removed=frozenset({at_line(program, line)})), kept) is not None) == may_go, line
    closed = names.closed(Edits(removed=frozenset({at_line(program, 15)})), kept - {at_line(program, 12)})
    assert closed is not None and at_line(program, 12) in closed.removed
    once = Edits(removed=frozenset({at_line(program, 15)}), unwrapped=frozenset({at_line(program, 12)}))
    assert names.closed(once, kept - {at_line(program, 12)}) is not None, "what runs once needs no end"


def test_a_slice_holds_what_fills_and_what_ends_and_no_field_of_another_calls_name() -> None:
    program = Program({"job.py": LOOPS})
    wanted = Names(program).slice_of({at_line(program, 17)}, mutators=False)
    lines = {program.nodes[each].lineno for each in wanted if isinstance(program.nodes[each], ast.stmt)}
    assert {10, 11, 12, 14, 15, 16, 19} <= lines and not {7, 13} & lines, lines


def test_files_that_nobody_imports_any_longer_are_no_part_of_it() -> None:
    texts = {"job.py": "from a import x\n", "a.py": "import pack.b\n", "pack/b.py": "", "c.py": "import torch\n"}
    assert set(imported(texts, "job.py")) == {"job.py", "a.py", "pack/b.py"}
    by_text = {**texts, "a.py": "import importlib\nimportlib.import_module('c')\n"}
    assert set(imported(by_text, "job.py")) == set(texts)
