# SPDX-License-Identifier: Apache-2.0
"""Remedies: what is offered for a report on this host, and what applying one changes."""

from __future__ import annotations

import json
import os
import resource
import struct
import zipfile
from pathlib import Path

import pytest

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import InterfaceMissing
from keepstep.model.facts.resource import DeviceMemoryExhausted, LimitReached
from keepstep.model.facts.training import CheckpointDamaged, CheckpointUnreadable
from keepstep.model.finding import Confidence, Finding, Safety, Severity, Standing
from keepstep.model.report import Report, Verdict
from keepstep.parse.formats.tensor_bundle import bytes_of_shards
from keepstep.store.ledger.file_sums import sums_of
from keepstep.store.ledger.manifest import Manifest, write
from keepstep.supervise.decide import remedy
from keepstep.supervise.decide.older_checkpoint import older_than, set_aside


def report(cause: Cause, fact: Fact, quote: str = "", confidence: Confidence = Confidence.ESTABLISHED) -> Report:
    evidence = (Evidence(fact=fact, origin=Origin(source="rank0.log", line=3), quote=quote),)
    finding = Finding(
        rule="X001",
        cause=cause,
        title="it broke",
        because="it was seen",
        evidence=evidence,
        ranks=(0,),
        confidence=confidence,
        severity=Severity.FATAL,
        standing=Standing.MECHANISM,
    )
    return Report(verdict=Verdict.FAILED, findings=(finding,))


def archive(path: Path, whole: bool = True) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("data.pkl", os.urandom(4096))
    if not whole:
        path.write_bytes(path.read_bytes()[:1000])
    return path


def test_a_limit_is_raised_as_far_as_the_host_allows(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = min(256, soft)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lower, hard))
    try:
        found = remedy.offered(
            report(Cause.RESOURCE_FD_OR_PROCESS_LIMIT, LimitReached(limit="open files")), {}, tmp_path
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each.safety for each in found] == [Safety.SAFE]
    ((name, value),) = found[0].limits
    assert name == "RLIMIT_NOFILE" and value > lower
    assert f"from {lower} to {value}" in found[0].does


def test_the_interface_that_routes_is_pinned(tmp_path: Path) -> None:
    wrong = report(Cause.NETWORK_WRONG_INTERFACE, InterfaceMissing(name="eth9"))
    env = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "eth9"}
    (found,) = remedy.offered(wrong, env, tmp_path)
    assert dict(found.variables)["GLOO_SOCKET_IFNAME"] == remedy.routing_interface("127.0.0.1") == "lo"
    assert found.safety is Safety.SAFE and not found.advice_only
    assert remedy.offered(wrong, {**env, **dict(found.variables)}, tmp_path) == ()


@pytest.mark.parametrize("cause", [Cause.NETWORK_RDMA_IB, Cause.HARDWARE_NVLINK_PCIE_P2P])
def test_nccl_takes_a_slower_way_only_if_asked_for_and_only_once(cause: Cause, tmp_path: Path) -> None:
    (found,) = remedy.offered(report(cause, InterfaceMissing()), {}, tmp_path)
    assert found.safety is Safety.NEEDS_OWNER and "slower" in found.does
    assert remedy.offered(report(cause, InterfaceMissing()), dict(found.variables), tmp_path) == ()


def test_the_allocator_is_not_changed_unless_asked_for(tmp_path: Path) -> None:
    full = report(Cause.RESOURCE_GPU_OOM, DeviceMemoryExhausted(), "torch.OutOfMemoryError: CUDA out of memory")
    (found,) = remedy.offered(full, {}, tmp_path)
    assert found.safety is not Safety.SAFE
    assert remedy.offered(full, {"PYTORCH_CUDA_ALLOC_CONF": "x"}, tmp_path) == ()


def test_a_guess_or_an_unknown_cause_offers_nothing(tmp_path: Path) -> None:
    guess = report(
        Cause.RESOURCE_FD_OR_PROCESS_LIMIT, LimitReached(limit="open files"), confidence=Confidence.HYPOTHESIS
    )
    assert remedy.offered(guess, {}, tmp_path) == ()
    assert remedy.offered(report(Cause.USER_CODE_EXCEPTION, LimitReached(limit="x")), {}, tmp_path) == ()
    assert remedy.offered(Report(verdict=Verdict.UNKNOWN), {}, tmp_path) == ()


def test_a_damaged_checkpoint_goes_aside_and_the_one_before_is_the_newest(tmp_path: Path) -> None:
    folder = tmp_path / "ckpts"
    folder.mkdir()
    archive(folder / "model_20.pt")
    archive(folder / "model_40.pt")
    bad = archive(folder / "model_60.pt", whole=False)
    unreadable = report(Cause.CHECKPOINT_CORRUPT_OR_MISSING, CheckpointUnreadable(path="ckpts/model_60.pt"))
    (found,) = remedy.offered(unreadable, {}, tmp_path)
    assert "checkpoint model_60.pt to" in found.does and "model_40.pt" in found.does
    assert bad.exists()  # offering changes nothing
    assert "newest checkpoint is now model_40.pt" in remedy.apply(found)
    assert sorted(each.name for each in folder.iterdir()) == ["model_20.pt", "model_40.pt"]
    assert (tmp_path / "ckpts.aside" / "model_60.pt").exists()


def test_the_file_that_the_script_named_is_meant_where_its_reader_names_none(tmp_path: Path) -> None:
    archive(tmp_path / "m-1.pt")
    archive(tmp_path / "m-2.pt", whole=False)
    unreadable = report(
        Cause.CHECKPOINT_CORRUPT_OR_MISSING, CheckpointUnreadable(why="failed finding central directory")
    )
    assert remedy.offered(unreadable, {}, tmp_path) == ()
    assert (
        remedy.offered(unreadable, {}, tmp_path, restored_from=("absent.pt", "m-1.pt")) == ()
    )  # whole: something else is meant
    (found,) = remedy.offered(unreadable, {}, tmp_path, restored_from=("absent.pt", "m-2.pt", "m-1.pt"))
    assert found.older is not None and found.older.instead == "m-1.pt"


