"""Ranks from prefixes, names and the text itself."""

from keepstep.analyze.attribution import Scanned, attribute
from keepstep.core.facts.config import WorldSeen
from keepstep.core.facts.network import PortTaken
from keepstep.parse.logscan import Sighting
from keepstep.parse.prefix import NOBODY, Writer


def sighting(fact=None, writer=NOBODY, line=1, at=None):
    return Sighting(fact or PortTaken(), line, writer, at, "")


def ranks(*logs: Scanned) -> list[int | None]:
    return [e.rank.index if e.rank else None for e in attribute(logs)]


def test_a_prefix_beats_the_files_name():
    assert ranks(Scanned("rank0.log", (sighting(writer=Writer(key="3", rank=3)),))) == [3]


def test_the_files_name_serves_lines_without_a_prefix():
    assert ranks(Scanned("worker-2.log", (sighting(),))) == [2]


def test_a_process_that_says_who_it_is_owns_its_file():
    assert ranks(Scanned("a.log", (sighting(WorldSeen(index=4)), sighting(line=2)))) == [4, 4]


def test_a_file_in_which_several_say_who_they_are_has_no_owner():
    logs = Scanned("a.log", (sighting(WorldSeen(index=4)), sighting(WorldSeen(index=5)), sighting()))
    assert ranks(logs)[-1] is None


def test_tensorflow_roles_are_numbered_chief_worker_ps():
    logs = [Scanned(name, (sighting(),)) for name in ("chief.log", "worker-0.log", "worker-1.log", "ps-0.log", "evaluator.log")]
    assert ranks(*logs) == [0, 1, 2, 3, 4]


def test_workers_alone_start_at_zero():
    assert ranks(Scanned("worker-0.log", (sighting(),)), Scanned("worker-1.log", (sighting(),))) == [0, 1]


def test_a_device_stands_for_the_rank_on_a_single_host():
    one = Writer(key="a:1", local=1, node="a")
    other = Writer(key="b:1", local=1, node="b")
    assert ranks(Scanned("x.log", (sighting(writer=one),))) == [1]
    assert ranks(Scanned("x.log", (sighting(writer=one), sighting(writer=other)))) == [None, None]


def test_files_are_put_in_order_of_time_where_all_have_clocks():
    late = Scanned("rank0.log", (sighting(at=50.0),))
    early = Scanned("rank1.log", (sighting(at=10.0),))
    assert ranks(late, early) == [1, 0]
    assert ranks(late, Scanned("rank1.log", (sighting(),))) == [0, 1]
