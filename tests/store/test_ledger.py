# SPDX-License-Identifier: Apache-2.0
"""What the ledger says of a checkpoint after each kind of damage."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from keepstep.check.checkpoints import named, report_on
from keepstep.errors import UserError
from keepstep.store.ledger import manifest
from keepstep.store.ledger.checkpoint_files import INSIDE, checkpoints_in, parts_of
from keepstep.store.ledger.file_sums import BLOCK, CRC, PARITIES, sums_of
from keepstep.store.ledger.manifest import FOLDER_KIND, Manifest
from keepstep.store.ledger.states import State
from keepstep.store.ledger.verify import latest_good, verify


def record(
    path: Path,
    *,
    step: int = 7,
    rank: int = 0,
    world: int = 1,
    number: int = 1,
    names: tuple[str, ...] = (),
    kind: str = "torch",
    attempt: int = 0,
    by: str = CRC,
) -> None:
    """As the guard does; ``by``: as it does where the training has loaded NumPy, or not."""
    base = path if path.is_dir() else path.parent
    files = [base / name for name in names] if names else list(parts_of(path))
    sums = {}
    for each in files:
        with each.open("rb") as stream:
            sums[each.relative_to(base).as_posix()] = sums_of(stream.fileno(), by=by, imports=True)
    made = Manifest(
        folder=str(base), files=sums, kind=kind, writer="torch 2", step=step, rank=rank, world=world, number=number,
        together=bool(names) and kind != FOLDER_KIND, made=time.time(), attempt=attempt,
    )  # fmt: skip
    manifest.write(path, made)


def test_a_path_from_within_the_folder_is_found_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "out" / "step_1.pt"
    saved.parent.mkdir()
    saved.write_bytes(b"weights")
    record(saved)
    monkeypatch.chdir(saved.parent)
    verdict = verify(Path("step_1.pt"))
    assert (verdict.state, verdict.path) == (State.VERIFIED, Path("step_1.pt"))


def flip(path: Path, at: int, *, restore_time: bool = True) -> None:
    info = path.stat()
    with path.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 0x10]))
    if restore_time:
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    else:
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns + 1_000_000_000))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """One recorded file in a folder of checkpoints."""
    path = tmp_path / "ckpt" / "last.bin"
    path.parent.mkdir()
    path.write_bytes(os.urandom(100_000))
    record(path)
    return path


def test_what_was_saved_is_verified_and_nothing_lies_beside_it(saved: Path) -> None:
    verdict = verify(saved)
    assert (verdict.state, verdict.step, verdict.writer, verdict.files) == (State.VERIFIED, 7, "torch 2", 1)
    assert [each.name for each in saved.parent.iterdir()] == ["last.bin"], "a script that lists it finds only its own"


def test_a_flipped_bit_with_the_time_put_back_is_damage_and_its_place_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ckpt" / "big.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(BLOCK * 2 + 5))
    record(path)
    flip(path, BLOCK + 3)
    verdict = verify(path)
    assert verdict.state is State.DAMAGED
    assert verdict.why == f"at least one byte from {BLOCK:,} to {BLOCK * 2:,} differs"


def test_a_file_that_was_written_again_is_changed_not_damaged(saved: Path) -> None:
    flip(saved, 5, restore_time=False)
    assert verify(saved).state is State.CHANGED


@pytest.mark.parametrize("size", [300, 200_000], ids=["smaller", "larger"])
def test_a_later_save_that_a_kill_left_without_record_is_no_damage(saved: Path, size: int) -> None:
    beside = saved.with_name("new.pt")
    manifest.begin(beside)
    beside.write_bytes(bytes(size))
    manifest.end(beside)
    inode = beside.stat().st_ino
    os.utime(beside, (1, 1))
    os.replace(beside, saved)
    assert verify(saved, recorded_only=True).state is State.UNRECORDED
    manifest.awaits_no_more(beside, inode)
    assert verify(saved, recorded_only=True).state in (State.CHANGED, State.DAMAGED)


def test_a_save_that_never_ended_is_incomplete(saved: Path) -> None:
    manifest.begin(saved)
    assert verify(saved).state is State.VERIFIED, "the save had not touched the file yet"
    flip(saved, 5, restore_time=False)
    assert verify(saved).state is State.INCOMPLETE
    manifest.end(saved)
    assert verify(saved).state is State.UNRECORDED


@pytest.mark.parametrize(
    ("break_it", "state"),
    [
        (lambda path: os.truncate(path, 10), State.DAMAGED),
        (lambda path: path.rename(path.with_name("best.bin")), State.VERIFIED),
        (lambda path: shutil.copytree(path.parent.parent, path.parent.parent.with_name("copy")), State.VERIFIED),
    ],
)
def test_cut_off_renamed_and_copied(saved: Path, break_it: Callable[[Path], object], state: State) -> None:
    result = break_it(saved)
    path = saved if saved.exists() else saved.with_name("best.bin")
    path = Path(result) / "ckpt" / "last.bin" if isinstance(result, str | Path) and Path(result).is_dir() else path
    assert verify(path).state is state


def copied(folder: Path) -> Path:
    """Without the times of its files."""
    return Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-copy"), copy_function=shutil.copyfile))


def test_a_copy_that_differs_is_changed_since_a_run_may_have_gone_on_in_it(saved: Path) -> None:
    copy = copied(saved.parent.parent) / "ckpt" / "last.bin"
    assert verify(copy).state is State.VERIFIED
    flip(copy, 9, restore_time=False)
    assert verify(copy).state is State.CHANGED


@pytest.mark.parametrize("size", [1_000, 8_200, 30_000, 60_000, BLOCK + 5])
def test_a_flipped_byte_is_damage_even_under_a_new_time_since_no_later_save_leaves_all_the_rest(
    tmp_path: Path, size: int
) -> None:
    pytest.importorskip("numpy")
    path = tmp_path / "ckpt" / "step_2.safetensors.bin"
    path.parent.mkdir()
    old = path.with_name("step_1.safetensors.bin")
    for each in (old, path):
        each.write_bytes(os.urandom(size))
        record(each, by=PARITIES)
    copy = copied(path.parent.parent) / "ckpt"
    assert latest_good(copy) == copy / path.name, "the same bytes under another time are good"
    flip(copy / path.name, size // 2, restore_time=False)
    verdict = verify(copy / path.name)
    assert verdict.state is State.DAMAGED
    assert "differs, and nearly all the rest is what was saved" in verdict.why
    assert latest_good(copy) == copy / old.name
    (copy / path.name).write_bytes(os.urandom(size))
    assert verify(copy / path.name).state is State.CHANGED, "a later save"
    assert latest_good(copy) == copy / old.name


def test_an_archive_that_shows_to_be_whole_was_saved_again_however_little_differs(saved: Path) -> None:
    pytest.importorskip("numpy")
    path, content = saved.with_name("last.pt"), bytearray(os.urandom(100_000))
    archive(path, bytes(content))
    record(path, by=PARITIES)
    content[50_000] ^= 1
    archive(path, bytes(content))
    os.utime(path, (1, 1))
    assert verify(path).state is State.CHANGED


def archive(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("data", content)


def test_a_later_save_without_the_guard_is_no_damage_and_the_sums_of_an_archive_show_which_it_is(saved: Path) -> None:
    path = saved.with_name("last.pt")
    archive(path, os.urandom(5_000))
    record(path)
    for size in (5_000, 1_000, 9_000):
        archive(path, os.urandom(size))
        assert verify(path).state is State.CHANGED, size
    flip(path, 4_000, restore_time=False)
    assert verify(path).state is State.DAMAGED
    os.truncate(path, 2_000)
    assert verify(path).state is State.DAMAGED


def test_a_save_that_was_killed_is_forgotten_once_a_run_without_the_guard_has_saved_again(saved: Path) -> None:
    path = saved.with_name("last.pt")
    manifest.begin(path)
    path.write_bytes(b"half")
    assert verify(path).state is State.INCOMPLETE
    archive(path, b"whole")
    assert verify(path).state is State.UNRECORDED


def test_links_to_a_checkpoint_or_to_its_folder_lead_to_its_record(saved: Path) -> None:
    (saved.parent / "newest.bin").symlink_to("last.bin")
    (saved.parents[1] / "linked").symlink_to("ckpt")
    flip(saved, 9, restore_time=False)
    for path in (saved.parent / "newest.bin", saved.parents[1] / "linked" / "last.bin"):
        assert verify(path).state is State.CHANGED, path


def test_the_newest_of_copies_is_the_one_that_was_saved_last(tmp_path: Path) -> None:
    ckpt = tmp_path / "run" / "ckpt"
    ckpt.mkdir(parents=True)
    for step in (1, 2, 3):
        (ckpt / f"step_{step}.bin").write_bytes(os.urandom(100))
        record(ckpt / f"step_{step}.bin", step=step)
    copy = copied(ckpt.parent) / "ckpt"
    os.utime(copy / "step_3.bin", (1, 1))  # it was copied first
    assert latest_good(copy) == copy / "step_3.bin"
    assert [each.name for each in named([str(copy)])] == ["step_1.bin", "step_2.bin", "step_3.bin"]


def test_a_folder_that_a_killed_save_left_empty_is_incomplete_and_not_the_latest_good(tmp_path: Path) -> None:
    (tmp_path / "step_1.bin").write_bytes(b"weights")
    (tmp_path / "step_2").mkdir()
    (verdict,) = (verify(each) for each in named([str(tmp_path)]) if each.is_dir())
    assert (verdict.state, verdict.why) == (State.INCOMPLETE, "the folder is empty")
    assert latest_good(tmp_path) == tmp_path / "step_1.bin"
    os.utime(tmp_path / "step_2", (1, 1))
    assert latest_good(tmp_path) == tmp_path / "step_1.bin"


def test_a_file_in_a_checkpoint_folder_that_was_renamed_has_its_record(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "checkpoint-200"
    folder.mkdir(parents=True)
    (folder / "optimizer.bin").write_bytes(bytes(500))
    record(folder / "optimizer.bin")
    best = folder.rename(folder.with_name("best"))
    flip(best / "optimizer.bin", 9)
    assert verify(best / "optimizer.bin").state is State.DAMAGED


def test_a_folder_that_is_called_by_the_number_of_a_run_holds_checkpoints_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "17"
    folder.mkdir(parents=True)
    for step in (1, 2, 3):
        (folder / f"step_{step}.bin").write_bytes(os.urandom(100))
        record(folder / f"step_{step}.bin", step=step)
    (folder / "step_1.bin").unlink()  # it keeps the newest two
    assert [(each.name, verify(each).state) for each in named([str(folder)])] == [
        ("step_2.bin", State.VERIFIED), ("step_3.bin", State.VERIFIED),
    ]  # fmt: skip


class TestFoldersWithRecordsInSubfolders:
    """As a trainer leaves them whose model is in shards."""

    @pytest.fixture
    def two(self, tmp_path: Path) -> tuple[Path, Path]:
        folders = []
        for step in (100, 200):
            folder = tmp_path / "out" / f"checkpoint-{step}"
            for name in ("model_0", "optimizer_0"):
                (folder / name).mkdir(parents=True)
                for rank in range(2):
                    (folder / name / f"__{rank}_0.distcp").write_bytes(os.urandom(1000))
                    record(folder / name, step=step, rank=rank, world=2, names=(f"__{rank}_0.distcp",))
            (folder / "trainer_state.json").write_text("{}")
            record(folder, step=step, names=("trainer_state.json",), kind=FOLDER_KIND)
            folders.append(folder)
        return folders[0], folders[1]

    def test_all_of_it_is_compared(self, two: tuple[Path, Path]) -> None:
        verdict = verify(two[1])
        assert (verdict.state, verdict.files, verdict.unrecorded) == (State.VERIFIED, 5, 0)
        assert checkpoints_in(two[1].parent) == list(two)
        flip(two[1] / "optimizer_0" / "__1_0.distcp", 10)
        assert verify(two[1]).state is State.DAMAGED
        assert verify(two[1]).why.startswith("optimizer_0/__1_0.distcp: ")

    def test_a_folder_of_the_same_step_is_a_part_of_it(self, two: tuple[Path, Path]) -> None:
        (two[1] / "model_0").rename(two[1] / "global_step200")
        assert named([str(two[1].parent)]) == list(two)
        assert verify(two[1]).files == 5

    def test_a_model_beside_them_makes_them_no_parts_of_it(self, two: tuple[Path, Path]) -> None:
        (two[0].parent / "model.safetensors.index.json").write_text("{}")
        assert named([str(two[0].parent)]) == list(two)

    def test_what_is_missing_or_of_another_step_is_said(self, two: tuple[Path, Path]) -> None:
        old, new = two
        (new / "model_0" / "__1_0.distcp").unlink()
        assert verify(new).why == "model_0: __1_0.distcp is missing"
        shutil.rmtree(new / "model_0")
        assert (verify(new).state, verify(new).why) == (State.PARTIAL, "it has no model_0, and checkpoint-100 has one")
        shutil.copytree(old / "model_0", new / "model_0")
        assert verify(new).state is State.PARTIAL
        assert verify(new).why == "model_0/__0_0.distcp is of step 100, and the rest of step 200"


class TestFoldersOfSeveralRanks:
    @pytest.fixture
    def shards(self, tmp_path: Path) -> Path:
        folder = tmp_path / "out" / "step_30"
        folder.mkdir(parents=True)
        (folder / ".metadata").write_bytes(b"meta")
        for rank in range(2):
            (folder / f"__{rank}_0.distcp").write_bytes(os.urandom(1000))
        record(folder, world=2, names=(".metadata", "__0_0.distcp"))
        record(folder, rank=1, world=2, names=("__1_0.distcp",))
        return folder

    def test_whole(self, shards: Path) -> None:
        assert verify(shards).state is State.VERIFIED
        assert checkpoints_in(shards.parent) == [shards]

    def test_the_record_goes_with_a_folder_that_is_moved(self, shards: Path) -> None:
        assert verify(shards.rename(shards.with_name("best"))).state is State.VERIFIED

    def test_a_rank_that_did_not_finish_is_named(self, shards: Path) -> None:
        (shards / f"{INSIDE}rank-1.json").unlink()
        verdict = verify(shards)
        assert verdict.state is State.INCOMPLETE
        assert verdict.why == "rank 1 of 2 did not finish its part of it"

    def test_a_rank_that_ended_before_it_could_record_its_part_did_finish_it(self, shards: Path) -> None:
        mine = shards / f"{INSIDE}rank-1.json"
        ended = shards / f"{INSIDE}rank-1.ended"
        mine.rename(ended)
        verdict = verify(shards)
        assert (verdict.state, verdict.files, verdict.unrecorded) == (State.UNRECORDED, 2, 1)
        record(shards, world=2, number=2, names=(".metadata", "__0_0.distcp"))
        assert verify(shards).why == "rank 1 of 2 did not finish its part of it", "that was another save"
        record(shards, rank=1, world=2, number=2, names=("__1_0.distcp",))
        assert verify(shards).state is State.VERIFIED
        assert not ended.exists()

    def test_parts_of_two_saves_are_a_mixture(self, shards: Path) -> None:
        record(shards, world=2, step=40, number=2, names=(".metadata", "__0_0.distcp"))
        verdict = verify(shards)
        assert verdict.state is State.INCOMPLETE
        assert verdict.why == "it is a mixture: rank 0's part is of step 40, rank 1's of step 7"
        record(shards, world=2, number=2, names=(".metadata", "__0_0.distcp"))
        assert verify(shards).why == "it is a mixture: rank 0's part is of save 2, rank 1's of save 1"

    def test_parts_of_two_worlds_are_a_mixture(self, shards: Path) -> None:
        record(shards, rank=1, world=4, names=("__1_0.distcp",))
        verdict = verify(shards)
        assert verdict.state is State.INCOMPLETE
        assert verdict.why == "it is a mixture: rank 0's part was saved by 2 ranks, rank 1's by 4"

    def test_parts_of_two_attempts_are_a_mixture_though_both_count_from_one(self, shards: Path) -> None:
        record(shards, world=2, step=9, attempt=1, names=(".metadata", "__0_0.distcp"))
        assert verify(shards).why == "it is a mixture: rank 0's part is of step 9, rank 1's of step 7"

    def test_a_missing_shard_is_named(self, shards: Path) -> None:
        (shards / "__1_0.distcp").unlink()
        assert verify(shards).why == "__1_0.distcp is missing"

    def test_shards_that_a_larger_world_left_behind_do_no_harm(self, shards: Path) -> None:
        (shards / "__2_0.distcp").write_bytes(b"old")
        record(shards, rank=2, world=3, number=1, names=("__2_0.distcp",))
        record(shards, world=2, number=2, names=(".metadata", "__0_0.distcp"))
        record(shards, rank=1, world=2, number=2, names=("__1_0.distcp",))
        assert verify(shards).state is State.VERIFIED


def test_without_a_record_the_format_speaks(tmp_path: Path) -> None:
    folder = tmp_path / "step_9"
    folder.mkdir()
    (folder / "__0_0.distcp").write_bytes(b"x")
    assert (verify(folder).state, verify(folder).why) == (
        State.DAMAGED,
        ".metadata is missing: the save was not finished",
    )
    cut = tmp_path / "model.safetensors"
    cut.write_bytes((60).to_bytes(8, "little") + b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}     '[:60])
    assert verify(cut).state is State.DAMAGED
    plain = tmp_path / "weights.bin"
    plain.write_bytes(b"anything")
    assert verify(plain).state is State.UNRECORDED


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (819_987, None),
        (819_986, "ckpt-405.data-00000-of-00001 has 819,986 of 819,987 bytes"),
        (None, "ckpt-405.data-00000-of-00001 is missing"),
    ],
)
def test_the_index_of_tensorflow_s_checkpoint_tells_what_its_data_lacks(
    tmp_path: Path, size: int | None, why: str | None
) -> None:
    index = tmp_path / "ckpt-405.index"  # as TensorFlow 2.21 wrote it
    index.write_bytes((Path(__file__).parents[1] / "data" / "tensor_bundle" / index.name).read_bytes())
    if size is not None:
        (tmp_path / "ckpt-405.data-00000-of-00001").write_bytes(bytes(size))
    verdict = verify(tmp_path / "ckpt-405")
    assert verdict.state is (State.UNRECORDED if why is None else State.DAMAGED)
    assert verdict.why == ("" if why is None else f"{index.name}: {why}")
    assert latest_good(tmp_path) == (tmp_path / "ckpt-405" if why is None else None)
    index.write_bytes(index.read_bytes()[:-60])
    assert verify(tmp_path / "ckpt-405").state is (State.UNRECORDED if size is None else State.DAMAGED)


def test_the_latest_good_one_skips_the_bad_ones(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for step in (1, 2, 3):
        path = folder / f"step_{step}.bin"
        path.write_bytes(bytes([step]) * 1000)
        os.utime(path, (step, step))
        record(path, step=step)
    assert latest_good(folder) == folder / "step_3.bin"
    flip(folder / "step_3.bin", 3)
    assert latest_good(folder) == folder / "step_2.bin"
    for step in (1, 2):
        flip(folder / f"step_{step}.bin", 3)
    assert latest_good(folder) is None


def test_a_changed_one_alone_is_taken_if_its_own_sums_are_right_and_else_named_never_passed_over_silently(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved.parent
    saved.write_bytes(os.urandom(200_000))
    assert verify(saved).state is State.CHANGED
    assert latest_good(folder) is None
    said = capsys.readouterr().err
    assert said.startswith(f"keepstep: latest_good finds no good checkpoint in {folder}: {saved.name} was changed (")
    assert said.count("\n") == 1 and "load it by its path" in said
    path = saved.with_name("last.pt")
    archive(path, os.urandom(5_000))
    record(path)
    assert latest_good(folder) == path
    assert capsys.readouterr().err == ""
    archive(path, os.urandom(5_000))
    assert verify(path).state is State.CHANGED
    assert latest_good(folder) == path
    assert f"takes {path}, written again after it was recorded, since its own sums are right" in capsys.readouterr().err
    flip(path, 4_000, restore_time=False)
    assert verify(path).state is State.DAMAGED
    assert latest_good(folder) is None
    assert "last.pt is damaged (" in (said := capsys.readouterr().err) and f"{saved.name} was changed (" in said


def test_the_line_says_what_was_passed_over_for_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for step in range(1, 7):
        path = folder / f"step_{step}.bin"
        path.write_bytes(bytes([step]) * 1000)
        os.utime(path, (step, step))
        record(path, step=step)
    for step in range(2, 7):
        flip(folder / f"step_{step}.bin", 3)
    assert latest_good(folder) == folder / "step_1.bin"
    said = capsys.readouterr().err
    assert said.startswith(f"keepstep: latest_good takes step_1.bin in {folder}, because step_6.bin is damaged (")
    assert said.endswith(", and 2 more checkpoints\n")


def test_what_was_saved_with_suspect_numbers_is_never_the_latest_good_one(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for step in (1, 2, 3):
        path = folder / f"step_{step}.bin"
        path.write_bytes(bytes([step]) * 1000)
        os.utime(path, (step, step))
        record(path, step=step)
    (made,) = manifest.manifests(folder / "step_3.bin")
    manifest.suspect(folder / "step_3.bin", made, "rank 1 holds other numbers")
    found = verify(folder / "step_3.bin")
    assert (found.state, found.words) == (State.SUSPECT, "rank 1 holds other numbers")
    assert found.state.is_bad
    assert latest_good(folder) == folder / "step_2.bin"
    (folder / "step_3.bin").rename(folder / "step_9.bin")
    assert verify(folder / "step_9.bin").state is State.SUSPECT
    record(folder / "step_9.bin", step=9)
    assert verify(folder / "step_9.bin").state is State.VERIFIED  # saved anew


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"keepstep_ledger": 1, "files": {"a": [1]}}', b"\xff" * 100])
def test_a_damaged_record_is_no_record(saved: Path, text: bytes) -> None:
    (there,) = (saved.parent.parent / ".keepstep").rglob("*.json")
    there.write_bytes(text)
    assert verify(saved).state is State.UNRECORDED


def test_every_state_is_told_in_words() -> None:
    assert len({each.word for each in State}) == len({each.words for each in State}) == len(State)
    assert not any(each.is_good and each.is_bad for each in State)


def test_a_new_file_with_the_inode_of_a_deleted_one_is_not_taken_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    (folder / "step_1.bin").write_bytes(bytes(1000))
    record(folder / "step_1.bin")
    (there,) = (tmp_path / ".keepstep").rglob("*.json")
    (folder / "step_1.bin").unlink()
    new = folder / "step_2.bin"
    new.write_bytes(bytes([1]) * 1000)
    written = there.read_text().split("[", 1)
    size, modified, device, _, rest = written[1].split(", ", 4)
    there.write_text(f"{written[0]}[{size}, {modified}, {device}, {new.stat().st_ino}, {rest}")
    os.utime(new, ns=(1, int(modified) + 1))
    assert verify(new).state is State.UNRECORDED


def test_records_of_deleted_files_are_removed_when_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "MOST_RECORDS", 2)
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for step in range(6):
        (folder / f"step_{step}.bin").write_bytes(os.urandom(100))
        record(folder / f"step_{step}.bin", step=step)
        if step == 1:
            (folder / "step_1.bin").rename(folder / "best.bin")
        elif step >= 2:
            (folder / f"step_{step - 2}.bin").unlink(missing_ok=True)
    names = {each.name for each in (tmp_path / ".keepstep").rglob("*.json")}
    kept = {f"step_{step}.bin.json" for step in (1, 3, 4, 5)}
    assert names == kept, "best.bin was step_1.bin, and step_3.bin was there at the last save"
    assert verify(folder / "best.bin").state is State.VERIFIED


class TestFolderOfATrainer:
    """Some files are recorded, and the script wrote some by itself."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "out" / "checkpoint-20"
        folder.mkdir(parents=True)
        for name in ("model.bin", "optimizer.bin", "scheduler.bin"):
            (folder / name).write_bytes(os.urandom(100))
            record(folder / name)
        (folder / "trainer_state.json").write_text('{"step": 20}')
        (folder / "config.json").write_text("{}")
        return folder

    def test_it_is_not_called_as_saved(self, folder: Path) -> None:
        verdict = verify(folder)
        assert (verdict.state, verdict.files, verdict.unrecorded) == (State.UNRECORDED, 3, 2)
        report = report_on([verdict])
        (entry,) = report.coverage
        assert entry.why == verdict.why == "2 of its 5 files have no record: only their format was checked"
        assert report.exit_status == 3
        assert latest_good(folder.parent) == folder

    def test_code_that_a_trainer_adds_needs_no_record(self, folder: Path) -> None:
        record(folder, kind=FOLDER_KIND, names=("trainer_state.json", "config.json"))
        (folder / "zero_to_fp32.py").write_text("pass")
        assert (verify(folder).state, verify(folder).unrecorded) == (State.VERIFIED, 1)

    def test_what_the_trainer_wrote_by_itself_is_recorded_at_the_end(self, folder: Path) -> None:
        record(folder, kind=FOLDER_KIND, names=("trainer_state.json", "config.json"))
        verdict = verify(folder)
        assert (verdict.state, verdict.files, verdict.unrecorded) == (State.VERIFIED, 5, 0)
        assert report_on([verdict]).exit_status == 0
        flip(folder / "config.json", 0)
        assert verify(folder).state is State.DAMAGED

    def test_a_later_save_that_did_not_come_to_its_end(self, folder: Path) -> None:
        record(folder, kind=FOLDER_KIND, names=("trainer_state.json", "config.json"))
        (folder / "model.bin").write_bytes(os.urandom(100))
        record(folder / "model.bin")
        verdict = verify(folder)
        assert (verdict.state, verdict.why) == (State.PARTIAL, "model.bin was saved again later, and the rest was not")

    def test_records_of_its_files_count_though_they_lie_beside_it(self, folder: Path) -> None:
        other = folder.with_name("best")
        other.mkdir()
        (other / "meta.pt").write_bytes(os.urandom(100))
        record(other / "meta.pt")
        (other / "config.json").write_text("{}")
        record(other, kind=FOLDER_KIND, names=("config.json",))
        assert (verify(other).state, verify(other).files, verify(other).unrecorded) == (State.VERIFIED, 2, 0)

    def test_and_checked_by_its_format(self, folder: Path) -> None:
        (folder / "trainer_state.json").write_text('{"step": 2')
        verdict = verify(folder)
        assert verdict.state is State.DAMAGED
        assert verdict.why.startswith("trainer_state.json: ")

    def test_a_save_that_was_killed_between_two_files(self, folder: Path) -> None:
        later = folder.with_name("checkpoint-40")
        later.mkdir()
        (later / "model.bin").write_bytes(os.urandom(100))
        record(later / "model.bin")
        verdict = verify(later)
        assert (verdict.state, verdict.why) == (State.PARTIAL, "it has no optimizer.bin, and checkpoint-20 has one")
        assert latest_good(folder.parent) == folder

    @pytest.mark.parametrize(("world", "state"), [(2, State.PARTIAL), (1, State.VERIFIED)])
    def test_a_rank_whose_file_is_missing_beside_the_one_before(self, tmp_path: Path, world: int, state: State) -> None:
        for step, ranks in ((1, 2), (2, 1)):
            for rank in range(ranks):
                one = tmp_path / f"step_{step}" / f"rank{rank}.pt"
                one.parent.mkdir(exist_ok=True)
                one.write_bytes(os.urandom(100))
                record(one, rank=rank, world=2 if step == 1 else world)
        verdict = verify(tmp_path / "step_2", recorded_only=False)
        assert verdict.state is state
        assert verdict.why == ("it has no rank1.pt, and step_1 has one" if world == 2 else "")

    def test_a_folder_that_was_saved_as_a_whole_may_have_other_names(self, tmp_path: Path) -> None:
        for step in (1, 2):
            whole = tmp_path / f"step_{step}"
            whole.mkdir()
            for name in ("manifest", f"{'ab'[step - 1]}f3e"):
                (whole / name).write_bytes(os.urandom(10))
            record(whole)
        assert verify(tmp_path / "step_2").state is State.VERIFIED

    def test_a_shard_that_is_missing_by_the_names_of_the_others(self, folder: Path) -> None:
        (folder / "model-00001-of-00002.bin").write_bytes(b"x")
        record(folder / "model-00001-of-00002.bin")
        assert verify(folder).why == "1 of the 2 parts of model are there"

    def test_a_save_that_was_begun_inside(self, folder: Path) -> None:
        manifest.begin(folder / "model.bin")
        assert verify(folder).state is State.INCOMPLETE

    def test_of_several_ranks_each_looks_at_its_share(self, folder: Path) -> None:
        flip(folder / "optimizer.bin", 3)
        states = [verify(folder, recorded_only=True, share=(rank, 3)).state for rank in range(3)]
        assert [each for each in states if not each.is_good] == [State.DAMAGED]


