# SPDX-License-Identifier: Apache-2.0
"""Secrets go, ordinary text of training logs stays."""

from __future__ import annotations

import re
import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keepstep.base.redact import MARK, redact, redacted
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.process import ExceptionRaised, Frame
from keepstep.model.finding import Confidence, Finding, Fix, Severity, Standing
from keepstep.model.report import Report, Verdict

ALNUM = string.ascii_letters + string.digits
BODY = "Zq7Rk2Xw9Tn4Vb8Lm3Pc6Yd1Hs5Gf0Ja"  # 32 characters that nobody would write by hand

SECRETS = {
    "password in the environment": ("MASTER PASSWORD=hunter2,x&y done", "hunter2,x&y"),
    "password with closing bracket first": ("PASSWORD=)abc99", ")abc99"),
    "password in Python": ("connect(user='me', password='hun ter2')", "hun ter2"),
    "password in JSON": ('{"user": "me", "password": "hunt\\"er2"}', 'hunt\\"er2'),
    "password in JSON in JSON": (r"{\"password\": \"hunter2\", \"a\": 1}", "hunter2"),
    "password in YAML": ("  db_password: hunter2", "hunter2"),
    "password as a flag": ("srun train.py --password hunter2 --lr 0.1", "hunter2"),
    "password as a flag with equals": ("train.py --db-password=hunter2", "hunter2"),
    "password in a list of arguments": ("['train.py', '--password', 'hunter2', '--lr']", "hunter2"),
    "password cut off inside its quotes": ('login(password="hunter2', "hunter2"),
    "password by its short name": ("MYSQL_PWD=hunter2", "hunter2"),
    "password of a data base": ("Server=db;Uid=me;Pwd=hunter2;", "hunter2"),
    "DB_PASS": ("DB_PASS=hunter2", "hunter2"),
    "environ": ("os.environ['WANDB_API_KEY'] = '" + "ab12" * 10 + "'", "ab12" * 10),
    "environ item": ("('HF_TOKEN', 'whatever1')", "whatever1"),
    "W&B": ("WANDB_API_KEY=" + "0123456789" * 4, "0123456789" * 4),
    "W&B login": ("wandb login --relogin " + "0123456789" * 4, "0123456789" * 4),
    "netrc": (f"machine api.wandb.ai login user password {BODY}", BODY),
    "api_key with a colon": (f"api_key: {BODY}", BODY),
    "camel case": (f'"secretAccessKey":"{BODY}"', BODY),
    "API key in prose": (f"Incorrect API key provided: {BODY}.", BODY),
    "x-api-key header": (f"x-api-key: {BODY}", BODY),
    "flag of an API key": (f"eval --openai_api_key {BODY}", BODY),
    "AWS id": ("using AKIAIOSFODNN7EXAMPLE here", "AKIAIOSFODNN7EXAMPLE"),
    "AWS id of a session": ("ASIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"),
    "AWS secret": ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"),
    "AWS session": (f"AWS_SESSION_TOKEN={BODY}//x==", BODY),
    "GitHub": (f"git clone with ghp_{BODY}wxyz", f"ghp_{BODY}"),
    "GitHub fine-grained": (f"github_pat_11ABC_{BODY}", BODY),
    "GitLab": (f"glpat-{BODY[:20]}", BODY[:20]),
    "Hugging Face": (f"token hf_{BODY}Ab was refused", f"hf_{BODY}"),
    "Hugging Face, shortened": (f"login failed for hf_{BODY[:12]}...", BODY[:12]),
    "OpenAI": (f"key sk-{BODY}{BODY[:16]}", BODY),
    "OpenAI project": (f"sk-proj-{BODY}_{BODY[:5]}-x", BODY),
    "Anthropic": (f"sk-ant-api03-{BODY}", BODY),
    "Slack": ("xoxb-123456789012-abcdefABCDEF", "123456789012-abcdefABCDEF"),
    "Slack hook": ("https://hooks.slack.com/services/T000/B000/XXXXabcd", "T000/B000/XXXXabcd"),
    "Google": (f"AIza{BODY}abc", BODY),
    "NGC": (f"nvapi-{BODY}", BODY),
    "JWT": ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4", "eyJzdWIiOiIxMjM0In0"),
    "Bearer": (f"-H 'Authorization: Bearer {BODY}'", BODY),
    "Bearer alone": (f"sent Bearer {BODY} to hub", BODY),
    "Basic": ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "Authorization in a dict": (f"{{'Authorization': 'token {BODY}'}}", BODY),
    "cookie": ("Cookie: session=abc123; user=me", "abc123"),
    "set-cookie": ("Set-Cookie: sid=s3cr3t; HttpOnly", "s3cr3t"),
    "URL": ("https://me:hunter2@example.org/repo.git", "hunter2"),
    "URL with an at in its password": ("postgres://me:hun@ter2@db:5432/x", "hun@ter2"),
    "URL with a slash in its password": ("redis://me:hun/ter2@db:6379/0", "hun/ter2"),
    "URL with a token for a user": (f"https://{BODY}@github.com/a/b", BODY),
    "URL with a password only": ("redis://:hunter2@cache:6379", "hunter2"),
    "URL, shortened": ("mongodb://me:hunter2long...", "hunter2long"),
    "signed URL of S3": ("https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=abcdef0123", "abcdef0123"),
    "signed URL of Azure": ("https://a.blob.core.windows.net/c?sv=2020&sig=Zm9v%3D&se=x", "Zm9v%3D"),
    "Azure connection string": (f"DefaultEndpointsProtocol=https;AccountKey={BODY}==;EndpointSuffix=x", BODY),
    "Jupyter": ("http://localhost:8888/?token=0123456789abcdef0123", "0123456789abcdef0123"),
    "token of random look": (f"token: {BODY}", BODY),
    "invalid token": (f"Invalid token: {BODY}", BODY),
    "auth token": ("authToken='abc'", "abc"),
    "docker login": ("docker login -u me -p hunter2 registry", "hunter2"),
    "curl": ("curl -s -u me:hunter2 http://x", "hunter2"),
    "XML": ("<password>hunter2</password>", "hunter2"),
    "kaggle": ('{"username":"me","key":"0123456789abcdef0123456789abcdef"}', "0123456789abcdef0123456789abcdef"),
    "PEM": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----\nnext", "MIIEow"),
    "PEM in JSON": (r'"private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\n"', "MIIEvQ"),
    "PEM in YAML": ("private_key: -----BEGIN PRIVATE KEY-----\n  MIIEvQ\n  -----END PRIVATE KEY-----", "MIIEvQ"),
    "PEM cut off": ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA", "b3BlbnNzaC1rZXk"),
    "PEM with rank prefixes": (
        "[rank0]: -----BEGIN EC PRIVATE KEY-----\n[rank0]: MHcCAQ\n[rank0]: -----END EC PRIVATE KEY-----",
        "MHcCAQ",
    ),
    "shape inside a longer password": (f"PASSWORD=ghp_{BODY}!tail9", "tail9"),
}

