# SPDX-License-Identifier: Apache-2.0
"""Secrets of many kinds, as logs contain them. All are generated from a seed, so no file here holds one.

A kind is a function of a maker of random texts. It writes the text of a log with :meth:`Maker.secret` around what must
not be seen again.
"""

from __future__ import annotations

import base64
import json
import random
import string
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

DIGITS, HEX = string.digits, "0123456789abcdef"
LOWER, UPPER = string.ascii_lowercase, string.ascii_uppercase
ALNUM = string.ascii_letters + DIGITS
URLSAFE, BASE64 = ALNUM + "_-", ALNUM + "+/"
PUNCTUATED = ALNUM + "!#%^*+-_.~"
COLOURS = ("\x1b[31m", "\x1b[0m", "\x1b[1;32m", "\x1b[38;5;12m")


@dataclass
class Maker:
    """Random texts, the same for the same seed. ``secrets`` are those that must not be seen again."""

    random: random.Random
    secrets: list[str] = field(default_factory=list)

    def of(self, letters: str, length: int) -> str:
        return "".join(self.random.choices(letters, k=length))

    def secret(self, text: str) -> str:
        self.secrets.append(text)
        return text

    def alnum(self, length: int = 32) -> str:
        """With a letter of each case and a digit in it, as most generators see to."""
        made = [self.of(LOWER, 1), self.of(UPPER, 1), self.of(DIGITS, 1), *self.of(ALNUM, length - 3)]
        self.random.shuffle(made)
        return self.secret("".join(made))

    def hex(self, length: int = 32) -> str:
        return self.secret(self.of(HEX, length))

    def urlsafe(self, length: int = 32) -> str:
        return self.secret(self.of(ALNUM, 1) + self.of(URLSAFE, length - 2) + self.of(ALNUM, 1))

    def base64(self, length: int = 40) -> str:
        return self.secret(self.of(BASE64, length))

    def password(self, length: int = 14) -> str:
        """As a person or a password manager chooses one: ends in letters, has a digit."""
        return self.secret(self.of(ALNUM, 2) + self.of(DIGITS, 1) + self.of(PUNCTUATED, length - 5) + self.of(ALNUM, 2))

    def pem(self, kind: str, lines: int = 6) -> str:
        body = "\n".join(self.base64(64) for _ in range(lines))
        return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"

    def aws_secret(self) -> str:
        return self.secret(self.of(UPPER, 1) + self.of(LOWER, 1) + self.of(DIGITS, 1) + self.of(BASE64, 37))

    def jwt(self) -> str:
        head = (
            base64.urlsafe_b64encode(json.dumps({"alg": "RS256", "kid": self.of(ALNUM, 20)}).encode())
            .decode()
            .rstrip("=")
        )
        body = (
            base64.urlsafe_b64encode(json.dumps({"sub": self.of(DIGITS, 12), "aud": self.of(LOWER, 30)}).encode())
            .decode()
            .rstrip("=")
        )
        return f"{head}.{self.secret(body)}.{self.urlsafe(80)}"

    def uuid(self) -> str:
        return self.secret("-".join(self.of(HEX, n) for n in (8, 4, 4, 4, 12)))


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


MakesSecret = Callable[[Maker], str]
KINDS: dict[str, dict[str, MakesSecret]] = {}


def _family(name: str, kinds: dict[str, MakesSecret]) -> None:
    KINDS[name] = kinds


def every_kind() -> list[tuple[str, str]]:
    return [(family, kind) for family, kinds in KINDS.items() for kind in kinds]


def planted(family: str, kind: str, seed: int = 0) -> tuple[str, tuple[str, ...]]:
    """The text of a log, and what must not be seen again of it."""
    maker = Maker(random.Random(f"{family}/{kind}/{seed}"))
    text = KINDS[family][kind](maker)
    hidden = maker.secrets
    assert hidden and all(len("".join(each.split())) >= READABLE for each in hidden), f"{kind} plants nothing"
    return text, tuple(hidden)


READABLE = 8
"""So many characters of a secret in a row are a leak. All planted ones have at least as many."""


def readable(text: str) -> set[str]:
    """All rows of eight characters in it. Line breaks and blanks hide nothing."""
    seen = "".join(text.split())
    return {seen[i : i + READABLE] for i in range(len(seen) - READABLE + 1)}


def leaks(hidden: str, text: str) -> bool:
    return not readable(hidden).isdisjoint(readable(text))


def _prefixed(*parts: str, letters: str = ALNUM, length: int = 36) -> MakesSecret:
    """A token whose prefix is assembled here, so no scanner mistakes this file for a leak."""
    return lambda m: (
        f"RuntimeError: 401 for {''.join(parts)}"
        + m.secret(m.of(letters.rstrip("+/_-"), 2) + m.of(letters, length - 3) + m.of(DIGITS, 1))
        + " from the server"
    )


