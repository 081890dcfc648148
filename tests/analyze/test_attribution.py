"""Ranks from prefixes, names and the text itself."""

from keepstep.analyze.attribution import attribute, with_guards_words
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.guard import RankRaised
from keepstep.model.facts.network import AddressMap, PeerLost, PortTaken, ServerStarted
from keepstep.model.facts.process import ExceptionRaised, ProcessExited
from keepstep.model.facts.rank_places import RankKnownBy
from keepstep.model.facts.sync import CommMember
from keepstep.model.facts.training import StepSeen
from keepstep.model.identity import Rank
from keepstep.parse.scan.lines.writer import NOBODY, Writer
from keepstep.parse.scan.sighting import Scanned, Sighting


def sighting(fact=None, writer=NOBODY, line=1, at=None, quote=""):
    return Sighting(fact or PortTaken(), line, writer, at, quote)


def ranks(*logs: Scanned) -> list[int | None]:
    return [e.rank.index if e.rank else None for e in attribute(logs) if not isinstance(e.fact, RankKnownBy)]


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
    logs = [
        Scanned(name, (sighting(),))
        for name in ("chief.log", "worker-0.log", "worker-1.log", "ps-0.log", "evaluator.log")
    ]
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


def tee(local: int) -> Writer:
    return Writer(key=str(local), local=local)


def test_a_rank_on_a_host_is_the_rank_where_nothing_else_is_said():
    assert ranks(Scanned("x.log", (sighting(writer=tee(2)),))) == [2]


def test_a_rank_on_a_host_is_made_global_by_what_its_lines_or_the_failure_table_say():
    said = sighting(writer=tee(0), quote="[PG 0 Rank 8] Timeout at NCCL work")
    table = sighting(ProcessExited(reporter="torchrun", rank=10, local_rank=2, first=True))
    assert ranks(Scanned("x.log", (sighting(writer=tee(0)), said))) == [8, 8]
    assert ranks(Scanned("x.log", (sighting(writer=tee(2)), table))) == [10, None]


def test_the_others_of_its_host_tell_how_far_a_rank_is_from_its_number_there():
    others = [sighting(writer=tee(n), quote=f"[Rank {8 + n}] boom") for n in (0, 1)]
    assert ranks(Scanned("x.log", (*others, sighting(writer=tee(3))))) == [8, 9, 11]


def test_a_rank_on_one_of_several_hosts_is_not_guessed():
    both = [sighting(writer=tee(0), quote=f"[Rank {n}] boom") for n in (0, 8)]
    assert ranks(Scanned("x.log", tuple(both))) == [None, None]


def test_a_device_on_one_of_several_hosts_is_known_by_the_communicator():
    here, there = (Writer(key="", local=3, node=node) for node in ("a", "b"))
    joined = [sighting(CommMember(index=index, size=16), writer) for index, writer in ((3, here), (11, there))]
    part = sighting(CommMember(index=1, size=2), there)
    assert ranks(Scanned("x.log", (*joined, part, sighting(writer=there)))) == [3, 11, 11, 11]


def test_a_prefix_behind_which_several_ranks_speak_numbers_hosts():
    host = Writer(key="1", rank=1)
    worlds = [sighting(WorldSeen(index=index), host) for index in (8, 9)]
    own = sighting(writer=Writer(key="9", rank=9, own=True))
    assert ranks(Scanned("x.log", (*worlds, sighting(writer=host), own))) == [None, None, None, 9]


def test_a_prefix_numbers_hosts_where_the_failure_table_behind_it_names_another_rank():
    host = Writer(key="w", rank=1)
    table = sighting(ProcessExited(reporter="torchrun", rank=5, local_rank=1), host)
    assert ranks(Scanned("x.log", (table, sighting(writer=host)))) == [None, None]