ORDINARY = [
    "PWD=/home/me/project OLDPWD=/home/me",
    'File "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1501, in _call_impl',
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x768 and 512x10)",
    "tokenizer_config: pad_token='<pad>', eos_token='</s>', bos_token_id=1, max_new_tokens=128",
    "PAD_TOKEN=<pad> num_tokens: 2048 tokens per second: 51234.5",
    'Setting `pad_token_id` to `eos_token_id`:50256 for open-end generation. eos_token: "<|endoftext|>"',
    "SyntaxError: unexpected token: '}'",
    "use_auth_token=True, token=None, hf_token: null, password=None",
    "def login(user: str, password: str, token: Optional[str] = None) -> None:",
    "ncclUniqueId 0x7f3a9c0012ab commId 0x9b2df1a0c4e37f21 rank 3 nranks 8",
    "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)",
    "missing key(s) in state_dict: 'layer.0.attention.key.weight', unexpected key(s): 'query_key_value.bias'",
    "KeyError: 'api_key'",
    "tcp://10.0.0.1:29500 http://node-b:8080/path?email=me@example.org grpc://worker0:2222",
    "init_method=env:// master=10.1.2.3:29500 git@github.com:org/repo.git ssh://git@host/repo",
    "https://me@example.org/repo",
    "GOOGLE_APPLICATION_CREDENTIALS=/etc/keys/sa.json",
    'MountVolume.SetUp failed for volume "ssh" : secret "training-ssh" not found',
    "forward_pass: 0.12 s, backward_pass=0.3 s, PASS: test_all_reduce",
    "task-00000000-1111-2222-3333-444444444444 disk-0123456789abcdefghij0123",
    "sk-learn-contrib imports hf_transformers and hf_hub_download",
    "loss=0.693 lr=1e-4 step=100/1000 key=value keys: 12 batch_key=x",
    "asyncio.exceptions.CancelledError ASIA-NORTHEAST1 asia-northeast1-c",
    "cookiecutter template; accept cookies",
    "wandb: Paste an API key from your profile and hit enter",
    "bearer of bad news; Basic authentication failed",
    "PASSWORD=$DB_PASSWORD --token ${HF_TOKEN}",
    "api_key=os.environ['OPENAI_API_KEY'],",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS.keys())