_family(
    "tokens of code hosts and registries",
    {
        "GitHub personal": _prefixed("gh", "p_"),
        "GitHub app": _prefixed("gh", "s_"),
        "GitHub OAuth": _prefixed("gh", "o_"),
        "GitHub fine-grained": _prefixed("github", "_pat_", letters=ALNUM + "_", length=82),
        "GitLab personal": _prefixed("gl", "pat-", letters=URLSAFE, length=20),
        "GitLab runner": _prefixed("gl", "rt-", letters=URLSAFE, length=20),
        "GitLab runner registration": _prefixed("GR", "1348941", letters=URLSAFE, length=20),
        "GitLab CI job": _prefixed("gl", "cbt-64_", letters=URLSAFE, length=20),
        "Bitbucket app password": _prefixed("AT", "BB", length=32),
        "Atlassian API": _prefixed("ATA", "TT3xFfGF0", letters=URLSAFE, length=60),
        "npm": _prefixed("np", "m_"),
        "npm in .npmrc": lambda m: f"//registry.npmjs.org/:_authToken={m.uuid()}",
        "npm _auth": lambda m: f"_auth={m.secret(_b64('ci-bot:' + m.of(ALNUM, 16)))}",
        "PyPI": _prefixed("py", "pi-AgEIcHlwaS5vcmc", letters=URLSAFE, length=80),
        "PyPI in .pypirc": lambda m: f"[pypi]\nusername = __token__\npassword = pypi-{m.urlsafe(80)}",
        "RubyGems": _prefixed("ruby", "gems_", letters=HEX, length=48),
        "Artifactory": _prefixed("AK", "Cp", length=69),
        "Docker Hub": _prefixed("dckr", "_pat_", letters=URLSAFE, length=27),
        "docker config auth": lambda m: '{{"auths": {{"registry.example.com": {{"auth": "{}"}}}}}}'.format(
            m.secret(_b64("ci:" + m.of(ALNUM, 16)))
        ),
        "docker config auth, pretty": lambda m: '"registry.example.com": {{\n        "auth": "{}"\n    }}'.format(
            m.secret(_b64("ci:" + m.of(ALNUM, 16)))
        ),
        "docker identity token": lambda m: f'"identitytoken": "{m.urlsafe(60)}"',
        "Sourcegraph": _prefixed("sg", "p_", letters=HEX, length=40),
    },
)
_family(
    "clouds",
    {
        "AWS access key id": lambda m: (
            f"botocore: using AK{'IA'}{m.secret(m.of(UPPER + '234567', 16))} from shared-credentials-file"
        ),
        "AWS session key id": lambda m: f"credentials AS{'IA'}{m.secret(m.of(UPPER + '234567', 16))} expired",
        "AWS secret by its name": lambda m: f"aws_secret_access_key = {m.aws_secret()}",
        "AWS secret in the environment": lambda m: f"AWS_SECRET_ACCESS_KEY={m.aws_secret()}",
        "AWS secret after its id": lambda m: f"AK{'IA'}{m.of(UPPER, 16)},{m.aws_secret()}",
        "AWS secret after its id, colon": lambda m: f"Credentials(AK{'IA'}{m.of(UPPER, 16)}:{m.aws_secret()})",
        "AWS session token": lambda m: f"AWS_SESSION_TOKEN={m.base64(200)}==",
        "AWS credentials as JSON": lambda m: json.dumps(
            {
                "AccessKeyId": "AS" + "IA" + m.of(UPPER, 16),
                "SecretAccessKey": m.aws_secret(),
                "SessionToken": m.base64(120),
            }
        ),
        "AWS configure set": lambda m: f"+ aws configure set aws_secret_access_key {m.aws_secret()}",
        "AWS signature header": lambda m: (
            f"Authorization: AWS4-HMAC-SHA256 Credential=AK{'IA'}{m.of(UPPER, 16)}/20260101/us-east-1/s3/aws4_request, "
            f"SignedHeaders=host, Signature={m.hex(64)}"
        ),
        "AWS Bedrock": _prefixed("AB", "SK", letters=BASE64, length=120),
        "S3 presigned URL": lambda m: (
            f"GET https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&"
            f"X-Amz-Credential=AK{'IA'}{m.of(UPPER, 16)}%2F20260101&X-Amz-Expires=3600&X-Amz-Signature={m.hex(64)} "
            f"403"
        ),
        "S3 URL of the old kind": lambda m: (
            f"https://b.s3.amazonaws.com/k?AWSAccessKeyId=AK{'IA'}{m.of(UPPER, 16)}&"
            f"Signature={m.secret(quote(m.of(BASE64, 27), safe=''))}%3D&Expires=1"
        ),
        "S3 keys of fsspec": lambda m: (
            f"storage_options={{'key': 'AK{'IA'}{m.of(UPPER, 16)}', 'secret': '{m.aws_secret()}', 'anon': False}}"
        ),
        "MinIO": lambda m: f"MINIO_ROOT_USER=admin MINIO_ROOT_PASSWORD={m.password()}",
        "Google API key": _prefixed("AI", "za", letters=URLSAFE, length=35),
        "Google OAuth access": _prefixed("ya", "29.", letters=URLSAFE, length=120),
        "Google OAuth secret": _prefixed("GOC", "SPX-", letters=URLSAFE, length=28),
        "Google service account": lambda m: json.dumps(
            {
                "type": "service_account",
                "private_key_id": m.hex(40),
                "private_key": m.pem("PRIVATE KEY"),
                "client_email": "x@p.iam.gserviceaccount.com",
            }
        ),
        "Google signed URL": lambda m: (
            f"https://storage.googleapis.com/b/o?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature={m.hex(128)}"
        ),
        "Azure storage key": lambda m: (
            f"DefaultEndpointsProtocol=https;AccountName=data;AccountKey={m.base64(86)}==;EndpointSuffix=core.windows.net"
        ),
        "Azure connection string, named": lambda m: (
            f"AZURE_STORAGE_CONNECTION_STRING='BlobEndpoint=https://x;SharedAccessSignature=sv=2022&"
            f"sig={m.alnum(43)}%3D'"
        ),
        "Azure service bus": lambda m: (
            f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={m.base64(43)}="
        ),
        "Azure SAS URL": lambda m: (
            f"https://acct.blob.core.windows.net/c/ckpt?sv=2022-11-02&se=2026-01-01&sr=b&"
            f"sig={m.secret(quote(m.of(BASE64, 43), safe=''))}%3D"
        ),
        "Azure client secret by shape": lambda m: (
            "ClientSecretCredential refused "
            + m.secret(m.of(ALNUM, 3) + "8Q~" + m.of(ALNUM + "_~.-", 33) + m.of(ALNUM, 1))
        ),
        "Azure client secret by name": lambda m: f"AZURE_CLIENT_SECRET={m.password(36)}",
        "Azure OpenAI header": lambda m: f"api-key: {m.hex(32)}",
        "Alibaba": lambda m: f"aliyun: LT{'AI'}{m.alnum(20)} denied",
        "DigitalOcean": _prefixed("dop", "_v1_", letters=HEX, length=64),
        "Heroku": _prefixed("HRKU", "-AA", letters=URLSAFE, length=58),
        "Terraform": lambda m: f"error: token {m.alnum(14)}.atlasv1.{m.urlsafe(60)} was refused",
        "Vault": _prefixed("hv", "s.", letters=URLSAFE, length=90),
        "Vault header": lambda m: f"X-Vault-Token: s.{m.alnum(24)}",
        "Doppler": _prefixed("dp", ".pt.", length=43),
        "1Password": _prefixed("ops", "_eyJ", length=250),
        "Pulumi": _prefixed("pu", "l-", letters=HEX, length=40),
        "Tailscale": _prefixed("tskey", "-auth-", letters=URLSAFE, length=40),
        "OpenShift": _prefixed("sha256", "~", letters=URLSAFE, length=43),
    },
)
_family(
    "models, experiments, data",
    {
        "Hugging Face": _prefixed("h", "f_", letters=string.ascii_letters, length=34),
        "Hugging Face in the environment": lambda m: f"HUGGING_FACE_HUB_TOKEN={m.alnum(37)}",
        "Hugging Face, cut by the logger": lambda m: f"Invalid user token: h{'f_'}{m.alnum(14)}...",
        "OpenAI": _prefixed("sk", "-", length=48),
        "OpenAI project": _prefixed("sk", "-proj-", letters=URLSAFE, length=120),
        "OpenAI, in a message": lambda m: (
            f"Incorrect API key provided: {m.alnum(40)}. You can find your API key at the dashboard."
        ),
        "Anthropic": _prefixed("sk", "-ant-api03-", letters=URLSAFE, length=93),
        "OpenRouter": _prefixed("sk", "-or-v1-", letters=HEX, length=64),
        "Groq": _prefixed("gs", "k_", length=52),
        "xAI": _prefixed("xa", "i-", length=80),
        "Perplexity": _prefixed("pp", "lx-", length=48),
        "Replicate": _prefixed("r8", "_", length=37),
        "Pinecone": _prefixed("pc", "sk_", letters=ALNUM + "_", length=70),
        "NVIDIA": _prefixed("nv", "api-", letters=URLSAFE, length=64),
        "LangSmith": _prefixed("lsv2", "_pt_", letters=HEX, length=40),
        "W&B in the environment": lambda m: f"WANDB_API_KEY={m.hex(40)}",
        "W&B login": lambda m: f"+ wandb login --relogin {m.hex(40)}",
        "W&B of the new kind": _prefixed("wandb", "_v1_", length=60),
        "W&B in netrc": lambda m: f"machine api.wandb.ai\n  login user\n  password {m.hex(40)}",
        "Comet": lambda m: f"comet_ml.Experiment(api_key='{m.alnum(25)}', project_name='x')",
        "Comet in its file": lambda m: f"[comet]\napi_key = {m.alnum(25)}",
        "Neptune": lambda m: (
            "NEPTUNE: "
            + m.secret(_b64(json.dumps({"api_address": "https://app.neptune.ai", "api_key": m.of(HEX, 32)})))
        ),
        "MLflow password": lambda m: f"MLFLOW_TRACKING_USERNAME=me\nMLFLOW_TRACKING_PASSWORD={m.password()}",
        "MLflow token": lambda m: f"MLFLOW_TRACKING_TOKEN={m.urlsafe(40)}",
        "ClearML": lambda m: f'credentials {{"access_key" = "{m.alnum(20)}"  "secret_key" = "{m.alnum(50)}"}}',
        "Databricks": _prefixed("da", "pi", letters=HEX, length=32),
        "Snowflake": lambda m: f"snowflake.connector.connect(user='ml', password='{m.password()}', account='ab123')",
        "Kaggle": lambda m: json.dumps({"username": "me", "key": m.hex(32)}, separators=(",", ":")),
        "Kaggle in the environment": lambda m: f"KAGGLE_USERNAME=me KAGGLE_KEY={m.hex(32)}",
        "NGC": lambda m: f"NGC_CLI_API_KEY={m.secret(_b64(m.of(ALNUM, 60)))}",
        "Jupyter": lambda m: f"http://127.0.0.1:8888/lab?token={m.hex(48)}",
        "Prefect": _prefixed("pn", "u_"),
        "RunPod": _prefixed("rp", "a_", length=40),
        "Lightning": lambda m: f"LIGHTNING_API_KEY={m.uuid()}",
    },
)
_family(
    "messages, payments, others",
    {
        "Slack bot": lambda m: f"slack_sdk: xox{'b'}-{m.of(DIGITS, 12)}-{m.of(DIGITS, 13)}-{m.alnum(24)} invalid_auth",
        "Slack app": lambda m: f"xapp{'-1'}-A{m.of(UPPER, 10)}-{m.of(DIGITS, 13)}-{m.hex(64)}",
        "Slack hook": lambda m: (
            f"POST https://hooks.slack.com/services/T{m.of(UPPER, 9)}/B{m.of(UPPER, 9)}/{m.alnum(24)} 404"
        ),
        "Discord hook": lambda m: f"https://discord.com/api/webhooks/{m.of(DIGITS, 18)}/{m.urlsafe(68)}",
        "Teams hook": lambda m: (
            f"https://x.webhook.office.com/webhookb2/{m.uuid()}@{m.uuid()}/IncomingWebhook/{m.hex(32)}/{m.uuid()}"
        ),
        "Discord bot": lambda m: f"discord.Client.run('M{m.alnum(23)}.{m.of(ALNUM, 6)}.{m.urlsafe(38)}')",
        "Telegram": lambda m: f"https://api.telegram.org/bot{m.of(DIGITS, 9)}:AA{m.urlsafe(33)}/sendMessage",
        "Stripe": _prefixed("sk", "_live_", length=24),
        "Twilio": lambda m: f"twilio: S{'K'}{m.hex(32)} unauthorized",
        "SendGrid": lambda m: f"S{'G.'}{m.urlsafe(22)}.{m.urlsafe(43)}",
        "Mailgun": lambda m: f"auth=('api', 'ke{'y-'}{m.hex(32)}')",
        "Mailchimp": lambda m: f"mailchimp {m.hex(32)}-us12",
        "Square": _prefixed("sq0", "csp-", letters=URLSAFE, length=43),
        "Shopify": _prefixed("shp", "at_", letters=HEX, length=32),
        "Datadog": lambda m: f"DD_API_KEY={m.hex(32)} DD_APP_KEY={m.hex(40)}",
        "New Relic": _prefixed("NR", "AK-", letters=UPPER + DIGITS, length=27),
        "Grafana": lambda m: f"gl{'sa_'}{m.alnum(32)}_{m.of(HEX, 8)}",
        "Sentry": _prefixed("sntry", "u_", letters=HEX, length=64),
        "Sentry DSN": lambda m: f"SENTRY_DSN=https://{m.hex(32)}@o1.ingest.sentry.io/4",
        "PagerDuty": lambda m: f"Authorization: Token token={m.urlsafe(20)}",
        "Linear": _prefixed("lin", "_api_", length=40),
        "Notion": _prefixed("nt", "n_", length=46),
        "Airtable": lambda m: f"airtable pat{m.alnum(14)}.{m.hex(64)}",
    },
)


