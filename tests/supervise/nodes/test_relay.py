# SPDX-License-Identifier: Apache-2.0
"""What guards of several nodes tell each other, each with a folder of its own."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from keepstep.guard.agree.contract import PATIENCE_S, PROMPT_S, Contracts, ContractVerdict, Open, WaitBudget
from keepstep.guard.exchange import SharedFolder
from keepstep.supervise.nodes.evidence.relay import AT_ONCE, Relay, audience
from keepstep.supervise.nodes.messages import BadMessage, Put, decode, encode

KEY = "keepstep+0+model+0+r1"


def settle(relay: Relay) -> None:
    time.sleep(0.06)
    relay.new()


def test_only_what_is_new_is_handed_out_and_never_what_came_from_elsewhere(tmp_path: Path) -> None:
    folder, relay = SharedFolder(tmp_path), Relay(tmp_path)
    assert relay.new() == ()
    folder.put("keepstep/0/model/0/r1", "mine")
    assert relay.new() == ((KEY, "mine"),)
    assert relay.new() == ()
    relay.take([("keepstep+0+model+0+verdict", "{}")])
    assert folder.get("keepstep/0/model/0/verdict") == "{}"
    assert relay.new() == ()
    folder.put("keepstep/0/pace/r1", "first")
    folder.put("keepstep/0/pace/r1", "second")
    assert relay.new() == (("keepstep+0+pace+r1", "second"),)
    folder.put("keepstep/0/pace/r1", "third")
    assert relay.new() == (("keepstep+0+pace+r1", "third"),)
    relay.again()
    assert len(relay.new()) == 2


def test_a_message_that_its_rank_replaced_is_replaced_elsewhere_too(tmp_path: Path) -> None:
    folder, relay = SharedFolder(tmp_path), Relay(tmp_path)
    for word in ("first", "second"):
        relay.take([("keepstep+0+pace+r5", word)])
        assert folder.get("keepstep/0/pace/r5") == word
    assert relay.new() == ()


def test_a_key_of_the_nodes_own_rank_stays(tmp_path: Path) -> None:
    folder, relay = SharedFolder(tmp_path), Relay(tmp_path)
    folder.put("keepstep/0/model/0/r1", "mine")
    relay.take([(KEY, "forged")])
    assert folder.get("keepstep/0/model/0/r1") == "mine"
    assert relay.new() == ((KEY, "mine"),)


def test_a_quiet_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, relay = SharedFolder(tmp_path), Relay(tmp_path)
    folder.put("keepstep/0/model/0/r1", "mine")
    relay.new()
    settle(relay)
    monkeypatch.setattr(os, "scandir", lambda path: pytest.fail("it was read"))
    assert relay.new() == ()
    monkeypatch.undo()
    folder.put("keepstep/0/model/1/r1", "more")
    assert relay.new() == (("keepstep+0+model+1+r1", "more"),)


def test_much_is_handed_out_in_parts_that_fit_into_a_message(tmp_path: Path) -> None:
    folder, relay = SharedFolder(tmp_path), Relay(tmp_path)
    for number in range(12):
        folder.put(f"keepstep/0/model/{number}/r1", '"' * (200 << 10))
    found = []
    while keys := relay.new():
        put = Put(attempt=0, keys=keys)
        assert decode(encode(put)) == put
        assert sum(len(value) for _, value in keys) <= AT_ONCE
        found += [key for key, _ in keys]
    assert len(found) == len(set(found)) == 12


@pytest.mark.parametrize(
    "name", ["../x", "keepstep+0+../../x", "/etc/passwd", ".hidden", "", "keepstep+0+", "keepstep+0+a\0b",
             "keepstep+0+a\nb", "keepstep+0+" + "a" * 300, "other+0+x"],
)  # fmt: skip
def test_only_keys_of_guards_are_taken(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadMessage):
        Relay(tmp_path / "exchange").take([(name, "value")])
    with pytest.raises(BadMessage):
        Relay(tmp_path).take([(KEY, "x" * (300 << 10))])
    assert not list(tmp_path.iterdir())


def test_links_and_strange_files_are_neither_read_nor_written_through(tmp_path: Path) -> None:
    folder = tmp_path / "exchange"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / KEY).symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "keepstep+0+model+0+r2")
    relay = Relay(folder)
    assert relay.new() == ()
    relay.take([(KEY, "forged"), ("keepstep+0+model+0+r2", "forged")])
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize(
    ("key", "who"),
    [
        ("keepstep+0+model+0+r5", "first"),
        ("keepstep+0+model+0+r0", "all"),
        ("keepstep+0+model+0+verdict", "all"),
        ("keepstep+0+model of ranks 4, 5+0+r5", "all"),
        ("keepstep+2+program train+step+3+r5", "first"),
        ("keepstep+0+epoch+1+r5", "first"),
        ("keepstep+0+pace+r5", "first"),
        ("keepstep+0+late+r0", "all"),
        ("keepstep+0+collective+r5", "first"),
        ("keepstep+0+collective in groups+r5", "all"),
        ("keepstep+0+at program+r5", "all"),
        ("keepstep+0+something new+r5", "all"),
    ],
)
def test_a_key_travels_only_to_those_who_read_it(key: str, who: str) -> None:
    assert audience(key) == who


def test_ranks_on_two_nodes_agree_through_their_relays(tmp_path: Path) -> None:
    """Two folders, joined as agents and leader join them; rank 1 is about to run something else."""
    folders = [tmp_path / "a", tmp_path / "b"]
    settled: dict[int, ContractVerdict] = {}

    def contracts(rank: int) -> Contracts:
        def told(opened: Open, verdict: ContractVerdict, before: bool) -> None:
            settled[rank] = verdict

        return Contracts(SharedFolder(folders[rank]), rank, 2, "keepstep/0", told, lambda opened, missing: None)

    ranks = [contracts(0), contracts(1)]
    relays = [Relay(folder) for folder in folders]
    over = threading.Event()

    def carry() -> None:
        while not over.wait(0.1):
            for node, relay in enumerate(relays):
                keys = relay.new()
                relays[1 - node].take([each for each in keys if node == 1 or audience(each[0]) == "all"])

    carrier = threading.Thread(target=carry)
    carrier.start()
    try:
        opened = [each.state("program", 0, {"shape": f"[{n}]"}, certain=True) for n, each in enumerate(ranks)]
        waits = [threading.Thread(target=each.wait, args=(o, 5.0)) for each, o in zip(ranks, opened, strict=True)]
        began = time.monotonic()
        for wait in waits:
            wait.start()
        for wait in waits:
            wait.join()
    finally:
        over.set()
        carrier.join()
    assert time.monotonic() - began < 2.0
    assert [[str(each.what) for each in settled[rank].differences] for rank in (0, 1)] == [["shape"], ["shape"]]


def test_many_prompt_answers_do_not_use_up_the_patience_for_a_late_start() -> None:
    patience = WaitBudget()
    for _ in range(100):
        patience.waited(PROMPT_S / 2, answered=True)
    assert patience.left(0, None) == PATIENCE_S
    patience.waited(4.0, answered=True)
    patience.waited(PROMPT_S / 2, answered=False)
    assert patience.left(0, None) == PATIENCE_S - 4.0 - PROMPT_S / 2