def test_secret_is_taken_out(text: str, secret: str) -> None:
    clean = redact(text)
    assert secret not in clean
    assert MARK in clean


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS.keys())
def test_redacting_twice_changes_nothing(text: str, secret: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_what_stands_around_a_secret_stays() -> None:
    assert redact("run: export HF_TOKEN=hf_abc && torchrun") == "run: export HF_TOKEN=[redacted] && torchrun"
    assert redact("connect(password='x1', host='b')") == "connect(password='[redacted]', host='b')"
    assert redact("https://me:pw@example.org/a?b=c") == "https://[redacted]@example.org/a?b=c"
    assert redact("Authorization: Bearer abc123def456ghi") == "Authorization: Bearer [redacted]"


NAMES = ["PASSWORD", "db_password", "HF_TOKEN", "WANDB_API_KEY", "aws_secret_access_key", "clientSecret", "X-Api-Key"]
FORMS = ["{n}={v}", "{n}='{v}'", '{n}="{v}"', '"{n}": "{v}"', "{n}: {v}", "--{n} {v}", "--{n}={v}", "('{n}', '{v}')"]


@given(
    st.sampled_from(NAMES),
    st.sampled_from(FORMS),
    st.text(alphabet=ALNUM + "+/_-", min_size=12, max_size=60),
    st.sampled_from(["", "[rank0]: ", "I1114 10:00:00 worker.cc:12] ", "{'a': 1} "]),
    st.sampled_from(["", " and more", "\nnext line"]),
)
@example(name="PASSWORD", form="('{n}', '{v}')", body="00000000000_", before="", after="")
def test_a_named_secret_never_comes_through(name: str, form: str, body: str, before: str, after: str) -> None:
    value = "S3" + body
    assert value not in redact(before + form.format(n=name, v=value) + after)


@given(
    st.sampled_from(["ghp_", "hf_", "sk-", "AIza", "glpat-", "xoxb-", "nvapi-"]),
    st.text(alphabet=ALNUM, min_size=36, max_size=48),
    st.text(alphabet=" :=\"'()[]{},;|<>/\n", max_size=3),
    st.text(alphabet=" \"'()[]{},;|<>/\n", max_size=3),
)
def test_a_token_is_known_by_its_shape_anywhere(prefix: str, body: str, before: str, after: str) -> None:
    assert body not in redact(before + prefix + body + after)


@given(st.text(max_size=300))
def test_any_text_is_redacted_without_error_and_once_is_enough(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(
    st.lists(st.sampled_from(["password", "token=", ":", "'", '"', "\\", "://", "@", "=", " ", "\n", "x1", MARK, ","]))
)
@example(["password", "'", ",", "\\", "'", "password", "'", "password"])
def test_hostile_pieces_are_redacted_once(pieces: list[str]) -> None:
    once = redact("".join(pieces))
    assert redact(once) == once


@pytest.mark.parametrize(
    "line",
    [
        "a" * 64_000,
        "password=" * 7_000,
        "--a-" * 16_000,
        "://a:" * 12_000,
        "-----BEGIN PRIVATE KEY-----" * 2_300,
        "token='" * 9_000,
        "password=" + "," * 60_000,
        "curl -u " * 8_000,
        "eyJ" * 21_000,
        "Authorization: " * 4_000,
        '\\"' * 30_000,
    ],
    ids=lambda line: line[:12],
)
def test_a_long_hostile_line_takes_no_time(line: str) -> None:
    began = time.thread_time()
    redact(line)
    assert time.thread_time() - began < 3.0


def test_every_text_of_a_report_is_redacted() -> None:
    secret = f"ghp_{BODY}"
    fact = ExceptionRaised(type="OSError", message=f"bad {secret}", frames=(Frame(function=secret, file="a.py"),))
    evidence = Evidence(fact=fact, origin=Origin(source=f"{secret}.log", line=3), quote=f"x {secret}")
    finding = Finding(
        rule="USR001",
        cause=Cause.USER_CODE_EXCEPTION,
        title=f"rank 1 said {secret}",
        because=f"of {secret}",
        evidence=(evidence,),
        ranks=(1,),
        confidence=Confidence.ESTABLISHED,
        severity=Severity.FATAL,
        standing=Standing.EXCEPTION,
        fixes=(Fix(do=f"use {secret}", command=f"export X={secret}"),),
    )
    report = Report(verdict=Verdict.FAILED, findings=(finding,))
    assert len(re.findall(BODY, repr(report))) == 8
    assert BODY not in repr(redacted(report))
    assert redacted(report).findings[0].cause is Cause.USER_CODE_EXCEPTION


def test_a_clean_report_is_not_copied() -> None:
    report = Report(verdict=Verdict.HEALTHY)
    assert redacted(report) is report
