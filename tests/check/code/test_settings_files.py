# SPDX-License-Identifier: Apache-2.0
"""Settings, scripts and manifests beside a program: what is read, what is left alone, and how rules meet two files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from keepstep.check.code import cache
from keepstep.check.code.check_code import CodeRequest, check_code
from keepstep.check.code.judge import judged
from keepstep.check.code.reader_pool import read_all
from tests.check.code.test_check_code import keepstep

Places = list[tuple[str, str, int]]

BOTH = """{
  "train_micro_batch_size_per_gpu": 4,
  "fp16": {"enabled": true},
  "bf16": {
    "enabled": true
  }
}
"""
ACCELERATE = """compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: conf/ds.json
mixed_precision: fp16
num_machines: 1
num_processes: 4
"""
SBATCH = "#!/bin/bash\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node={tasks}\n#SBATCH --gres=gpu:4\n"
MEET = "--rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500"


def found_in(folder: Path, files: dict[str, str], *, preview: bool = False) -> Places:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    report = check_code(CodeRequest(paths=(folder,), preview=preview)).report
    assert not report.crashed
    places = [(each.rule, each.evidence[0].origin) for each in report.findings]
    return [(rule, str(Path(at.source).relative_to(folder)), at.line or 0) for rule, at in places]


def test_a_file_that_is_named_is_judged_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(BOTH)
    done = keepstep("check", "code", "ds.json", cwd=tmp_path)
    assert done.returncode == 1 and "ds.json:5:5: COD402 [fatal]" in done.stdout and '> "enabled": true' in done.stdout
    sarif = json.loads(keepstep("check", "code", ".", "--format", "sarif", cwd=tmp_path).stdout)
    place = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "ds.json" and place["region"]["startLine"] == 5
    made = keepstep("check", "code", ".", "--write-baseline", "known.json", cwd=tmp_path)
    assert made.returncode == 0 and made.stdout.startswith("wrote 1 finding to known.json")
    assert keepstep("check", "code", ".", "--baseline", "known.json", cwd=tmp_path).returncode == 0


def test_a_named_file_of_something_else_is_not_called_fine(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    done = keepstep("check", "code", "package.json", cwd=tmp_path)
    assert done.returncode == 3 and "no settings of a training that keepstep knows" in done.stdout


def test_a_comment_switches_a_finding_off_in_yaml_and_in_a_script(tmp_path: Path) -> None:
    head = "distributed_type: MULTI_GPU\nnum_machines: 2\n"
    yaml = f"{head}num_processes: 3  # keepstep: ignore[COD405] the last one idles\n"
    script = "# keepstep: off[COD412]\ntorchrun --standalone --nnodes=2 train.py\n# keepstep: on\n"
    assert found_in(tmp_path, {"a.yaml": yaml, "run.sh": script}) == []
    assert {rule for rule, _, _ in found_in(tmp_path, {"a.yaml": yaml.partition("#")[0]})} == {"COD405"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data.json", '[{"train_batch_size": 3}]'),
        ("broken.json", '{"a": [1, 2'),
        ("template.json", '{"zero_optimization": {"stage": STAGE}, "train_batch_size": 7}'),
        ("auto.json", '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 3, "zero_optimization": {}}'),
        ("helm.yaml", "apiVersion: batch/v1\nkind: Job\n{{- if .Values.on }}\nspec: {{ .Values.spec }}\n{{- end }}\n"),
        ("broken.yaml", "a: [1, 2\nb: : :\n"),
        ("several.yaml", "---\na: 1\n---\n---\n- b\n---\napiVersion: v1\nkind: List\nitems: []\n"),
        ("circle.yaml", "apiVersion: v1\nkind: Job\nspec: &a\n  again: *a\n"),
        ("deep.yaml", "trainer: " + "[" * 400),
        ("deep.json", '{"zero_optimization": ' + "[" * 5000),
        ("empty.sh", ""),
        ("other.sh", "echo torchrun --standalone --nnodes=2\n# torchrun --standalone --nnodes=2 train.py\n"),
        ("here.sh", "cat > job.sh <<EOF\ntorchrun --standalone --nnodes=2 train.py\nEOF\n"),
        ("unknown.sh", "torchrun --standalone --nnodes=$N train.py\n"),
        ("loop.sh", "N=2\nfor N in 1 2; do\n  torchrun --standalone --nnodes=$N train.py\ndone\n"),
        ("quote.sh", "torchrun --nnodes='2\n"),
    ],
)
def test_data_templates_and_unknown_values_are_survived_in_silence(tmp_path: Path, name: str, text: str) -> None:
    assert found_in(tmp_path, {name: text, "train.py": "print(1)\n"}) == []


def test_settings_of_tests_are_read_only_if_they_are_named(tmp_path: Path) -> None:
    assert found_in(tmp_path, {"tests/ds.json": BOTH, "train.py": "print(1)\n"}) == []
    assert check_code(CodeRequest(paths=(tmp_path / "tests" / "ds.json",))).report.findings


def test_comments_and_a_last_comma_are_forgiven_and_lines_stay(tmp_path: Path) -> None:
    text = BOTH.replace("4,\n", "4, // per GPU\n").replace("true\n  }\n", "true,\n  },\n")
    assert found_in(tmp_path, {"ds.json": text}) == [("COD402", "ds.json", 5)]


def test_a_key_twice_is_found_in_deepspeeds_json(tmp_path: Path) -> None:
    text = '{\n\t"zero_optimization": {"stage": 1},\n\t"fp16": {},\n\t"zero_optimization": {"stage": 2}\n}\n'
    assert found_in(tmp_path, {"ds.json": text}) == [("COD401", "ds.json", 4)]


def test_accelerate_and_the_program_are_held_against_deepspeeds_file(tmp_path: Path) -> None:
    ds = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'
    call = "TrainingArguments('out', fp16=True, deepspeed='conf/ds.json')"
    program = f"from transformers import TrainingArguments\n\nargs = {call}\n"
    files = {"conf/ds.json": ds, "accelerate.yaml": ACCELERATE, "train.py": program}
    assert found_in(tmp_path, files) == [("COD402", "accelerate.yaml", 5), ("COD402", "train.py", 3)]
    agreed = {name: text.replace("fp16", "bf16") for name, text in files.items()}
    assert found_in(tmp_path, agreed) == []


def test_ranks_that_accelerate_or_a_script_name_are_multiplied(tmp_path: Path) -> None:
    sizes = '"train_batch_size": 96, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2'
    ds = f'{{{sizes}, "zero_optimization": {{}}}}'
    script = "deepspeed --num_gpus=4 train.py --deepspeed conf/ds.json\n"
    assert found_in(tmp_path, {"conf/ds.json": ds, "run.sh": script}) == [("COD403", "conf/ds.json", 1)]
    assert found_in(tmp_path, {"conf/ds.json": ds.replace("96", "64")}) == []


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("srun bash -c 'torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4 train.py --settings=ds.json'", True),
        ("srun torchrun --nnodes ${SLURM_JOB_NUM_NODES} --nproc-per-node 4 train.py --ds-config ds.json", True),
        ("srun torchrun --nnodes=2 --nproc_per_node=$SLURM_GPUS_ON_NODE train.py ds.json", True),
        ("accelerate launch --num_processes=8 --deepspeed_config_file=ds.json train.py", True),
        ("srun --ntasks-per-node=4 python train.py --deepspeed ds.json", True),
        ("srun torchrun --nnodes=$NODES --nproc_per_node=4 train.py --settings=ds.json", False),
        ("srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$N train.py --settings=ds.json", False),
        ("srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4 train.py --settings=other.json", False),
        ("python train.py --settings=ds.json", False),
        ("srun -N 1 --ntasks-per-node=1 python write.py ds.json", False),
        (
            "srun torchrun --nnodes=1 --nproc_per_node=4 a.py ds.json\nsrun torchrun --nproc_per_node=2 b.py ds.json",
            False,
        ),
    ],
)
def test_ranks_that_slurm_gives_are_multiplied(tmp_path: Path, command: str, is_told: bool) -> None:
    sizes = '"train_batch_size": 256, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2'
    ds = f'{{{sizes}, "zero_optimization": {{}}}}'
    script = SBATCH.format(nodes=2, tasks=1) + f"{command}\n"
    for whole, expected in (("256", [("COD403", "ds.json", 1)] if is_told else []), ("128", [])):
        found = found_in(tmp_path, {"ds.json": ds.replace("256", whole), "run.sh": script})
        assert [each for each in found if each[0] == "COD403"] == expected


@pytest.mark.parametrize(
    ("command", "nodes", "tasks", "rules"),
    [
        (f"srun torchrun --nnodes=2 --nproc_per_node=4 {MEET} train.py", 2, 1, set()),
        (f"srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc_per_node=4 {MEET} train.py", 2, 4, set()),
        (f"srun torchrun --nnodes=2 --nproc_per_node=4 {MEET} train.py", 2, 4, {"COD415"}),
        (f"srun -n 8 torchrun --nnodes=2 --nproc_per_node=4 {MEET} train.py", 2, 1, {"COD415"}),
        (f"torchrun --nnodes=2 --nproc_per_node=4 {MEET} train.py", 2, 1, {"COD417"}),
        (f"torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4 {MEET} train.py", 2, 1, {"COD417"}),
        (f"ssh $OTHER hostname\ntorchrun --nnodes=2 --nproc_per_node=4 {MEET} train.py", 2, 1, set()),
        ("torchrun --nproc_per_node 8 train.py", 1, 1, {"COD414"}),
        ("N=8\ntorchrun --nproc_per_node=${N} train.py", 1, 1, {"COD414"}),
        ("ARGS=(\n  --nproc_per_node 8  # all\n)\ntorchrun ${ARGS[@]} train.py", 1, 1, {"COD414"}),
        ("N=8\nN=4\ntorchrun --nproc_per_node=$N train.py", 1, 1, set()),
        ("python -m torch.distributed.launch \\\n  --nproc_per_node=8 \\\n  train.py", 1, 1, {"COD414"}),
        ("srun torchrun --nnodes 2 --node_rank 0 --master_addr $HEAD train.py", 2, 1, {"COD411"}),
        ("srun torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr $HEAD train.py", 2, 1, {"COD411"}),
        (f"srun torchrun --nnodes 2 --node_rank 0 {MEET} train.py", 2, 1, set()),
        ("srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr $HEAD train.py'", 2, 1, set()),
        ("srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint localhost:29500 train.py", 2, 1, {"COD413"}),
        ("export MASTER_ADDR=127.0.0.1\nsrun python train.py", 2, 4, {"COD413"}),
        ("export MASTER_ADDR=127.0.0.1\nsrun python train.py", 1, 4, set()),
        ("srun torchrun --standalone --nproc_per_node=4 train.py", 2, 1, {"COD412"}),
        ("srun python train.py trainer.devices=4 trainer.num_nodes=4", 2, 4, {"COD418"}),
        ("srun python train.py trainer.devices=4 trainer.num_nodes=2", 2, 4, set()),
        ("srun python train.py fit --trainer.devices 2", 1, 4, {"COD418"}),
        ("srun python train.py fit --config lightning.yaml", 2, 4, {"COD418"}),
    ],
)
def test_what_a_batch_script_says_is_compared(
    tmp_path: Path, command: str, nodes: int, tasks: int, rules: set[str]
) -> None:
    lightning = "trainer:\n  devices: 8\n  num_nodes: 2\n  max_epochs: 3\n"
    script = SBATCH.format(nodes=nodes, tasks=tasks) + command + "\n"
    found = found_in(tmp_path, {"run.sbatch": script, "lightning.yaml": lightning})
    assert {rule for rule, _, _ in found} == rules


def test_two_trainings_meet_at_one_port_only_if_they_run_beside_each_other(tmp_path: Path) -> None:
    first, second = (f"torchrun --master_port=29500 --nproc_per_node=2 {name}.py" for name in ("a", "b"))
    assert found_in(tmp_path, {"run.sh": f"{first} &\n{second} &\nwait\n"}) == [("COD416", "run.sh", 2)]
    assert found_in(tmp_path, {"run.sh": f"{first}\n{second}\n"}) == []
    assert found_in(tmp_path, {"run.sh": f"{first} > log 2>&1\n{second} &> log\n{first} |& tee log\n"}) == []
    assert found_in(tmp_path, {"run.sh": f"{first} &\nwait\n{second} &\nwait\n"}) == []
    assert found_in(tmp_path, {"run.sh": f"if [ $1 = a ]; then\n  {first} &\nelse\n  {second} &\nfi\n"}) == []
    nodes = "torchrun --nnodes=2 --node_rank={} --master_port=29500 a.py &\n"
    assert found_in(tmp_path, {"run.sh": nodes.format(0) + nodes.format(1)}) == []


def test_two_services_of_a_compose_file_have_one_index(tmp_path: Path) -> None:
    service = (
        "  {}:\n    image: train:1\n    environment:\n      - MASTER_ADDR=a\n      - WORLD_SIZE=2\n      - RANK={}\n"
    )
    text = "services:\n" + service.format("a", 0) + service.format("b", 0)
    assert found_in(tmp_path, {"compose.yaml": text}) == [("COD421", "compose.yaml", 13)]
    assert found_in(tmp_path, {"compose.yaml": "services:\n" + service.format("a", 0) + service.format("b", 1)}) == []


def test_an_operators_job_is_counted_and_gives_its_own_ranks(tmp_path: Path) -> None:
    def role(name: str, replicas: int) -> str:
        spec = "{containers: [{name: pytorch, image: x, command: [torchrun, --nnodes, '3', --nproc_per_node=4, t.py]}]}"
        return f"    {name}:\n      replicas: {replicas}\n      template:\n        spec: {spec}\n"

    head = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: t}\nspec:\n  pytorchReplicaSpecs:\n"
    wrong, right = (head + role("Master", 1) + role("Worker", count) for count in (3, 2))
    assert [rule for rule, _, _ in found_in(tmp_path, {"job.yaml": wrong})] == ["COD423"]
    assert found_in(tmp_path, {"job.yaml": right}) == []
    elastic = wrong.replace("spec:\n  pytorch", "spec:\n  elasticPolicy: {minReplicas: 1}\n  pytorch")
    assert found_in(tmp_path, {"job.yaml": elastic}) == []


def test_a_train_job_has_its_own_words_for_nodes_and_gpus(tmp_path: Path) -> None:
    job = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  trainer:
    numNodes: 2
    command: [torchrun, --nnodes=4, --nproc_per_node=8, train.py]
    resourcesPerNode: {limits: {nvidia.com/gpu: 4}}
"""
    assert found_in(tmp_path, {"job.yaml": job}) == [("COD414", "job.yaml", 7), ("COD423", "job.yaml", 7)]
    assert found_in(tmp_path, {"job.yaml": job.replace("nodes=4", "nodes=2").replace("node=8", "node=4")}) == []