def _wrapped(text: str, width: int, lead: str = "") -> str:
    return ("\n" + lead).join(text[i : i + width] for i in range(0, len(text), width))


def _coloured(m: Maker, text: str) -> str:
    """A code inside of it, every five characters or so."""
    return "".join(text[i : i + 5] + m.random.choice(COLOURS) for i in range(0, len(text), 5))


_family(
    "keys in armour",
    {
        "RSA": lambda m: m.pem("RSA PRIVATE KEY", 25),
        "PKCS#8": lambda m: m.pem("PRIVATE KEY"),
        "EC": lambda m: m.pem("EC PRIVATE KEY", 3),
        "OpenSSH": lambda m: m.pem("OPENSSH PRIVATE KEY", 7),
        "encrypted": lambda m: m.pem("ENCRYPTED PRIVATE KEY"),
        "PGP": lambda m: m.pem("PGP PRIVATE KEY BLOCK", 12),
        "PuTTY": lambda m: (
            f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPublic-Lines: 1\nAAAAC3NzaC1lZDI1NTE5\n"
            f"Private-Lines: 1\n{m.base64(48)}\nPrivate-MAC: {m.hex(64)}"
        ),
        "cut off at its end": lambda m: m.pem("RSA PRIVATE KEY").rpartition("\n")[0],
        "without its beginning": lambda m: m.pem("RSA PRIVATE KEY", 4).partition("\n")[2],
        "with the rank before each line": lambda m: textwrap.indent(
            m.pem("RSA PRIVATE KEY"), "[rank0]: ", lambda _: True
        ),
        "in one line with \\n": lambda m: "key: " + m.pem("PRIVATE KEY").replace("\n", "\\n"),
        "indented in YAML": lambda m: "tls.key: |\n" + textwrap.indent(m.pem("EC PRIVATE KEY", 3), "    "),
        "base64 of it": lambda m: "key material " + m.secret(_b64(m.pem("RSA PRIVATE KEY"))),
        "kubeconfig": lambda m: "    client-key-data: " + m.secret(_b64(m.pem("EC PRIVATE KEY", 3))),
        "base64 of it, wrapped": lambda m: "tls.key: " + _wrapped(m.secret(_b64(m.pem("RSA PRIVATE KEY"))), 76, "  "),
        "WireGuard": lambda m: f"[Interface]\nPrivateKey = {m.base64(43)}=",
        "age": lambda m: f"AGE-SECRET-{'KEY-1'}{m.secret(m.of(UPPER + DIGITS, 58))}",
    },
)
_family(
    "settings by their names",
    {
        "environment": lambda m: f"DB_PASSWORD={m.password()}",
        "export": lambda m: f"+ export HF_TOKEN={m.alnum(20)}",
        "declare -x": lambda m: f'declare -x GITHUB_TOKEN="{m.alnum(40)}"',
        "Dockerfile": lambda m: f"Step 4/9 : ENV API_KEY {m.alnum(30)}",
        "csh": lambda m: f"setenv WANDB_API_KEY {m.hex(40)}",
        "fish": lambda m: f"set -gx OPENAI_API_KEY {m.alnum(40)}",
        "JSON": lambda m: json.dumps({"user": "me", "password": m.password()}),
        "JSON in JSON": lambda m: json.dumps({"log": json.dumps({"user": "me", "secret": m.password()})}),
        "YAML": lambda m: f"db:\n  user: me\n  password: {m.password()}",
        "YAML on the next line": lambda m: f"password: >-\n    {m.password(20)}",
        "Python dict": lambda m: str({"HOME": "/root", "API_TOKEN": m.password(), "LANG": "C"}),
        "environ repr": lambda m: f"environ({{'PATH': '/bin', 'MY_SECRET': '{m.password()}'}})",
        "tuple": lambda m: f"[('LANG', 'C'), ('CLIENT_SECRET', '{m.password()}')]",
        "bytes": lambda m: f"{{b'api_key': b'{m.alnum(24)}'}}",
        "Namespace": lambda m: f"Namespace(lr=0.1, hub_token='{m.alnum(20)}', seed=1)",
        "dataclass": lambda m: f"Config(host='db', passphrase='{m.password()}')",
        "TOML": lambda m: f'secret_key = "{m.password(24)}"',
        "INI": lambda m: f"[smtp]\nsmtp_pass = {m.password()}",
        "properties": lambda m: f"spring.datasource.password={m.password()}",
        "XML element": lambda m: f"<clientSecret>{m.password()}</clientSecret>",
        "XML pair": lambda m: f'<add key="ClearTextPassword" value="{m.password()}" />',
        "Kubernetes env": lambda m: f"    - name: REDIS_PASSWORD\n      value: {m.password()}",
        "ECS env": lambda m: json.dumps([{"name": "API_SECRET", "value": m.password()}]),
        "ECS env, pretty": lambda m: json.dumps([{"name": "API_SECRET", "value": m.password()}], indent=2),
        "Kubernetes secret": lambda m: f"kind: Secret\ndata:\n  password: {m.secret(_b64(m.of(ALNUM, 18)))}",
        "Kubernetes docker secret": lambda m: (
            "  .dockerconfigjson: "
            + m.secret(_b64(json.dumps({"auths": {"r": {"auth": _b64("ci:" + m.of(ALNUM, 16))}}})))
        ),
        "kubectl describe": lambda m: f"      WANDB_API_KEY:            {m.hex(40)}",
        "table": lambda m: f"│ api_key       │ {m.alnum(24)} │",
        "columns": lambda m: f"  db_password      {m.password()}",
        "percent-encoded": lambda m: f"body=user%3Dme%26password%3D{m.secret(m.of(ALNUM, 16))}%26x%3D1",
        "form": lambda m: f"POST data: user=me&password={m.secret(m.of(ALNUM, 16))}&remember=1",
        "colon in Chinese": lambda m: f"密码：{m.secret(m.of(ALNUM, 14))}",
        "German": lambda m: f"Passwort: {m.password()}",
        "key-like name": lambda m: f"METRICS_WRITE_KEY={m.alnum(32)}",
        "pat": lambda m: f"AZURE_DEVOPS_PAT={m.secret(m.of(LOWER + DIGITS, 52))}",
        "salt": lambda m: f"hash_salt: {m.alnum(24)}",
        "session cookie by name": lambda m: f"session_cookie='{m.alnum(40)}'",
        "two-factor": lambda m: f"recovery_code: {m.secret(m.of(HEX, 5) + '-' + m.of(HEX, 5))}",
        "seed phrase": lambda m: (
            "seed phrase: "
            + m.secret("zebra ocean violin copper meadow lantern pistol ribbon candle orbit walnut tiger")
        ),
        "password hash": lambda m: f"$2b${'12$'}{m.secret(m.of(ALNUM + './', 53))}",
        "shadow file": lambda m: f"root:$6${m.of(ALNUM, 8)}${m.secret(m.of(ALNUM + './', 86))}:19000:0:99999:7:::",
    },
)
_family(
    "headers and cookies",
    {
        "Authorization Bearer": lambda m: f"> Authorization: Bearer {m.urlsafe(40)}",
        "Authorization Basic": lambda m: f"Authorization: Basic {m.secret(_b64('me:' + m.of(ALNUM, 14)))}",
        "Authorization in a dict": lambda m: f"headers={{'Accept': '*/*', 'Authorization': 'Bearer {m.urlsafe(40)}'}}",
        "Authorization as bytes": lambda m: f"[(b'host', b'x'), (b'authorization', b'Bearer {m.urlsafe(40)}')]",
        "Authorization in a raw request": lambda m: (
            f"send: b'GET / HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {m.urlsafe(40)}\\r\\nAccept: */*'"
        ),
        "Proxy-Authorization": lambda m: f"Proxy-Authorization: Basic {m.secret(_b64('me:' + m.of(ALNUM, 14)))}",
        "Basic alone": lambda m: f"curl: using Basic {m.secret(_b64('me:' + m.of(ALNUM, 15)))}",
        "X-Api-Key": lambda m: f"X-Api-Key: {m.alnum(24)}",
        "PRIVATE-TOKEN": lambda m: f"PRIVATE-TOKEN: {m.alnum(20)}",
        "X-Auth-Token": lambda m: f"< X-Auth-Token: {m.urlsafe(32)}",
        "Subscription key": lambda m: f"Ocp-Apim-Subscription-Key: {m.hex(32)}",
        "Cookie": lambda m: f"Cookie: theme=dark; sessionid={m.alnum(32)}",
        "Set-Cookie": lambda m: f"Set-Cookie: sid={m.urlsafe(40)}; Path=/; HttpOnly",
        "JWT": lambda m: f"token is {m.jwt()} and has expired",
        "JWT of a service account": lambda m: f"/var/run/secrets/token: {m.jwt()}",
        "kubeadm join": lambda m: (
            f"kubeadm join 10.0.0.1:6443 --token {m.secret(m.of(LOWER + DIGITS, 6) + '.' + m.of(LOWER + DIGITS, 16))}"
        ),
    },
)
_family(
    "URLs and command lines",
    {
        "database URL": lambda m: f"postgresql+psycopg2://me:{m.secret(m.of(ALNUM, 14))}@db:5432/x",
        "password with a slash": lambda m: f"redis://me:{m.secret(m.of(ALNUM, 6) + '/' + m.of(ALNUM, 6))}@cache:6379/0",
        "password with digits and a slash": lambda m: (
            f"mongodb://me:{m.secret(m.of(DIGITS, 4) + '/' + m.of(ALNUM, 8))}@db.example.com/x"
        ),
        "password with an at sign": lambda m: f"amqp://me:{m.secret(m.of(ALNUM, 6) + '@' + m.of(ALNUM, 6))}@mq:5672/",
        "password with a slash in https": lambda m: (
            f"https://me:{m.secret(m.of(LOWER, 6) + '/' + m.of(ALNUM, 6))}@example.com/repo.git"
        ),
        "password only": lambda m: f"redis://:{m.secret(m.of(ALNUM, 14))}@cache:6379",
        "proxy": lambda m: f"HTTPS_PROXY=http://me:{m.secret(m.of(ALNUM, 12))}@proxy:3128",
        "git with a token": lambda m: f"Cloning https://oauth2:{m.alnum(20)}@gitlab.com/a/b.git",
        "git with a token as the user": lambda m: f"Cloning https://{m.alnum(40)}@github.com/a/b.git",
        "JDBC": lambda m: f"jdbc:mysql://db/x?user=me&password={m.secret(m.of(ALNUM, 14))}",
        "ADO": lambda m: f"Server=db;Database=x;User Id=me;Password={m.secret(m.of(ALNUM, 14))};",
        "URL with an access token": lambda m: f"GET /v1/me?access_token={m.urlsafe(40)}&x=1",
        ".pgpass": lambda m: f"db.example.com:5432:train:me:{m.secret(m.of(ALNUM, 14))}",
        "netrc": lambda m: f"machine github.com login me password {m.secret(m.of(ALNUM, 20))}",
        "flag": lambda m: f"python train.py --password {m.password()} --lr 0.1",
        "flag with equals": lambda m: f"python train.py --api-key={m.alnum(24)}",
        "flag on the next line": lambda m: f"python train.py --password \\\n    {m.secret(m.of(ALNUM, 14))} --lr 1",
        "list of arguments": lambda m: f"['train.py', '--hub-token', '{m.alnum(24)}', '--lr', '1']",
        "--token": lambda m: f"huggingface-cli login --token {m.alnum(37)}",
        "mysql -p": lambda m: f"+ mysql -h db -u root -p{m.secret(m.of(ALNUM, 12))} train",
        "sshpass -p": lambda m: f"sshpass -p{m.secret(m.of(ALNUM, 12))} ssh node1",
        "docker login -p": lambda m: f"docker login -u me -p {m.secret(m.of(ALNUM, 12))} registry",
        "docker login -pSECRET": lambda m: f"docker login -u me -p{m.secret(m.of(ALNUM, 12))} registry",
        "curl -u": lambda m: f"curl -s -u me:{m.secret(m.of(ALNUM, 12))} https://x",
        "ipmitool": lambda m: f"ipmitool -I lanplus -H bmc1 -U admin -P {m.secret(m.of(ALNUM, 12))} power status",
        "redis-cli": lambda m: f"redis-cli -h cache -a {m.secret(m.of(ALNUM, 12))} ping",
        "ldapsearch": lambda m: f"ldapsearch -x -D cn=admin -w {m.secret(m.of(ALNUM, 12))} -b dc=x",
        "openssl": lambda m: f"openssl rsa -in k.pem -passin pass:{m.secret(m.of(ALNUM, 12))}",
        "kubectl create secret": lambda m: (
            f"kubectl create secret generic x --from-literal=password={m.secret(m.of(ALNUM, 12))}"
        ),
        "smbclient": lambda m: f"smbclient //fs/data -U me%{m.secret(m.of(ALNUM, 12))}",
    },
)
_family(
    "sentences",
    {
        "password is": lambda m: f"the password is {m.password()}",
        "password is, in quotes": lambda m: f"The password is 'correct horse {m.secret(m.of(LOWER, 8))}'.",
        "password was": lambda m: f"initial root password was: {m.password()}",
        "with password": lambda m: f"logging in as me with password {m.password()}",
        "password set to": lambda m: f"password set to {m.secret(m.of(LOWER, 10))}",
        "token is": lambda m: f"your token is {m.alnum(32)}.",
        "API key is": lambda m: f"Using API key {m.alnum(32)}",
    },
)
_family(
    "split",
    {
        "by the terminal, at 80 columns": lambda m: _wrapped(
            "2026-11-16 10:00:00 INFO starting with HF_TOKEN=hf_" + m.alnum(60), 80
        ),
        "by the terminal, indented": lambda m: (
            "ERROR    login failed for WANDB_API_KEY=" + _wrapped(m.hex(64), 32, "         ")
        ),
        "by the terminal, with the rank": lambda m: (
            "[rank0]: could not log in with api_key=" + _wrapped(m.alnum(80), 40, "[rank0]: ")
        ),
        "a GitHub token by the terminal": lambda m: _wrapped(
            "fatal: Authentication failed: could not read with the given token gh" + "p_" + m.alnum(36), 80
        ),
        "a JWT over five lines": lambda m: _wrapped("Authorization: Bearer " + m.jwt() + m.of(ALNUM, 120), 80),
        "a backslash of the shell": lambda m: (
            "export OPENAI_API_KEY=" + _wrapped(m.alnum(48), 24).replace("\n", "\\\n")
        ),
        "by colour codes": lambda m: "HF_TOKEN=" + _coloured(m, m.alnum(37)),
        "a token by colour codes": lambda m: "using " + _coloured(m, "gh" + "p_" + m.alnum(36)),
        "name and value in colours": lambda m: f"\x1b[36mpassword\x1b[0m\x1b[35m=\x1b[0m\x1b[32m{m.password()}\x1b[0m",
        "colours as JSON writes them": lambda m: json.dumps(
            {"log": "\x1b[36mapi_key\x1b[0m=\x1b[35m" + m.alnum(30) + "\x1b[0m"}
        ),
        "colours that lost their escape": lambda m: f"[36mAPI_KEY[0m=[35m{m.alnum(30)}[0m",
        "by characters without width": lambda m: "api_key=" + "\u200b".join(textwrap.wrap(m.alnum(32), 6)),
    },
)


