# SPDX-License-Identifier: Apache-2.0
"""What differs between hosts, and what a host lacks: reported with the right severity, and nothing if all is well."""

from __future__ import annotations

import os
import resource as limits_of
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from keepstep.check import resources
from keepstep.check.checkup import CheckRequest, judge, place_of
from keepstep.check.parts import look
from keepstep.check.place import Collected, Place
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.model.facts.base import Fact
from keepstep.model.facts.cluster import AgreedSetting
from keepstep.model.facts.host import (
    CoresSeen,
    DiskSeen,
    GpuSeen,
    LimitSeen,
    LockFileSeen,
    MemorySeen,
    SharedMemorySeen,
    TroubleBefore,
)
from keepstep.model.facts.platform import DeviceFault
from keepstep.model.facts.software import ScriptCalls, SoftwareSeen
from keepstep.model.finding import Severity
from keepstep.model.identity import Rank
from keepstep.parse.formats.script import read_script
from keepstep.sources.host import capacity, software
from keepstep.store import failed_hosts

GB = 1 << 30
USUAL = SoftwareSeen(
    host="node-0",
    packages=(
        ("keras", "3.10.0"),
        ("numpy", "2.1.0"),
        ("requests", "2.32.0"),
        ("tensorflow", "2.21.0"),
        ("torch", "2.13.0"),
    ),
    system=(
        ("NVIDIA driver", "550.54.15"),
        ("Python", "3.11.7"),
        ("architecture", "x86_64"),
        ("kernel", "6.1.0"),
        ("libc", "glibc 2.36"),
    ),
    cpu_flags=("sse4_2", "avx", "avx2"),
    variables=(("LD_LIBRARY_PATH", "/opt/lib"),),
    script="train.py",
    script_hash="a" * 64,
)


def changed(pairs: tuple[tuple[str, str], ...], **changes: str | None) -> tuple[tuple[str, str], ...]:
    table = {**dict(pairs), **{name.replace("__", " "): value for name, value in changes.items()}}
    return tuple((name, value) for name, value in sorted(table.items()) if value is not None)


def report_on(*facts: Fact):
    looked = Collected()
    for index, fact in enumerate(facts):
        host = getattr(fact, "host", f"node-{index}")
        place = Place(env={}, host=host, rank=Rank(index=index, node=host))
        looked.add(place.saw(fact, "the software"))
    looked.checked("everything")
    return judge(looked)


def three(odd: SoftwareSeen):
    return report_on(USUAL, replace(USUAL, host="node-1"), replace(odd, host="node-2"))


