"""What is kept between starts: believed only when whole, ours and for the same key; never in the way."""

import os
import stat

import pytest

from keepstep.store.user_cache import MOST_OF_A_NAME, Kept, _file, user_folder

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "keepstep"


def the_file(folder, key):
    return folder / _file("literals", key)


def test_what_was_put_is_got(folder):
    Kept(folder).put("literals", "key", b"one\ntwo\0")
    assert Kept(folder).get("literals", "key") == b"one\ntwo\0"
    assert len(list(folder.iterdir())) == 1


def test_the_latest_few_of_a_name_are_kept(folder):
    kept = Kept(folder)
    for number in range(MOST_OF_A_NAME + 2):
        kept.put("literals", f"version {number}", b"body %d" % number)
        os.utime(the_file(folder, f"version {number}"), (number, number))
    kept.put("patterns", "version 0", b"another name")
    got = [kept.get("literals", f"version {number}") for number in range(MOST_OF_A_NAME + 2)]
    assert got == [None, None, *(b"body %d" % number for number in range(2, MOST_OF_A_NAME + 2))]
    assert kept.get("patterns", "version 0") == b"another name"


def test_nothing_is_got_where_nothing_was_put(folder):
    assert Kept(folder).get("literals", "key") is None
    assert Kept(None).get("literals", "key") is None
    Kept(None).put("literals", "key", b"body")


def test_another_key_or_name_gets_nothing(folder):
    Kept(folder).put("literals", "version 1", b"body")
    assert Kept(folder).get("literals", "version 2") is None
    one = the_file(folder, "version 1")
    one.with_name(one.name.replace("literals", "patterns")).write_bytes(one.read_bytes())
    assert Kept(folder).get("patterns", "version 1") is None
    one.with_name(_file("literals", "version 2")).write_bytes(one.read_bytes())
    assert Kept(folder).get("literals", "version 2") is None


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"", lambda b: b.replace(b"body", b"body!"), lambda b: b[1:]],
)
def test_a_damaged_file_gets_nothing(folder, damage):
    Kept(folder).put("literals", "key", b"the body of it")
    path = the_file(folder, "key")
    path.write_bytes(damage(path.read_bytes()))
    assert Kept(folder).get("literals", "key") is None
    Kept(folder).put("literals", "key", b"anew")
    assert Kept(folder).get("literals", "key") == b"anew"


@posix
def test_a_file_that_others_may_write_is_not_believed(folder):
    Kept(folder).put("literals", "key", b"body")
    the_file(folder, "key").chmod(0o666)
    assert Kept(folder).get("literals", "key") is None


@posix
def test_it_is_for_the_user_alone(folder):
    Kept(folder).put("literals", "key", b"body")
    assert stat.S_IMODE(the_file(folder, "key").stat().st_mode) == 0o600


def test_where_no_folder_can_be_made_nothing_is_kept(tmp_path):
    (tmp_path / "file").write_text("in the way")
    kept = Kept(tmp_path / "file" / "keepstep")
    kept.put("literals", "key", b"body")
    assert kept.get("literals", "key") is None


def test_where_the_name_is_taken_by_a_folder_nothing_is_left_behind(folder):
    (the_file(folder, "key") / "deep").mkdir(parents=True)
    Kept(folder).put("literals", "key", b"body")
    assert Kept(folder).get("literals", "key") is None
    assert list(folder.iterdir()) == [the_file(folder, "key")]


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "keepstep"
