# SPDX-License-Identifier: Apache-2.0
"""The run's secret: where it may come from, who may read it, and that it is shown nowhere."""

from __future__ import annotations

import os
import pickle
import ssl
import sys
import threading
import traceback
from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.supervise.nodes.connection import secret, tls
from tests.supervise.nodes.connecting import SOON_S

GOOD = "0123456789abcdef" * 4


def file_with(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_nothing_given_is_no_secret() -> None:
    assert secret.find({}) is None
    assert secret.find({"KEEPSTEP_SECRET": "", "KEEPSTEP_SECRET_FILE": ""}) is None


def test_a_file_that_was_named_goes_before_the_environment(tmp_path: Path) -> None:
    named, other = file_with(tmp_path / "a", "a" * 40), file_with(tmp_path / "b", "b" * 40 + "\n")
    env = {"KEEPSTEP_SECRET_FILE": str(other)}
    assert secret.find(env) == secret.Secret("b" * 40)
    env["KEEPSTEP_SECRET"] = f" {GOOD}\n"
    assert secret.find(env) == secret.Secret(GOOD)
    assert secret.find(env, file=named) == secret.Secret("a" * 40)


@pytest.mark.parametrize(
    "text", ["short", "a" * 31, "a" * 600, "ä" * 40, "a b" * 20, "x" * 40 + "\n" + "y" * 40, "\x00" * 40]
)
def test_what_can_be_guessed_or_is_no_secret_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="KEEPSTEP_SECRET is not usable") as said:
        secret.find({"KEEPSTEP_SECRET": text})
    assert text not in str(said.value) and said.value.hint
    with pytest.raises(UserError, match="no usable secret") as said:
        secret.find({}, file=file_with(tmp_path / "s", text))
    assert text not in str(said.value)


def test_new_ones_are_usable_and_all_different() -> None:
    made = {secret.make() for _ in range(100)}
    assert len(made) == 100
    for each in made:
        assert secret.find({"KEEPSTEP_SECRET": each.reveal()}) == each


def test_a_secret_is_shown_nowhere() -> None:
    one = secret.make()
    shown = [repr(one), str(one), f"{one}", repr({"s": one})]
    try:
        raise ValueError(one)
    except ValueError:
        shown.append(traceback.format_exc())
    assert not [text for text in shown if one.reveal() in text]
    with pytest.raises(TypeError):
        pickle.dumps(one)
    assert one != secret.make() and one != one.reveal()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    path = file_with(tmp_path / "s", GOOD, mode)
    with pytest.raises(UserError, match="other users may open") as said:
        secret.find({"KEEPSTEP_SECRET_FILE": str(path)})
    assert said.value.hint == f"chmod 600 {path}"


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("40 30 0:51 / /run/keepstep ro,relatime - tmpfs tmpfs rw,size=64k", True),
        ("40 30 0:51 / /run/keepstep ro,relatime shared:7 - tmpfs tmpfs rw", True),
        ("40 30 0:51 / /run/keepstep rw,relatime - tmpfs tmpfs rw", False),
        ("40 30 0:51 / /run/keepstep ro,relatime - ext4 /dev/sda1 ro", False),
        ("40 30 0:52 / /run/keepstep ro,relatime - tmpfs tmpfs rw", False),
        ("40 30 0:51 / / ro,relatime - tmpfs tmpfs rw", False),
        ("", False),
        ("40 30 0:51", False),
    ],
)
def test_only_memory_that_is_mounted_read_only_is_a_containers_own(line: str, is_one: bool) -> None:
    assert secret._is_read_only_memory(line, "0:51") is is_one


def test_the_rule_for_containers_opens_no_other_file(tmp_path: Path) -> None:
    path = file_with(tmp_path / "s", GOOD, 0o644)
    with pytest.raises(UserError, match="other users may open"):
        secret.find({"KEEPSTEP_SECRET_FILE": str(path), "KUBERNETES_SERVICE_HOST": "10.96.0.1"})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = file_with(tmp_path / "s", GOOD)
    os.chown(path, 12345, -1)
    with pytest.raises(UserError, match="belongs to user 12345"):
        secret.find({}, file=path)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "absent", Path("/dev/null")):
        with pytest.raises(UserError):
            secret.find({}, file=path)


def test_a_shared_secret_is_for_this_user_and_replaces_nothing(tmp_path: Path) -> None:
    one, path = secret.make(), tmp_path / "s"
    before = os.umask(0)
    try:
        secret.share(path, one)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret.find({}, file=path) == one
    with pytest.raises(UserError, match="exists already"):
        secret.share(path, secret.make())
    (tmp_path / "connection").symlink_to(tmp_path / "target")
    with pytest.raises(UserError, match="exists already"):
        secret.share(tmp_path / "connection", one)
    assert not (tmp_path / "target").exists()
    with pytest.raises(UserError, match="cannot be written"):
        secret.share(tmp_path / "absent" / "s", one)
    assert secret.find({}, file=path) == one


def test_a_node_waits_until_the_secret_is_there_and_whole(tmp_path: Path) -> None:
    one, path, found = secret.make(), tmp_path / "s", []
    waits = threading.Thread(target=lambda: found.append(secret.wait_for(path, SOON_S)))
    waits.start()
    half = file_with(path, "")
    half.write_text(one.reveal()[:35])
    assert secret.Secret(one.reveal()[:35])  # usable, but not all of it
    assert waits.is_alive() and not found
    half.write_text(one.reveal() + "\n")
    waits.join(SOON_S)
    assert found == [one]


def test_waiting_ends(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"did not appear within 0\.05 s"):
        secret.wait_for(tmp_path / "s", 0.05)
    file_with(tmp_path / "open", GOOD + "\n", 0o644)
    with pytest.raises(UserError, match="other users"):
        secret.wait_for(tmp_path / "open", SOON_S)


# --- what is derived from it


def test_all_nodes_derive_the_same_bytes_and_other_runs_others() -> None:
    one = secret.Secret(GOOD)
    assert tls.derived(one) == tls.derived(secret.Secret(GOOD))
    assert not set(tls.derived(one)) & set(tls.derived(secret.make()))


def test_no_clock_is_part_of_the_proof() -> None:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(tls.derived(secret.Secret(GOOD))[1])
    assert certificate.not_valid_before_utc.year == 1970
    assert certificate.not_valid_after_utc.year == 9999


def test_both_sides_demand_the_proof_in_tls_1_3() -> None:
    for context in tls.contexts(secret.Secret(GOOD)):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_3
        assert context.cert_store_stats()["x509"] == 1, "nobody else is trusted"


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_key_is_left_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    before = sorted(os.listdir("/proc/self/fd"))
    tls.contexts.__wrapped__(secret.make())
    assert not list(tmp_path.iterdir())
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_without_cryptography_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UserError, match="several nodes need the cryptography package") as said:
        tls.contexts(secret.make())
    assert said.value.hint == "pip install 'keepstep[nodes]'"