def test_a_prefix_numbers_hosts_where_a_process_of_torch_xla_behind_it_has_another_rank():
    host = Writer(key="w", rank=1)
    child = sighting(ProcessExited(reporter="torch_xla", rank=9, code=1), host)
    assert ranks(Scanned("x.log", (child, sighting(writer=host))))[1] is None
    same = sighting(ProcessExited(reporter="torch_xla", rank=1, code=1), host)
    assert ranks(Scanned("x.log", (same, sighting(writer=host)))) == [1, 1]


def test_the_lines_of_progress_tell_whose_log_it_is_but_not_those_of_the_first_rank():
    def log(*counted: int) -> Scanned:
        steps = [sighting(StepSeen(step=1), quote=f"Batch 1/100 loss 4.8 rank {n}") for n in counted]
        return Scanned("x.log", (*steps, sighting()))

    assert ranks(log(5, 5))[-1] == 5
    assert ranks(log(5, 6))[-1] is None
    assert ranks(log(0, 0))[-1] is None


def test_a_member_of_a_part_of_the_run_is_not_known_by_its_number_there():
    whole, part = (Writer(key="", local=0, node=node) for node in ("a", "b"))
    joined = (sighting(CommMember(index=0, size=16), whole), sighting(CommMember(index=1, size=2), part))
    assert ranks(Scanned("x.log", (*joined, sighting(writer=part))))[-1] is None


def test_the_name_of_a_file_beats_what_its_communicators_say():
    device = Writer(key="", local=0, node="a")
    assert ranks(Scanned("rank5.log", (sighting(CommMember(index=1, size=2), device), sighting(writer=device)))) == [
        5,
        5,
    ]


def test_a_launchers_word_on_another_process_is_not_of_the_one_that_told_its_rank():
    exited = sighting(ProcessExited(reporter="torchrun", code=-9, local_rank=3), line=2)
    assert ranks(Scanned("a.log", (sighting(WorldSeen(index=7)), exited))) == [7, None]


def test_a_server_is_the_task_that_its_cluster_has_at_its_address():
    ps = AddressMap(job="ps", addresses=("10.0.0.1:2222",))
    workers = AddressMap(job="worker", addresses=("10.0.0.2:2222", "localhost:2222"))
    started = ServerStarted(address="localhost:2222")
    assert ranks(Scanned("a.log", (sighting(ps), sighting(workers), sighting(started), sighting()))) == [1, 1, 1, 1]


def test_a_server_of_two_tasks_or_of_a_cluster_told_in_part_is_nobody():
    workers = AddressMap(job="worker", addresses=("localhost:1", "localhost:2"))
    one, other = ServerStarted(address="localhost:1"), ServerStarted(address="localhost:2")
    assert set(ranks(Scanned("a.log", (sighting(workers), sighting(one), sighting(other))))) == {None}
    part = AddressMap(job="worker", addresses=("localhost:1",), dense=False)
    assert set(ranks(Scanned("a.log", (sighting(part), sighting(one))))) == {None}


def told(rank: int, kind: str = "builtins.TypeError", message: str = "no such operand") -> Evidence[RankRaised]:
    fact = RankRaised(type=kind, message=message)
    return Evidence(fact=fact, origin=Origin(source=f"rank{rank}.notes.jsonl"), rank=Rank(index=rank), quote="raised")


def test_a_traceback_that_nobody_signed_is_of_the_rank_whose_guard_told_of_it():
    log = Scanned(
        "command.log",
        (
            sighting(ExceptionRaised(type="TypeError", message="no such operand", lines=5), line=3),
            sighting(PeerLost(how="reset"), line=7),
            sighting(line=9),
        ),
    )
    logged = attribute([log])

    def named(*words: Evidence[RankRaised]) -> list[int | None]:
        return [e.rank.index if e.rank else None for e in with_guards_words(logged, words)]

    assert named(told(1)) == [1, 1, None]
    assert named(told(0), told(1)) == [None, None, None]  # one of them printed it, and nothing tells which
    assert named(told(0, message="another"), told(1)) == [1, 1, None]
    assert named() == named(told(1, kind="ValueError")) == [None, None, None]