# Written when all of the above were redacted, to see what had been missed: 34 of these 74 kinds leaked at first.
_family(
    "second look: settings",
    {
        "YAML, single quotes": lambda m: f"password: '{m.secret(m.of(ALNUM, 10))}'",
        "pass": lambda m: f"connecting: user=me pass={m.password()} host=db",
        "pw": lambda m: f"user: me, pw: {m.secret(m.of(LOWER, 6) + m.of(DIGITS, 3))}",
        "psk": lambda m: f'wpa: ssid="lab" psk="{m.password()}"',
        "pre-shared key": lambda m: f"pre-shared key: {m.password(16)}",
        "apikey": lambda m: f"apikey: {m.alnum(20)}",
        "short token": lambda m: f"login: token={m.secret(m.of(LOWER, 5) + m.of(DIGITS, 4) + m.of(LOWER, 3))}",
        "redis auth": lambda m: f"REDISCLI_AUTH={m.password()}",
        "name with a suffix": lambda m: f"DB_PASSWORD_STAGING={m.password()}",
        "token with a suffix": lambda m: f"GITHUB_TOKEN_READONLY={m.alnum(30)}",
        "Fernet": lambda m: f"AIRFLOW__CORE__FERNET_KEY={m.secret(_b64(m.of(ALNUM, 32)))}",
        "terraform plan": lambda m: f'  ~ password = "{m.password()}" -> "{m.password()}"',
        "changed from to": lambda m: f"password changed from {m.password()} to {m.password()}",
        "list of passwords": lambda m: f'"passwords": ["{m.password()}", "{m.password()}"]',
        "Go struct": lambda m: f"{{User:me Password:{m.secret(m.of(ALNUM, 14))} Host:db}}",
        "PHP": lambda m: f"'password' => '{m.password()}',",
        "Ruby": lambda m: f'{{:user=>"me", :password=>"{m.password()}"}}',
        "Markdown": lambda m: f"**Password:** {m.password()}",
        "HTML table": lambda m: f"<tr><td>Password</td><td>{m.secret(m.of(ALNUM, 14))}</td></tr>",
        "Hadoop": lambda m: f"<property><name>fs.s3a.secret.key</name><value>{m.aws_secret()}</value></property>",
        "Hadoop Azure": lambda m: f"fs.azure.account.key.data.blob.core.windows.net={m.base64(86)}==",
        "Android XML": lambda m: f'<string name="api_secret">{m.alnum(24)}</string>',
        "Spark": lambda m: f"--conf spark.hadoop.fs.s3a.secret.key={m.aws_secret()}",
        "Oracle": lambda m: f"jdbc:oracle:thin:me/{m.secret(m.of(ALNUM, 12))}@//db:1521/x",
        "libpq": lambda m: f"psql: host=db user=me password={m.secret(m.of(ALNUM, 12))} dbname=x",
        "htpasswd": lambda m: f"me:$apr1${m.of(ALNUM, 8)}${m.secret(m.of(ALNUM + './', 22))}",
        "one-time code": lambda m: f"Your verification code is {m.secret(m.of(DIGITS, 8))}",
        "pprint": lambda m: "{'api_token': '" + _wrapped(m.alnum(90), 45).replace("\n", "'\n              '") + "'}",
        "rich locals": lambda m: f"│     password = '{m.password()}'                │",
        "json-escaped unicode": lambda m: f'"body": "user\\u003dme\\u0026password\\u003d{m.secret(m.of(ALNUM, 14))}"',
        "environment of a process": lambda m: f"PATH=/bin\x00HF_TOKEN={m.alnum(37)}\x00HOME=/root",
        "crypt with id": lambda m: (
            f"hash: $argon2id$v=19$m=65536,t=3,p=4${m.secret(m.of(ALNUM, 22))}${m.secret(m.of(ALNUM, 43))}"
        ),
        "Vault kv": lambda m: f"vault kv put secret/x api_password={m.password()}",
        "helm": lambda m: f"helm install x --set postgresql.auth.password={m.secret(m.of(ALNUM, 12))}",
        "docker -e": lambda m: f"docker run -e MYSQL_ROOT_PASSWORD={m.secret(m.of(ALNUM, 12))} -d mysql",
        "syslog": lambda m: f"Nov 16 10:00:00 node1 app[12]: secret: {m.password()}",
    },
)
_family(
    "second look: commands and URLs",
    {
        "echo to sudo": lambda m: f"echo {m.secret(m.of(ALNUM, 10))} | sudo -S apt install x",
        "echo to docker": lambda m: f'echo "{m.secret(m.of(ALNUM, 16))}" | docker login --username me --password-stdin',
        "htpasswd -b": lambda m: f"htpasswd -bB users me {m.secret(m.of(ALNUM, 12))}",
        "chpasswd": lambda m: f"echo 'root:{m.secret(m.of(ALNUM, 12))}' | chpasswd",
        "requests auth": lambda m: f"requests.get(url, auth=('me', '{m.password()}'))",
        "HTTPBasicAuth": lambda m: f"HTTPBasicAuth('me', '{m.password()}')",
        "curl header": lambda m: f'curl -H "X-Auth-Key: {m.alnum(24)}" https://x',
        "curl data": lambda m: f'curl -d \'{{"user": "me", "password": "{m.secret(m.of(ALNUM, 14))}"}}\' https://x',
        "curl --user": lambda m: f"curl --user 'me:{m.secret(m.of(ALNUM, 14))}' https://x",
        "wget": lambda m: f"wget --http-user=me --http-password={m.secret(m.of(ALNUM, 14))} https://x",
        "-passwd": lambda m: f"vncserver -passwd {m.secret(m.of(ALNUM, 10))}",
        "xfreerdp": lambda m: f"xfreerdp /u:me /p:{m.secret(m.of(ALNUM, 12))} /v:host",
        "sqlplus": lambda m: f"sqlplus me/{m.secret(m.of(ALNUM, 12))}@db",
        "mongo -p": lambda m: f"mongosh -u me -p {m.secret(m.of(ALNUM, 12))} db",
        "user and password without a scheme": lambda m: (
            f"rsync to me:{m.secret(m.of(LOWER, 6) + m.of(DIGITS, 4))}@fs.example.com:/data failed"
        ),
        "URL with apikey": lambda m: f"GET /v1?apikey={m.alnum(24)}&q=x",
        "URL with subscription-key": lambda m: f"https://x/y?subscription-key={m.hex(32)}",
        "URL in a remote": lambda m: f"origin https://x-access-token:{m.alnum(40)}@github.com/a/b (fetch)",
        "URL-encoded password": lambda m: f"https://me:{m.secret(m.of(ALNUM, 6) + '%40' + m.of(ALNUM, 6))}@host/x",
        "mongodb+srv": lambda m: (
            f"mongodb+srv://me:{m.secret(m.of(ALNUM, 12))}@c0.ab1cd.mongodb.net/x?retryWrites=true"
        ),
        "az login": lambda m: f"az login --service-principal -u app -p {m.secret(m.of(ALNUM, 34))} --tenant t",
        "gcloud": lambda m: f"gcloud config set auth/access_token {m.urlsafe(60)}",
        "gh": lambda m: f"gh auth login --with-token <<< {m.secret('gh' + 'o_' + m.of(ALNUM, 36))}",
        "keytool": lambda m: f"keytool -storepass {m.secret(m.of(ALNUM, 10))} -list",
        "zip -P": lambda m: f"zip -r -P {m.secret(m.of(ALNUM, 10))} a.zip data",
        "JSESSIONID": lambda m: f"request cookies JSESSIONID={m.secret(m.of(HEX.upper(), 32))}; path=/",
        "csrf": lambda m: f"csrftoken={m.alnum(32)}",
    },
)
_family(
    "second look: sentences and splits",
    {
        "wrong password": lambda m: f"wrong password '{m.password()}' for user me",
        "password in brackets": lambda m: f"authentication failed (user me, password {m.password()})",
        "Password for user": lambda m: f"Password for user me: {m.password()}",
        "secret is": lambda m: f"The client secret is {m.alnum(32)}",
        "key equals in words": lambda m: f"api key equals {m.alnum(32)}",
        "token, quoted": lambda m: f'refused token "{m.alnum(24)}"',
        "login with": lambda m: f"Login with user me and password {m.password()}.",
        "wrapped with time stamps": lambda m: (
            "2026-11-16 10:00:00,123 INFO key WANDB_API_KEY="
            + _wrapped(m.alnum(70), 35, "2026-11-16 10:00:00,123 INFO ")
        ),
        "wrapped by Ray": lambda m: (
            "(RayTrainWorker pid=12, ip=10.0.0.4) HF_TOKEN="
            + _wrapped(m.alnum(70), 35, "(RayTrainWorker pid=12, ip=10.0.0.4) ")
        ),
        "wrapped with CRLF": lambda m: "the api_key=" + _wrapped(m.alnum(120), 68).replace("\n", "\r\n"),
        "colours in a URL": lambda m: (
            f"\x1b[34mhttps://me:\x1b[1m{m.secret(m.of(ALNUM, 12))}\x1b[0m\x1b[34m@host/x\x1b[0m"
        ),
    },
)