def test_what_cannot_be_read_is_neither_good_nor_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ckpt" / "a.pt"
    path.parent.mkdir()
    path.write_bytes(b"PK")

    def denied(path: Path, magic: bytes) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("keepstep.store.ledger.format_check._begins", denied)
    assert (verify(path).state, verify(path).why) == (State.UNREADABLE, "Permission denied")
    assert latest_good(path.parent) is None
    assert report_on([verify(path)]).exit_status == 3


def test_a_text_is_said_to_have_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert verify(tmp_path / "notes.txt").why.endswith("its format is not known")


def test_the_latest_good_of_no_folder_is_none_and_of_an_object_store_an_error(tmp_path: Path) -> None:
    assert latest_good(tmp_path / "not-yet") is None
    for store in ("gs://bucket/ckpt", Path("s3://bucket/ckpt")):
        with pytest.raises(UserError, match="object store"):
            latest_good(store)
    (tmp_path / "step_1.bin").write_bytes(b"weights")
    assert latest_good(f"file://{tmp_path}") == tmp_path / "step_1.bin"


def test_the_record_of_a_deleted_checkpoint_goes_and_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    kept, deleted = folder / "a.pt", folder / "b.pt"
    for path in (kept, deleted):
        path.write_bytes(b"weights")
        record(path)
    (made,), (other,) = manifest.manifests(deleted), manifest.manifests(kept)
    deleted.unlink()
    manifest.forget_deleted(deleted, made)
    manifest.forget_deleted(kept, other)
    assert [each.name for each in tmp_path.glob(".keepstep/ledger/backup/*")] == ["a.pt.json"]
    shutil.rmtree(folder)
    manifest.forget_deleted(kept, other)
    assert not (tmp_path / ".keepstep").exists()


@pytest.mark.parametrize("name", ["missing/of.pt", "missing/folder/of.pt", "checkpoint-20/of.pt"])
def test_no_folder_is_made_for_a_save_into_one_that_is_missing(tmp_path: Path, name: str) -> None:
    with contextlib.suppress(OSError):
        manifest.begin(tmp_path / name)
    assert {each.name for each in tmp_path.iterdir()} <= {".keepstep"}