def test_a_pod_without_a_command_and_a_srun_without_a_program_are_survived(tmp_path: Path) -> None:
    job = "apiVersion: batch/v1\nkind: Job\nspec: {parallelism: 2, template: {spec: {containers: [{name: a}]}}}\n"
    assert found_in(tmp_path, {"job.yaml": job, "run.sh": "#SBATCH --nodes=2\nsrun python\nsrun\n"}) == []


def test_broken_yaml_of_a_training_is_a_finding_with_its_line(tmp_path: Path) -> None:
    text = "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: [4\nmixed_precision: no\n"
    assert [(rule, file) for rule, file, _ in found_in(tmp_path, {"a.yaml": text})] == [("COD401", "a.yaml")]


def test_settings_are_kept_and_judged_again_with_the_programs_that_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    ds = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'
    files = {f"m{number}.py": "import torch\n" for number in range(cache.FROM_FILES)}
    files |= {f"data/{number}.json": f'{{"n": {number}}}' for number in range(9)}
    files |= {
        "conf/ds.json": ds,
        "other/same.json": ds,
        "names.py": "DS = 'conf/ds.json'\n",
        "accelerate.yaml": ACCELERATE,
    }
    files["train.py"] = (
        "from transformers import TrainingArguments\nfrom names import DS\n\n"
        "args = TrainingArguments('out', fp16=True, deepspeed=DS)\n"
    )
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    asked: list[list[tuple[str, ...]]] = []
    read: list[str] = []

    def watched(islands: Any, *more: Any) -> Any:
        asked.append(islands)
        return judged(islands, *more)

    def watched_read(given: Any, *more: Any) -> Any:
        read.extend(Path(each.shown).name for each in given)
        return read_all(given, *more)

    monkeypatch.setattr("keepstep.check.code.check_code.judged", watched)
    monkeypatch.setattr("keepstep.check.code.check_code.read_all", watched_read)
    wrong = [("COD402", "accelerate.yaml", 5), ("COD402", "train.py", 4)]
    assert found_in(project, files) == wrong
    asked.clear()
    read.clear()
    assert found_in(project, {}) == wrong and asked == [] and read == []
    assert found_in(project, {"other/same.json": ds + "\n"}) == wrong and read == ["same.json"]
    (island,) = asked.pop()
    assert {Path(each).name for each in island} == {"names.py", "train.py", "ds.json", "same.json", "accelerate.yaml"}
    assert found_in(project, {"conf/ds.json": ds.replace("bf16", "fp16")}) == []
    assert found_in(project, {"conf/ds.json": ds, "accelerate.yaml": "x: 1\n"}) == wrong[1:]
    (project / "conf/ds.json").unlink()
    assert found_in(project, {}) == []