# Written when these were redacted as well: 13 of these 35 leaked at first.
_family(
    "third look",
    {
        "Korean": lambda m: f"비밀번호: {m.password()}",
        "French": lambda m: f"mot de passe : {m.password()}",
        "fullwidth equals": lambda m: f"password＝{m.password()}",
        "blanks in quotes": lambda m: f'export APP_PASSWORD="{m.secret(m.of(ALNUM, 8) + " " + m.of(ALNUM, 8))}"',
        ".npmrc _password": lambda m: f"//registry.example.com/:_password={m.secret(_b64(m.of(ALNUM, 16)))}",
        "Java": lambda m: (
            f"Caused by: java.sql.SQLException: Access denied for user 'me'@'h' (using password: {m.password()})"
        ),
        "camel case token": lambda m: f'{{"accessToken":"{m.urlsafe(30)}","expiresIn":3600}}',
        "refresh token": lambda m: f'"refresh_token" : "{m.urlsafe(40)}",',
        "AWS STS in XML": lambda m: f"<SecretAccessKey>{m.aws_secret()}</SecretAccessKey>",
        "AWS STS as text": lambda m: (
            f"CREDENTIALS\tAS{'IA'}{m.of(UPPER, 16)}\t2026-11-16T10:00:00Z\t{m.aws_secret()}\t{m.base64(120)}"
        ),
        "ssh-keygen -N": lambda m: f"ssh-keygen -t ed25519 -N {m.secret(m.of(ALNUM, 12))} -f k",
        "openssl enc -k": lambda m: f"openssl enc -aes-256-cbc -k {m.secret(m.of(ALNUM, 12))} -in x",
        "gpg": lambda m: f"gpg --batch --passphrase {m.secret(m.of(ALNUM, 12))} -d x.gpg",
        "ansible": lambda m: f"ansible all -e ansible_become_pass={m.secret(m.of(ALNUM, 12))}",
        "net use": lambda m: f"net use Z: \\\\fs\\data /user:me {m.secret(m.of(ALNUM, 12))}",
        "smtp login": lambda m: f"server.login('me@example.com', '{m.password()}')",
        "object with a value": lambda m: f"ApiToken(value='{m.alnum(24)}')",
        "SecretStr": lambda m: f"settings.secret=SecretStr('{m.password()}')",
        "JWK": lambda m: json.dumps({"kty": "RSA", "e": "AQAB", "d": m.urlsafe(86)}),
        "rclone": lambda m: f"[remote]\ntype = sftp\nuser = me\npass = {m.urlsafe(32)}",
        "tab between": lambda m: f"secret_access_key\t{m.aws_secret()}",
        "Slack, in a dict": lambda m: f"{{'SLACK_SIGNING_SECRET': '{m.hex(32)}'}}",
        "credentials of a registry": lambda m: f'"credHelpers": {{}}, "username": "me", "password": "{m.password()}"',
        "Grafana Basic in a header list": lambda m: (
            f"-H 'Authorization: Basic {m.secret(_b64('admin:' + m.of(ALNUM, 12)))}' http://grafana"
        ),
        "Kafka SASL": lambda m: (
            f'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="me" '
            f'password="{m.password()}";'
        ),
        "LDAP bind": lambda m: f"bindDN=cn=admin,dc=x bindPassword={m.secret(m.of(ALNUM, 12))}",
        "etcd": lambda m: f"etcdctl --user=root:{m.secret(m.of(ALNUM, 12))} get /",
        "Elastic cloud": lambda m: f"ELASTIC_APM_SECRET_TOKEN={m.alnum(18)}",
        "Airflow connection": lambda m: f"AIRFLOW_CONN_DB=postgres://me:{m.secret(m.of(ALNUM, 12))}@db/x",
        "Ray client": lambda m: f"ray.init(address='ray://h:10001', _redis_password='{m.password()}')",
        "Dask TLS": lambda m: f"tls_client_key = '{m.pem('PRIVATE KEY', 3)}'",
        "MongoDB shell": lambda m: f'db.auth("me", "{m.password()}")',
        "create user": lambda m: f"CREATE USER me WITH PASSWORD '{m.password()}';",
        "identified by": lambda m: f"CREATE USER 'me'@'%' IDENTIFIED BY '{m.password()}'",
        "alter role": lambda m: f"ALTER ROLE me PASSWORD '{m.password()}'",
    },
)


