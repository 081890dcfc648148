"""Coarse words: in every literal one of them, and the same hits with them as without."""

import random

import pytest

from keepstep.parse.scan import anchors
from keepstep.parse.scan.coarse import WIDTH, choose, fit
from keepstep.parse.scan.lines.usual_lines import LINES
from keepstep.parse.scan.tables import tables

HEALTHY = b"2026-11-15 01:02:03 step 17 loss=0.25 throughput=812.1 samples/s\n[INFO] epoch 3 lr 3.0e-4\n"


def _literals():
    signatures, blocks, _ = tables()
    every = [*signatures, *(block.begin for block in blocks)]
    return list(dict.fromkeys((literal, each.folds_case) for each in every for literal in each.anchors))


LITERALS = _literals()


def _is_in(word, literal):
    return word[0] in (literal[0].lower() if word[1] else literal[0]) and word[1] == literal[1]


def test_every_literal_holds_each_word_of_its_group():
    literals = [(literal.encode(), fold) for literal, fold in LITERALS]
    groups = choose(literals)
    assert sorted(number for group in groups for number in group.literals) == list(range(len(literals)))
    for group in groups:
        for number in group.literals:
            text = literals[number][0].lower() if group.fold else literals[number][0]
            assert all(word in text for word in group.words)
    assert len(groups) < len(literals) // 2


def test_words_that_stand_in_the_log_are_not_looked_for():
    literals = [(b"tensorflow/core: out of memory", False), (b"tensorflow/core: device lost", False)]
    groups = choose(literals)
    words = [word for _, (word, _) in fit(groups, literals, b"tensorflow/core: ready\n")]
    assert not any(word[-WIDTH:] in b"tensorflow/core: ready\n" for word in words)


def test_words_of_usual_lines_are_taken_only_where_a_literal_has_no_others():
    literals = [
        (b"tensorflow/core: device lost", False),
        (b"tensorflow/core: out of memory", False),
        (b"trainer.py", False),
    ]
    usual = b"I tensorflow/core: ready, trainer.py runs\n"
    groups = choose(literals, usual)
    assert sorted(number for group in groups for number in group.literals) == [0, 1, 2]
    assert all((word[-WIDTH:] in usual) == (group.literals == [2]) for group in groups for word in group.words)


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
def test_usual_lines_hold_no_coarse_word_but_in_a_literal():
    plain, coarse = (
        anchors.finder(LITERALS),
        anchors._Coarse([(literal.encode(), fold) for literal, fold in LITERALS], None),
    )
    idle = [line for line in LINES.split(b"\n") if coarse.find(line) and not plain.find(line)]
    assert not idle


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
@pytest.mark.parametrize("seed", range(6))
def test_the_same_hits_with_coarse_words_as_without(seed):
    dice = random.Random(seed)
    every = seed * 400 + 20  # from nothing but hits to few of them
    text = b"".join(
        dice.choice(LITERALS)[0].encode() + b"\n" if dice.randrange(every) == 0 else HEALTHY for _ in range(6_000)
    )
    plain, coarse = anchors.finder(LITERALS), anchors.finder(LITERALS)
    coarse.expect(anchors.LARGE)
    for start in range(0, len(text), 100_000):
        piece = text[start : start + 100_000]
        assert sorted(coarse.find(piece)) == sorted(plain.find(piece))
        some = {index for index, _ in plain.find(piece)[::2]}
        assert sorted(coarse.find(piece, some)) == sorted(hit for hit in plain.find(piece) if hit[0] not in some)


@pytest.mark.skipif(not anchors.accelerated(), reason="hyperscan is not installed here")
def test_words_that_stand_everywhere_are_given_up(monkeypatch):
    monkeypatch.setattr(anchors, "MOST_IDLE", 50)
    words = [("connection reset by peer", False), ("connection refused", False)]
    finder = anchors.finder(words)
    finder.expect(anchors.LARGE)
    quiet = b"all is well here\n" * 2_000
    assert finder.find(quiet) == []
    noisy = b"connection of a kind, refused by nobody, reset by none, by peers\n" * 2_000
    for _ in range(20):
        assert finder.find(noisy) == []
    assert len(finder.find(noisy + b"connection refused\n")) == 1