DIFFERENT = {
    "another TensorFlow": (
        "ENV101",
        Severity.FATAL,
        replace(USUAL, packages=changed(USUAL.packages, tensorflow="2.18.0")),
    ),
    "no torch": ("ENV101", Severity.FATAL, replace(USUAL, packages=changed(USUAL.packages, torch=None))),
    "another Python": ("ENV101", Severity.FATAL, replace(USUAL, system=changed(USUAL.system, Python="3.10.4"))),
    "another numpy": ("ENV102", Severity.WARNING, replace(USUAL, packages=changed(USUAL.packages, numpy="1.26.4"))),
    "another requests": ("ENV102", Severity.NOTE, replace(USUAL, packages=changed(USUAL.packages, requests="2.31.0"))),
    "another driver": (
        "ENV103",
        Severity.WARNING,
        replace(USUAL, system=changed(USUAL.system, NVIDIA__driver="535.10.1")),
    ),
    "another library path": (
        "ENV104",
        Severity.WARNING,
        replace(USUAL, variables=(("LD_LIBRARY_PATH", "/usr/local/cuda-11/lib64"),)),
    ),
    "another script": ("ENV105", Severity.FATAL, replace(USUAL, script_hash="b" * 64)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_told_with_the_host_and_as_bad_as_it_is(name: str) -> None:
    rule, severity, odd = DIFFERENT[name]
    report = three(odd)
    assert [(f.rule, f.severity) for f in report.findings] == [(rule, severity)]
    assert "node-2" in report.findings[0].title
    assert report.findings[0].ranks == (2,)


def test_a_setting_that_another_rule_speaks_of_is_told_once() -> None:
    odd = replace(USUAL, host="node-1", variables=(("LD_LIBRARY_PATH", "/opt/lib"), ("XLA_FLAGS", "--a")))
    assert [f.rule for f in report_on(USUAL, odd).findings] == ["ENV104"]
    told = (AgreedSetting(name="XLA_FLAGS", value=None), AgreedSetting(name="XLA_FLAGS", value="--a"))
    assert [f.rule for f in report_on(USUAL, odd, *told).findings] == ["SYN101"]


def test_equal_hosts_and_a_patch_of_python_or_kernel_give_no_finding() -> None:
    assert three(USUAL).findings == ()
    assert three(replace(USUAL, system=changed(USUAL.system, Python="3.11.9", kernel="6.1.5"))).findings == ()


ON_ONE_HOST = {
    "a driver too old for CUDA 12": (
        "ENV106",
        replace(
            USUAL,
            packages=changed(USUAL.packages, **{"nvidia-cuda-runtime-cu12": "12.4"}),
            system=changed(USUAL.system, NVIDIA__driver="470.57.02"),
        ),
    ),
    "a CPU without AVX": ("ENV107", replace(USUAL, cpu_flags=("sse4_2",))),
    "legacy Keras that is not there": ("FRW101", replace(USUAL, variables=(("TF_USE_LEGACY_KERAS", "1"),))),
    "NumPy 2 with an older TensorFlow": (
        "FRW101",
        replace(USUAL, packages=changed(USUAL.packages, tensorflow="2.15.0")),
    ),
    "a jaxlib that is newer than jax": (
        "FRW101",
        replace(USUAL, packages=changed(USUAL.packages, jax="0.4.30", jaxlib="0.4.34")),
    ),
    "little memory": ("RES101", MemorySeen(total=64 * GB, available=GB // 2)),
    "a tight control group": (
        "RES101",
        MemorySeen(total=64 * GB, available=32 * GB, limit=8 * GB, used_of_limit=8 * GB - 10),
    ),
    "a swapping host": ("RES102", MemorySeen(total=64 * GB, available=32 * GB, swap_used=8 * GB, swap_total=16 * GB)),
    "Docker's shared memory": ("RES103", SharedMemorySeen(total=64 << 20, free=64 << 20)),
    "a full disk": ("RES104", DiskSeen(path="/ckpt", free=10 << 20, total=100 * GB)),
    "no inodes": (
        "RES104",
        DiskSeen(path="/ckpt", free=50 * GB, total=100 * GB, inodes_free=3, inodes_total=1_000_000),
    ),
    "another user's folder": ("RES104", DiskSeen(path="/ckpt", error="this user may not write to /ckpt")),
    "a folder that is not there": ("RES104", DiskSeen(path="/ckpt/run7", free=50 * GB, total=100 * GB, nearest="/")),
    "few open files": ("RES105", LimitSeen(name="open files", soft=256, used=10)),
    "a full pids group": ("RES105", LimitSeen(name="processes of the control group", soft=100, used=90)),
    "too many threads": ("RES106", CoresSeen(cores=4, ranks_here=4, threads_each=8)),
    "a GPU that is taken": (
        "RES107",
        GpuSeen(index=0, name="H100", total=80 * GB, used=40 * GB, others=("python (pid 7, 40000 MiB)",)),
    ),
    "a GPU with memory errors": ("HWD101", GpuSeen(index=0, name="H100", total=80 * GB, used=0, uncorrected_errors=3)),
    "a TPU lock": ("TPU101", LockFileSeen(path="/tmp/libtpu_lockfile")),
    "a host with a history": ("HWD102", TroubleBefore(host="node-7", began=4, of=5, last_cause="network.mtu")),
}


@pytest.mark.parametrize("name", ON_ONE_HOST)
def test_what_one_host_lacks_is_told(name: str) -> None:
    rule, fact = ON_ONE_HOST[name]
    report = report_on(fact)
    assert [f.rule for f in report.findings] == [rule], [f.title for f in report.findings]


WELL = [
    MemorySeen(total=64 * GB, available=50 * GB, limit=32 * GB, used_of_limit=GB),
    SharedMemorySeen(total=32 * GB, free=30 * GB),
    DiskSeen(path="/ckpt", free=50 * GB, total=100 * GB, inodes_free=900_000, inodes_total=1_000_000),
    LimitSeen(name="open files", soft=1024, used=20),
    LimitSeen(name="processes", soft=None),
    CoresSeen(cores=8, ranks_here=8, threads_each=1),
    GpuSeen(index=0, name="H100", total=80 * GB, used=500 << 20),
    TroubleBefore(host="node-7", began=1, of=5),
]


@pytest.mark.parametrize("fact", WELL, ids=lambda fact: type(fact).__name__)
def test_what_is_well_is_not_told(fact: Fact) -> None:
    assert report_on(fact).findings == ()


@pytest.fixture
def tpu_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lock file of libtpu, in a temporary folder of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "libtpu_lockfile").touch()
    return str(tmp_path / "libtpu_lockfile")


def locks(env: dict[str, str], host: Path) -> list[str]:
    """Which locks are seen with these variables, on a host with the devices in a folder."""
    return [each.path for each in capacity.tpu_locks(env, host / "dev", host / "pci")]


@pytest.mark.parametrize(
    "env", [{}, {"JAX_PLATFORMS": "cpu"}, {"PJRT_DEVICE": "CUDA", "TPU_NAME": "x"}, {"TPU_WORKER_ID": ""}], ids=str
)
def test_a_lock_file_of_libtpu_says_nothing_to_a_job_without_a_tpu(
    tpu_lock: str, tmp_path: Path, env: dict[str, str]
) -> None:
    for name, vendor, kind in (("0", "0x1ae0", "0x020000"), ("1", "0x8086", "0x120000")):  # gVNIC; another's device
        (tmp_path / "pci" / name).mkdir(parents=True)
        (tmp_path / "pci" / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / "pci" / name / "class").write_text(f"{kind}\n")
    (tmp_path / "dev" / "accel").mkdir(parents=True)
    (tmp_path / "dev" / "accel" / "accel0").touch()  # the kernel's name for another maker's device
    assert locks(env, tmp_path) == []


@pytest.mark.parametrize(
    ("env", "device"),
    [
        ({"JAX_PLATFORMS": "tpu,cpu"}, None),
        ({"PJRT_DEVICE": "TPU"}, None),
        ({"TPU_WORKER_ID": "0"}, None),
        ({}, "dev/accel0"),
        ({}, "pci/0000:00:04.0/vendor"),
    ],
    ids=str,
)
def test_a_lock_file_of_libtpu_is_seen_where_the_job_uses_a_tpu(
    tpu_lock: str, tmp_path: Path, env: dict[str, str], device: str | None
) -> None:
    if device is not None:
        (tmp_path / device).parent.mkdir(parents=True)
        (tmp_path / device).write_text("0x1ae0\n")
        (tmp_path / device).with_name("class").write_text("0x120000\n")
    assert tpu_lock in locks(env, tmp_path)


def test_a_check_on_a_host_without_a_tpu_tells_nothing_of_a_lock_file(tpu_lock: str) -> None:
    seen = [each.fact for each in resources.look(Place(env={"JAX_PLATFORMS": "cpu"}, host="here")).evidence]
    assert not [fact for fact in seen if isinstance(fact, LockFileSeen)]


def test_keras_3_fit_under_several_workers_is_known_not_to_work() -> None:
    text = "strategy = tf.distribute.MultiWorkerMirroredStrategy()\nmodel.fit(data)\n"
    assert [f.rule for f in report_on(read_script("train.py", text), USUAL).findings] == ["FRW101"]
    assert report_on(read_script("train.py", "# MultiWorkerMirroredStrategy\nmodel.fit(data)\n"), USUAL).findings == ()
    legacy = replace(
        USUAL, variables=(("TF_USE_LEGACY_KERAS", "1"),), packages=changed(USUAL.packages, **{"tf-keras": "2.21.0"})
    )
    assert report_on(read_script("train.py", text), legacy).findings == ()


def test_the_script_is_read_by_its_words() -> None:
    calls = read_script("t.py", "DataLoader(data, num_workers=16)\ntrainer.fit (model)\n")
    assert calls == ScriptCalls(script="t.py", strategies=(), fits=True, loader_workers=16)
    assert "RES106" in {f.rule for f in report_on(calls, CoresSeen(cores=4, ranks_here=4)).findings}


def test_this_host_is_read_without_a_finding_of_its_own_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    looked = look(place_of(CheckRequest(paths=(tmp_path,)), {}), ["env", "resources"])
    kinds = {type(each.fact) for each in looked.evidence}
    assert {SoftwareSeen, MemorySeen, DiskSeen, LimitSeen, CoresSeen} <= kinds
    assert not [each for each in looked.coverage if "failed" in each.why]
    (seen,) = [each.fact for each in looked.evidence if isinstance(each.fact, SoftwareSeen)]
    assert dict(seen.packages)["pytest"] == pytest.__version__


def test_a_folder_that_cannot_be_written_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert "not a folder" in (capacity.disk(file).error or "")
    later = capacity.disk(tmp_path / "made" / "later")
    assert (later.error, later.nearest) == (None, str(tmp_path))
    assert capacity.disk(tmp_path).nearest is None


def test_limits_are_those_of_this_process() -> None:
    (files,) = [each for each in capacity.limits() if each.name == "open files"]
    assert files.soft == limits_of.getrlimit(limits_of.RLIMIT_NOFILE)[0]
    assert files.used and files.used < 1000


def test_variables_that_differ_by_nature_are_left_out() -> None:
    env = {
        "TF_CONFIG": "{}",
        "XLA_FLAGS": "--a",
        "HOME": "/x",
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_ALGO": "Ring",
    }
    assert software.variables(env) == {"XLA_FLAGS": "--a", "NCCL_ALGO": "Ring"}


def test_the_history_is_small_and_survives_damage(tmp_path: Path) -> None:
    path = tmp_path / "state" / "hosts.jsonl"
    for index in range(80):
        failed_hosts.remember(f"node-{index % 2}", "network.mtu", 1.0 * index, path)
    assert len(failed_hosts.remembered(path)) == failed_hosts.MOST
    path.write_text("nonsense\n" + path.read_text() + '{"host": 3}\n')
    assert all(host.startswith("node-") for host, _ in failed_hosts.remembered(path))
    os.chmod(path.parent, 0o500)
    failed_hosts.remember("node-9", "x", 1.0, Path("/proc/no/such/place"))
    os.chmod(path.parent, 0o700)


def test_what_the_kernel_said_of_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    monkeypatch.setattr(resources, "read_kernel_log", lambda since, until: ([(1.0, line), (2.0, "eth0: link up")], []))
    looked = look(place_of(CheckRequest(), {}), ["resources"])
    assert "hardware.gpu_fault_xid_ecc" in {finding.cause.value for finding in judge(looked).findings}


def test_what_an_earlier_program_brought_on_its_gpu_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "NVRM: Xid (PCI:0000:00:06): 43, pid=16436, name=python, channel 0x0000000a"
    monkeypatch.setattr(resources, "read_kernel_log", lambda since, until: ([(1.0, line)], []))
    assert not [
        e for e in look(place_of(CheckRequest(), {}), ["resources"]).evidence if isinstance(e.fact, DeviceFault)
    ]


def test_the_only_host_is_not_told_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_hosts, "remembered", lambda: [("node-0", "network.mtu")] * 5)

    def told(*hosts: str) -> bool:
        tasks = tuple(Task(rank=n, index=n, host=host) for n, host in enumerate(hosts))
        place = Place(env={}, host="node-0", rank=None, cluster=Cluster(said_by="--hosts", tasks=tasks, me=0))
        return any(isinstance(e.fact, TroubleBefore) for e in resources.look(place).evidence)

    assert told("node-0", "node-1")
    assert not told("node-0", "node-0")