def test_only_an_older_checkpoint_that_is_whole_is_gone_back_to(tmp_path: Path) -> None:
    archive(tmp_path / "c-1.pt")
    archive(tmp_path / "c-2.pt", whole=False)
    bad = archive(tmp_path / "c-3.pt", whole=False)
    found = older_than(bad)
    assert found is not None and found.instead == "c-1.pt"
    assert [each.name for each in found.damaged] == ["c-3.pt", "c-2.pt"]  # the script would resume from it next
    (tmp_path / "c-1.pt").unlink()
    assert older_than(bad) is None


def test_all_suspect_checkpoints_before_it_move_aside_too(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for number in (1, 2, 3):
        path = archive(folder / f"c-{number}.pt")
        with path.open("rb") as stream:
            sums = {path.name: sums_of(stream.fileno())}
        made = Manifest(
            folder=str(folder), files=sums, kind="torch", writer="torch 2", step=number, rank=0, world=1, number=number,
            together=False, made=float(number), suspect="rank 1 holds other numbers" if number > 1 else "",
        )  # fmt: skip
        write(path, made)
    (found,) = remedy.offered(
        report(Cause.SYNC_REPLICA_DESYNC, CheckpointUnreadable()), {}, tmp_path, saved_in=("ckpt",)
    )
    assert found.older is not None and found.older.instead == "c-1.pt"
    set_aside(found.older)
    assert [each.name for each in folder.iterdir()] == ["c-1.pt"]


@pytest.mark.parametrize("state", ["suspect", "incomplete", "damaged"])
def test_a_remedy_says_what_the_checkpoint_is(state: str, tmp_path: Path) -> None:
    archive(tmp_path / "m-1.pt")
    archive(tmp_path / "m-2.pt")
    fact = CheckpointDamaged(path="m-2.pt", why="of a reason", state=state)
    (found,) = remedy.offered(report(Cause.CHECKPOINT_CORRUPT_OR_MISSING, fact), {}, tmp_path)
    assert found.does.startswith(f"move the {state} checkpoint m-2.pt to ")


def test_what_cannot_be_told_is_left_alone(tmp_path: Path) -> None:
    assert older_than(tmp_path / "absent-3.pt") is None
    assert older_than(archive(tmp_path / "latest.pt", whole=False)) is None
    for step in (20, 40):
        for rank in (0, 1):
            archive(tmp_path / f"step{step}-rank{rank}.pt")
    assert older_than(tmp_path / "step40-rank1.pt") is None  # which of the numbers is the step?
    archive(tmp_path / "w_1.pt")
    archive(tmp_path / "w_2.pt")
    archive(tmp_path / "w_3.pt")
    assert older_than(tmp_path / "w_2.pt") is None  # not the newest: the script chose it


def test_tensorflows_list_of_checkpoints_names_the_older_one(tmp_path: Path) -> None:
    folder = tmp_path / "tf"
    folder.mkdir()
    index = (Path(__file__).parents[1] / "data" / "tensor_bundle" / "ckpt-405.index").read_bytes()
    for number in (1, 2):
        (folder / f"ckpt-{number}.index").write_bytes(index)
        (folder / f"ckpt-{number}.data-00000-of-00001").write_bytes(bytes(bytes_of_shards(index)[0]))
    listed = folder / "checkpoint"
    listed.write_text(
        'model_checkpoint_path: "ckpt-2"\nall_model_checkpoint_paths: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-2"\n'
    )
    for told in ("ckpt-2", "ckpt-2.index", "ckpt-2.data-00000-of-00001"):
        found = older_than(folder / told)
        assert found is not None and found.instead == "ckpt-1" and len(found.damaged) == 2
    assert found is not None
    set_aside(found)
    assert listed.read_text() == 'model_checkpoint_path: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-1"\n'
    assert sorted(each.name for each in found.place.iterdir()) == [
        "checkpoint",
        "ckpt-2.data-00000-of-00001",
        "ckpt-2.index",
    ]


def test_deepspeeds_latest_names_the_older_one(tmp_path: Path) -> None:
    for step in (2, 4):
        (tmp_path / "out" / f"global_step{step}").mkdir(parents=True)
        archive(tmp_path / "out" / f"global_step{step}" / "model_states.pt", whole=step < 4)
    latest = tmp_path / "out" / "latest"
    latest.write_text("global_step4")
    found = older_than(tmp_path / "out" / "global_step4")
    assert found is not None
    set_aside(found)
    assert latest.read_text() == "global_step2"
    assert (found.place / "latest").read_text() == "global_step4"


def test_a_folder_is_one_checkpoint(tmp_path: Path) -> None:
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    for step in (100, 200):
        place = tmp_path / f"checkpoint-{step}"
        place.mkdir()
        (place / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"\0\0\0\0")
    broken = tmp_path / "checkpoint-200" / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-2])
    found = older_than(broken)
    assert found is not None and found.instead == "checkpoint-100"
    assert found.damaged == (tmp_path / "checkpoint-200",)


def test_a_folder_that_cannot_be_written_is_said_and_nothing_raises(tmp_path: Path) -> None:
    archive(tmp_path / "m1.pt")
    found = older_than(archive(tmp_path / "m2.pt", whole=False))
    assert found is not None
    found.damaged[0].unlink()
    said = remedy.apply(remedy.Remedy(name="x", does="put it aside", older=found))
    assert said.startswith("could not put it aside")