def test_settings_on_standard_input_are_judged_by_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, name, status, words in (
        (BOTH, "conf/ds.json", 1, "conf/ds.json:5:5: COD402"),
        ('{"name": 1}', "package.json", 3, "no settings of a training"),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        done = keepstep("check", "code", "-", "--stdin-filename", name, cwd=tmp_path)
        assert done.returncode == status and words in done.stdout, done.stdout


def test_nothing_in_settings_is_changed_by_fix(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(BOTH)
    assert keepstep("check", "code", ".", "--fix", "--unsafe-fixes", cwd=tmp_path).returncode == 1
    assert (tmp_path / "ds.json").read_text() == BOTH


TF_CONFIG = """apiVersion: batch/v1
kind: Job
metadata: {name: score}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: score:1
          command: [python, score.py]
          env:
            - name: TF_CONFIG
              value: '%s'
"""
TWO_TASKS = '{"cluster": {"worker": ["a-0:1", "a-1:1"]}, "task": {"type": "worker", "index": 1}}'


def test_pods_that_all_get_one_tf_config_have_one_index(tmp_path: Path) -> None:
    assert found_in(tmp_path, {"job.yaml": TF_CONFIG % TWO_TASKS}) == [("COD421", "job.yaml", 17)]


@pytest.mark.parametrize(
    "text",
    [
        '{"cluster": {"worker": ["a-0:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a-0:1", "a-1:1"]}}',
        TWO_TASKS.replace(": 1}", ": $(INDEX)}"),
        '["no", "cluster"]',
        "{torn",
    ],
)
def test_a_tf_config_that_names_no_task_for_all_pods_is_left_alone(text: str, tmp_path: Path) -> None:
    assert found_in(tmp_path, {"job.yaml": TF_CONFIG % text}) == []


def test_one_pod_may_have_a_tf_config_of_its_own(tmp_path: Path) -> None:
    text = TF_CONFIG.replace("completions: 2", "completions: 1").replace("parallelism: 2", "parallelism: 1")
    assert found_in(tmp_path, {"job.yaml": text % TWO_TASKS}) == []
