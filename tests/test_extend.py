# SPDX-License-Identifier: Apache-2.0
"""Users' own rules and signatures: they work, and their mistakes are reported plainly."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

import keepstep.rules
from keepstep.errors import UserError
from keepstep.extend import Extensions, load_extensions
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.platform import SignatureMatched
from keepstep.model.facts.training import StepSeen
from keepstep.model.finding import Safety, Severity
from keepstep.model.rule import rules_in
from keepstep.story.engine import diagnose

SIGNATURE = """
[[signature]]
name = "quota-refused"
pattern = 'quotad: refused job (?P<job>.+)$'
cause = "resource.contention"
title = "the quota service refused job {job}"
because = "the quota is used up"
fix = "ask for more"
command = "quota show --job {job}"
"""


def project(folder: Path, **files: str) -> Path:
    """A folder with a keepstep.toml and files of rules; dots are written as two underscores."""
    rules = folder / "own"
    rules.mkdir()
    (folder / "keepstep.toml").write_text('[rules]\nfolder = "own"\n')
    for name, text in files.items():
        (rules / name.replace("__", ".")).write_text(text)
    return folder


def load(folder: Path, **options: object) -> Extensions:
    """As one that the user named."""
    return load_extensions(folder / "keepstep.toml", installed=False, **options)  # type: ignore[arg-type]


def found(folder: Path, **options: object) -> Extensions:
    """As one that nobody named."""
    return load_extensions(start=folder, installed=False, **options)  # type: ignore[arg-type]


def complaints(own: Extensions) -> str:
    return "\n".join(f"{c.what}: {c.why}" for c in own.coverage)


def seen_in(own: Extensions, *lines: str) -> EvidenceSet:
    items: list[Evidence] = []  # type: ignore[type-arg]
    for number, line in enumerate(lines, 1):
        for each in own.signatures:
            fact = each.read(line)
            if fact is not None:
                items.append(Evidence(fact=fact, origin=Origin(source="a.log", line=number), quote=line))
    return EvidenceSet(items=tuple(items))


def test_a_signature_becomes_a_finding(tmp_path: Path) -> None:
    own = load(project(tmp_path, quota__toml=SIGNATURE))
    assert not own.coverage
    report = diagnose(seen_in(own, "ok", "quotad: refused job j-17"), own.rules)
    assert report.root is not None
    assert report.root.title == "the quota service refused job j-17"
    assert report.root.cause is Cause.RESOURCE_CONTENTION
    assert report.root.rule == "OWN001"
    assert report.root.fixes[0].command == "quota show --job j-17"


def test_what_a_log_says_cannot_become_a_command(tmp_path: Path) -> None:
    own = load(project(tmp_path, quota__toml=SIGNATURE))
    report = diagnose(seen_in(own, "quotad: refused job x; rm -rf ~"), own.rules)
    assert report.root is not None
    assert report.root.fixes[0].command == "quota show --job 'x; rm -rf ~'"


def test_a_fatal_signature_that_training_survived_is_no_finding(tmp_path: Path) -> None:
    own = load(project(tmp_path, quota__toml=SIGNATURE))
    refused = seen_in(own, "quotad: refused job j-17").items
    later = [Evidence(fact=StepSeen(step=n), origin=Origin(source="a.log", line=5 + n)) for n in (4, 5)]
    assert not diagnose(EvidenceSet(items=(*refused, *later)), own.rules).findings


def test_every_key_of_a_signature_counts(tmp_path: Path) -> None:
    text = SIGNATURE + 'severity = "warning"\nsafety = "needs_owner"\nid = "QTA001"\nanchors = ["quotad: refused"]\n'
    own = load(project(tmp_path, quota__toml=text))
    report = diagnose(seen_in(own, "quotad: refused job j-17"), own.rules)
    assert report.root is not None
    assert (report.root.rule, report.root.severity) == ("QTA001", Severity.WARNING)
    assert report.root.fixes[0].safety is Safety.NEEDS_OWNER
    assert own.signatures[0].anchors == ("quotad: refused",)


def test_a_group_called_rank_says_whom_it_is_about(tmp_path: Path) -> None:
    text = SIGNATURE.replace("(?P<job>.+)$", r"(?P<job>\S+) of rank (?P<rank>\d+)")
    own = load(project(tmp_path, quota__toml=text))
    report = diagnose(seen_in(own, "quotad: refused job a of rank 3"), own.rules)
    assert report.root is not None and report.root.ranks == (3,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("resource.contention", "resource.contentoin"), "did you mean 'resource.contention'"),
        (('title = "the quota service refused job {job}"', ""), "lacks title"),
        (('because = "the quota is used up"', 'becase = "x"'), "did you mean 'because'"),
        (("quotad: refused job (?P<job>.+)$", "(unclosed"), "not a valid regular expression"),
        (("quotad: refused job (?P<job>.+)$", r"(?P<job>\\d+)"), "no fixed text of 4 or more characters"),
        (("quotad: refused job (?P<job>.+)$", "quotad: refused (?P<job>.+)" + "x" * 4000), "longer than 4,000"),
        (("quotad: refused job (?P<job>.+)$", "quotad: " + "(" * 1500 + "(?P<job>.+)" + ")" * 1500), "not a valid"),
        (("refused job {job}", "refused job {jobs}"), "no (?P<jobs>...)"),
        (('fix = "ask for more"', "fix = 3"), "fix must be a string"),
        (('fix = "ask for more"', 'severity = "deadly"'), "severity must be one of fatal, warning, note"),
        (('fix = "ask for more"', 'id = "quota"'), "three capital letters"),
        (("[[signature]]", "[signature]"), "two brackets"),
        (("[[signature]]", "[[signatures]]"), "unknown table 'signatures'; did you mean 'signature'?"),
        (("[[signature]]", "[[signature"), "not valid TOML"),
    ],
)
def test_a_wrong_signature_is_told_with_its_file_and_reason(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    own = load(project(tmp_path, quota__toml=SIGNATURE.replace(*change)))
    assert not own.rules
    assert said in complaints(own)
    assert "quota.toml" in complaints(own)


def test_one_wrong_entry_leaves_the_others(tmp_path: Path) -> None:
    wrong = SIGNATURE.replace("quota-refused", "other").replace("resource.contention", "nonsense.cause")
    own = load(project(tmp_path, quota__toml=wrong + SIGNATURE))
    assert [rule.name for rule in own.rules] == ["quota-refused"]
    assert "signature 1 (other)" in complaints(own)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:\n", "bad.py:1: SyntaxError"),
        ("x = 1\nimport no_such_module_at_all\n", "bad.py:2: ModuleNotFoundError"),
        ("raise SystemExit('stop')\n", "bad.py:1: SystemExit: stop"),
        ("SIGNATURES = 5\n", "SIGNATURES is not a tuple"),
        ("BLOCKS = ('x',)\n", "BLOCKS is not a tuple"),
    ],
)
def test_a_broken_file_is_told_and_the_rest_goes_on(tmp_path: Path, text: str, said: str) -> None:
    own = load(project(tmp_path, bad__py=text, quota__toml=SIGNATURE))
    assert said in complaints(own)
    assert [rule.name for rule in own.rules] == ["quota-refused"]


def test_a_rule_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    taken = {rule.id for rule in rules_in(keepstep.rules)}
    own = load(project(tmp_path, quota__toml=SIGNATURE + 'id = "NET002"\n'), taken=taken)
    assert not own.rules
    assert "NET002 is taken" in complaints(own)


def test_the_config_is_looked_up_from_the_folder_upwards(tmp_path: Path) -> None:
    below = project(tmp_path, quota__toml=SIGNATURE) / "a" / "b"
    below.mkdir(parents=True)
    assert found(below).rules


def test_without_a_config_there_is_nothing(tmp_path: Path) -> None:
    assert found(tmp_path) == Extensions()


def test_a_link_out_of_the_folder_is_not_run(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("raise AssertionError('ran')\n")
    folder = project(tmp_path)
    (folder / "own" / "link.py").symlink_to(outside)
    assert "link that leads out of the folder" in complaints(load(folder))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[rules\n", "not valid TOML"),
        ("rules = 3\n", "must be a path"),
        ("[rules]\nfolder = 3\n", "must be a path"),
        ('[rules]\nfolder = "nowhere"\n', "does not exist"),
    ],
)
def test_a_wrong_config_is_a_user_error(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "keepstep.toml").write_text(text)
    with pytest.raises(UserError, match=said):
        load(tmp_path)


def test_a_named_config_that_is_absent_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        load_extensions(tmp_path / "none.toml", installed=False)


def test_installed_rules_come_in_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "our_cluster_rules"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "gateway.py").write_text(_documented("python"))
    (tmp_path / "our_cluster-1.0.dist-info").mkdir()
    (tmp_path / "our_cluster-1.0.dist-info" / "METADATA").write_text("Name: our-cluster\nVersion: 1.0\n")
    (tmp_path / "our_cluster-1.0.dist-info" / "entry_points.txt").write_text(
        "[keepstep.rules]\ngood = our_cluster_rules\nwrong = our_cluster_rules.gateway:SIGNATURES\n"
        "gone = no_such_package\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert any(e.name == "good" for e in metadata.entry_points(group="keepstep.rules"))
    own = load_extensions(start=tmp_path)
    assert [rule.id for rule in own.rules] == ["GWY001"]
    assert len(own.signatures) == 1
    assert "no_such_package" in complaints(own)
    assert "names a tuple, not a rule" in complaints(own)
    for name in [name for name in sys.modules if name.startswith("our_cluster_rules")]:
        del sys.modules[name]


def _documented(language: str, number: int = 0) -> str:
    """A block of the page on own rules: the page is tested as it stands."""
    page = (Path(__file__).parent.parent / "docs" / "your-own-rules.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)[number]


def test_the_examples_of_the_page_work(tmp_path: Path) -> None:
    (tmp_path / "keepstep.toml").write_text(_documented("toml", 0))
    folder = tmp_path / "keepstep-rules"
    folder.mkdir()
    (folder / "quota.toml").write_text(_documented("toml", 1))
    (folder / "gateway.py").write_text(_documented("python"))
    own = load(tmp_path)
    assert not own.coverage
    seen = seen_in(own, "quotad: refused 8 GPUs for job train-7", *["storage-gw: 503 for /ckpt/1"] * 3)
    assert len(seen.all(SignatureMatched)) == 4
    titles = {finding.title for finding in diagnose(seen, own.rules).findings}
    assert titles == {
        "the quota service refused 8 GPUs for job train-7",
        "the storage gateway answered 503 to 3 requests",
    }


def test_rules_written_after_the_page_of_earlier_versions_go_on_working(tmp_path: Path) -> None:
    """That page took the types from `keepstep.core`."""
    now = "from keepstep.rules.api import Cause, CheckpointUnreadable, Fix, Found, SignatureMatched, rule\n"
    then = (
        "from keepstep.core.cause import Cause\n"
        "from keepstep.core.facts.platform import SignatureMatched\n"
        "from keepstep.core.facts.training import CheckpointUnreadable\n"
        "from keepstep.core.finding import Fix, Found\n"
        "from keepstep.core.rule import rule\n"
    )
    page = _documented("python")
    assert now in page
    (tmp_path / "keepstep.toml").write_text(_documented("toml", 0))
    folder = tmp_path / "keepstep-rules"
    folder.mkdir()
    (folder / "gateway.py").write_text(page.replace(now, then))
    own = load(tmp_path)
    assert not own.coverage
    seen = seen_in(own, *["storage-gw: 503 for /ckpt/1"] * 3)
    assert [each.title for each in diagnose(seen, own.rules).findings] == [
        "the storage gateway answered 503 to 3 requests"
    ]
