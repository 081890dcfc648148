"""Words that tell whose failure it was."""

from keepstep.parse.scan.headings import heading
from keepstep.parse.scan.prefix import Prefixes


def test_a_program_that_says_whose_exception_it_got_is_believed():
    writer, _ = Prefixes(()).split("Rank 3 got exception: CUDA out of memory")
    assert writer.rank == 3
    assert Prefixes(()).split("Rank 3 is ready")[0].rank is None


def test_the_errors_of_a_group_of_workers_come_under_their_ranks():
    writer = heading("[Rank 3 Error Snippet]:")
    assert writer is not None and writer.rank == 3


def test_torchruns_tee_tells_the_rank_on_its_host():
    writer, text = Prefixes(()).split("[default2]:boom")
    assert (writer.rank, writer.local, text) == (None, 2, "boom")


def test_only_the_process_itself_is_sure_to_number_ranks():
    own, _ = Prefixes(()).split("[rank2]: boom")
    viewers, _ = Prefixes(()).split("(worker1, rank=1, pid=4711) boom")
    assert own.own and not viewers.own and viewers.role is None


def test_a_described_pod_names_the_writer_of_what_follows():
    writer = heading("Name:           job-1535595694-chief-0")
    assert writer is not None and (writer.rank, writer.role) == (0, "chief")
    assert heading("Name: nvidia-driver-0") is None