# Written after a second hostile trial: all of these leaked.
_family(
    "second trial",
    {
        "W&B key at its prompt": lambda m: (
            f"wandb: Paste an API key from your profile and hit enter, or press ctrl+c to quit: {m.hex(40)}"
        ),
        "W&B key below its prompt": lambda m: (
            f"[rank0]: wandb: Paste an API key from your profile and hit enter:\n[rank0]: {m.hex(40)}"
        ),
        "URL password with @": lambda m: (
            f"https://me:{m.secret(m.of(ALNUM, 9) + '@' + m.of(ALNUM, 9))}@git.example.com/x"
        ),
        "URL password with /": lambda m: (
            f"https://me:{m.secret(m.of(LOWER, 9) + '/' + m.of(ALNUM, 9))}@git.example.com/x"
        ),
        "URL password with #": lambda m: (
            f"proxy http://me:{m.secret(m.of(LOWER, 9) + '#' + m.of(ALNUM, 9))}@proxy:3128"
        ),
        "URL password with all of them": lambda m: (
            f"redis://:{m.secret(m.of(LOWER, 9))}@{m.secret(m.of(LOWER, 9))}#{m.secret(m.of(ALNUM, 9))}/"
            f"{m.secret(m.of(ALNUM, 9))}@cache:6379/0"
        ),
        "YAML below secrets": lambda m: f"secrets:\n  db: {m.alnum(20)}\n  nested:\n    mail: '{m.alnum(20)}'\nname: x",
        "YAML below secrets, with prefixes": lambda m: (
            f"[rank0]: secrets:\n[rank0]:   db: {m.alnum(20)}\n[rank0]: step 1"
        ),
        "JSON below secrets": lambda m: f'{{\n  "secrets": {{\n    "db": "{m.alnum(20)}",\n    "n": 3\n  }}\n}}',
        "stringData of Kubernetes": lambda m: f"kind: Secret\nstringData:\n  db: {m.alnum(20)}",
        "joined over two lines": lambda m: f"client = OpenAI(api_key='{m.alnum(16)}'\n                '{m.alnum(16)}')",
        "joined with + over two lines": lambda m: (
            f'token = "gh{"p_"}{m.secret(m.of(ALNUM, 8))}" + \\\n    "{m.secret(m.of(ALNUM, 28))}"'
        ),
        "+ on the second line": lambda m: (
            f'key = "s{"k-"}{m.secret(m.of(ALNUM, 9))}"\n  + "{m.secret(m.of(ALNUM, 30))}"'
        ),
        "joined on one line": lambda m: f'password = "{m.secret(m.of(LOWER, 9))}" + "{m.secret(m.of(LOWER, 9))}"',
        "expect": lambda m: f'expect "assword:"\nsend "{m.alnum(20)}\\r"',
        "expect on one line": lambda m: f'expect "Password: " {{ send -- "{m.alnum(20)}\\r" }}',
        "send alone": lambda m: f'spawn ssh node\nsend "{m.alnum(20)}\\r"',
        "pexpect": lambda m: f"child.expect('password:')\nchild.sendline('{m.alnum(20)}')",
    },
)
