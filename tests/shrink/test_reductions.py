# SPDX-License-Identifier: Apache-2.0
"""Which candidates the reductions try, of a program that is run in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keepstep.shrink import reductions
from keepstep.shrink.job_command import JobCommand
from keepstep.shrink.program import Edits, Program, Rendered
from keepstep.shrink.same_failure import Failure
from keepstep.shrink.search import Search
from keepstep.shrink.trials import Trials

TEXT = """\
import json
import types

share = types.SimpleNamespace(parts=1)
rows = json.loads("[1, 2]")
json.dumps(rows)
setattr(share, "parts", int(json.loads("0")))
setattr(share, "whole", 1)
setattr(share, "name", json.loads('"x"'))
print(share.name, share.whole / share.parts)
"""


@dataclass
class InThisProcess(Search):
    tried: list[str] = field(default_factory=list)

    def _fails(self, edits: Edits, made: Mapping[str, Rendered]) -> bool:
        text = made["job.py"].text
        self.tried.append(text)
        self.count += 1
        try:
            exec(compile(text, "job.py", "exec"), {})
        except ZeroDivisionError:
            return True
        except Exception:
            return False
        return False


def test_imports_go_with_their_users_and_are_not_tried_themselves() -> None:
    trials = Trials(".", (), {})
    try:
        launch = JobCommand(python="python", script="job.py", words=(), ranks=None, by="python")
        search = InThisProcess(trials, launch, {}, 60.0)
        search.program = Program({"job.py": TEXT})
        search.executed = {("job.py", line) for line in range(1, 11)}
        failing = Failure("failed", "user.code_exception", "", "", "only", at=(("job.py", 10),))
        search._begin_with(failing, Edits())
        for each in (reductions.slices, reductions.statements, reductions.once_more):
            each(search)
    finally:
        trials.close()
    left = search.program.made(search.best)["job.py"].text
    assert "rows" not in left and "setattr(share" in left and "import json" in left
    without = [text for text in search.tried if "import json" not in text]
    assert len(without) == 1, "only all at once"
