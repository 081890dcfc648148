# SPDX-License-Identifier: Apache-2.0
"""Secrets recognised by the name before them: settings, headers, flags, sentences such as ``password is ...``."""

from __future__ import annotations

import re
from collections.abc import Callable

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.redaction.secret_row import MARK, NOT_YET, SecretRow, after, row
from keepstep.base.redaction.secret_values import (
    EQUALS,
    QUOTED,
    SAID,
    SIMPLE,
    VALUE,
    is_hash,
    is_nothing,
    keep_name,
    looks_random,
)

_MORE = (
    r"(?:[_-]?(?:\d{1,3}|hash|b64|base64|enc|encrypted|plain|plaintext|text|value|str|string|raw|old|new|prod|dev"
    r"|test))?"
)
PASSWORDS = (
    rf"(?:(?:password|passwd|passphrase|passwort|passcode|kennwort|contrase(?:ñ|n)a|senha|mot[_ ]de[_ ]passe"
    rf"|store_?pass){_MORE}"
    r"|(?:db|smtp|mail|user|mysql|pg|postgres|redis|mongo|ftp|ssh|admin|root|http|proxy|ldap|registry|key|store"
    r"|database|sudo|vpn|bind|become)[_-]?pass"
    r"|пароль|密码|パスワード|비밀번호|암호)"
)
KEYS = (
    r"(?:api|access|secret|secret[ _.-]?access|private|priv|auth|account|shared[_.-]?access|encryption|signing"
    r"|master|client|app|db|database"
    r"|subscription|storage|license|service|session|ssh|hmac|consumer|deploy|instrumentation|certificate|write"
    r"|ingest|admin|webhook|shared|fernet|decryption)"
    rf"[ _.-]?key(?:[_.-]?id|[^\S\n]provided)?{_MORE}"
)
SECRETS = (
    rf"(?:secret{_MORE}|private[_-]?exponent|mnemonic|(?:seed|recovery)[_ -]?phrase|recovery[_ -]?codes?"
    rf"|(?:one[ -]time|verification|2fa|mfa)[ _-]code)"
)
CREDENTIALS = r"(?:credentials?(?:_?\d{1,3})?|shared_?access_?signature|connection_?string|conn_?str)"
_TOKENS = r"(?:auth|access|hf|api|hub|bearer|github|user|session|refresh|id|bot|personal|deploy|service)[_.-]?token"

# A "token" is a secret or a piece of text, depending on what kind of token the name says.
_BEGIN = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=(?-i:[A-Z])))"
_SECRET_KIND = lazy_pattern(
    _BEGIN + r"(?:auth|access|api|bearer|refresh|session|security|secret|private|personal|login|user|bot|app|csrf|xsrf"
    r"|oauth|hf|hub|hugging_?face|github|gh|gitlab|gl|slack|wandb|neptune|comet|clearml|mlflow|databricks|ngc|jupyter"
    r"|notebook|vault|kube|k8s|docker|registry|npm|pypi|deploy|job|service|account|sas|join|bootstrap|id|sts"
    r"|identity|device|push|reset)"
    r"[\s_.-]?\Z",
    re.IGNORECASE,
)
_TEXT_KIND = lazy_pattern(
    _BEGIN
    + r"(?:pad|eos|bos|unk|sep|cls|mask|special|stop|start|end|num|max|min|next|prev|last|first|image|audio|video"
    r"|new|prompt|decoder|forced|per|input|output|additional|added|unexpected)[\s_.-]?\Z",
    re.IGNORECASE,
)
_PIECE_OF_TEXT = lazy_pattern(r"""[\\"']{0,8}(?:-?\d{1,9}(?:\.\d{1,20})?|<[^>]{0,200}>)[\\"',]{0,8}""")
_SPOKEN_OF = 24

# A "key" of these kinds finds something; it opens nothing.
_FINDING_KIND = lazy_pattern(
    r"(?:cache|store|hash|lookup|sort|partition|primary|foreign|group|state|weight|param|parameter|tensor|module"
    r"|metric|dict|index|idx|rng|prng|jax|random"
    r"|public|pub|tag|message|routing|kv|rendezvous|rdzv|compile|compilation|kernel|executable|program|fingerprint"
    r"|checkpoint|ckpt|object|s3|file"
    r"|sharding|mesh|attention|query|value|config|hparam|dedup|chunk|block|shard|ssh|host|map|map|tree|unique"
    r"|missing|unexpected|bucket|op|plan|jit|event)"
    r"[\s_.-]?\Z",
    re.IGNORECASE,
)


def _token(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - _SPOKEN_OF) : match.start()]
    value = match["value"]
    if _TEXT_KIND.search(before) or _PIECE_OF_TEXT.fullmatch(value):
        return match[0]
    shouted = match["name"].isupper() and not before[-1:].islower()
    if shouted or _SECRET_KIND.search(before) or looks_random(value):
        return keep_name(match)
    return match[0]


def _key_like(match: re.Match[str]) -> str:
    """A name that often precedes a secret: only a value that looks random counts as one."""
    before = match.string[max(0, match.start() - _SPOKEN_OF) : match.start()]
    value = match["value"]
    if not looks_random(value) or (match["name"].lower() == "key" and _FINDING_KIND.search(before)):
        return match[0]
    if is_hash(value) and not re.search(r"[A-Za-z][_.-]?\Z", before):
        return match[0]  # a bare `key=` with a digest
    return keep_name(match)


def _random_only(match: re.Match[str]) -> str:
    return keep_name(match) if looks_random(match["value"]) else match[0]


def _short(match: re.Match[str]) -> str:
    """``pass=``, ``token=`` and the like with a value of letters and digits: not a count, a word or a path."""
    word = match["value"].strip("\"'`\\")
    before = match.string[max(0, match.start() - _SPOKEN_OF) : match.start()]
    if len(word) < 6 or "/" in word or word.startswith(("<", "$", "{")) or _TEXT_KIND.search(before):
        return match[0]
    mixed = any(c.isalpha() for c in word) and any(c.isdigit() for c in word)
    return keep_name(match) if mixed and not re.fullmatch(r"0x[0-9a-fA-F]+|[\d.]+[A-Za-z]{1,3}", word) else match[0]


def _pwd(match: re.Match[str]) -> str:
    """``PWD`` is a folder, unless it is a password's short name."""
    return match[0] if re.match(r"""[\\"']*(?:/|~|\.|[A-Za-z]:\\)""", match["value"]) else keep_name(match)


def _bearer(match: re.Match[str]) -> str:
    said = match["value"]
    return match[1] + MARK if len(said) >= 20 or any(c.isdigit() for c in said) else match[0]


def _header(match: re.Match[str]) -> str:
    """``Authorization: Basic ...``: the scheme stays."""
    scheme = re.match(r"(?:[A-Za-z0-9-]{1,24}[^\S\n]+(?=\S))?", match["value"])
    return match[1] + (scheme[0] if scheme else "") + MARK


def _said(match: re.Match[str]) -> str:
    """``the password is hunter2``, and not ``the password is too short``."""
    word = match["value"].strip("\"'`.,;:!?()[]<>{}").lower()
    quoted = match["value"][:1] in "\"'`"
    plain = word.isalpha() and word.isascii()
    password = match["name"].lower().startswith("pass")
    if not word or word in SAID or (not quoted and word.split("-")[0] in SAID):
        return match[0]
    if not password and not looks_random(match["value"].strip(".,;:!?()[]<>{}")):
        return match[0]  # `secret "training-ssh" not found`
    if match["verb"] is None and plain and not quoted:
        return match[0]  # `password authentication`
    return keep_name(match)


def _column(match: re.Match[str]) -> str:
    """A row of a table: the value must look like one, since headings also have two blanks."""
    value = match["value"]
    return keep_name(match) if re.search(r"\d|[!#$%^&*]", value) and not _PIECE_OF_TEXT.fullmatch(value) else match[0]


def _docker_auth(match: re.Match[str]) -> str:
    value = match["value"].strip("\"'\\")
    return (
        keep_name(match)
        if len(value) >= 8 and not is_nothing(match["value"]) and re.fullmatch(r"[\w+/=-]+", value)
        else match[0]
    )


def _setting(word: str, pattern: str, put: Callable[[re.Match[str]], str]) -> SecretRow:
    """A row for a name that ends in a word and has a value: a sign must follow that word."""
    gate = rf"""{word}[\w-]{{0,12}}(?: provided)?[\\"'`\]]*[^\S\n]{{0,40}}(?:[:=,>：＝]|->|%3[ad]|\\u003|&#61)"""
    return SecretRow((word,), lazy_pattern(pattern, re.IGNORECASE), put, lazy_pattern(gate))


_AFTER_FLAG = r"""\\{0,8}["']?(?:[^\S\n]{0,4},[^\S\n]{0,4}(?=\\{0,8}["'])|[^\S\n]{1,4}|=)"""
_ANY_NAME = rf"(?:{PASSWORDS}|{KEYS}|{SECRETS}|{CREDENTIALS}|{_TOKENS})"
_SAYS = (
    r"(?:[^\S\n]{1,4}(?P<verb>is|was|are|will be|would be|set to|changed to|reset to|equals|of)"
    r"(?:[^\S\n]{0,4}:)?)?[^\S\n]{1,4}"
)

NAMES = (
    # headers
    row(
        "authorization",
        r"""(authorization\\{0,8}["']?[^\S\n]{0,4}[:=,][^\S\n]{0,4}[bu]?\\{0,8}["']?)(?P<value>[^\s"'\\][^"'\\\n]*)""",
        _header,
        re.IGNORECASE,
    ),
    after(
        "cookie",
        r"""((?:\bset-)?\bcookie\\{0,8}["']?[^\S\n]{0,4}[:=,][^\S\n]{0,4}[bu]?\\{0,8}["']?)(?=[^\n=]{1,200}=)"""
        rf"""{NOT_YET}[^\s"'\\][^"'\\\n]*""",
        re.IGNORECASE,
    ),
    row("bearer", r"(\bbearer[^\S\n]{1,4})(?P<value>[\w.~+/=-]{8,})", _bearer, re.IGNORECASE),
    after(
        "basic",
        rf"(\bBasic[^\S\n]{{1,4}}){NOT_YET}(?=[A-Za-z+/]{{0,40}}[\d=])[A-Za-z0-9+/]{{12,}}={{0,2}}",
        re.IGNORECASE,
    ),
    # flags: a value may follow without an equals sign
    row(
        "--", rf"(?<![\w-])--(?:[\w.-]{{0,40}}?{_ANY_NAME}|pass|pwd){_AFTER_FLAG}(?!-){VALUE}", keep_name, re.IGNORECASE
    ),
    row(
        "-token",
        rf"(?<=-)(?<![\w]-)(?<![\w]--)(?P<name>token){_AFTER_FLAG}(?!-)(?=[^\s\d]{{0,40}}\d|[^\s]{{20}}){VALUE}",
        _token,
        re.IGNORECASE,
    ),
    # settings
    _setting("pass", rf"{PASSWORDS}{EQUALS}{VALUE}", keep_name),
    row(
        "kennwort contrase senha passe пароль 密码 パスワード 비밀번호 암호",
        rf"{PASSWORDS}{EQUALS}{VALUE}",
        keep_name,
        re.IGNORECASE,
    ),
    _setting("key", rf"{KEYS}{EQUALS}{SIMPLE}", keep_name),
    _setting("secret", rf"{SECRETS}{EQUALS}{VALUE}", keep_name),
    row(
        "mnemonic phrase recovery -code _code",
        rf"{SECRETS}{EQUALS}(?P<value>{QUOTED}|[^\n\"']{{1,400}})",
        keep_name,
        re.IGNORECASE,
    ),
    _setting("credential", rf"{CREDENTIALS}{EQUALS}{VALUE}", keep_name),
    row(
        "accesssignature access_signature connectionstring connection_string connstr conn_str",
        rf"{CREDENTIALS}{EQUALS}{VALUE}",
        keep_name,
        re.IGNORECASE,
    ),
    _setting("token", rf"(?P<name>token){EQUALS}{SIMPLE}", _token),
    _setting("pwd", rf"pwd{EQUALS}{VALUE}", _pwd),
    row(
        "auth",
        rf"""(?<![A-Za-z])_?auth{EQUALS}(?P<value>\\{{0,8}}"[^"\n]{{8,}}"|'[^'\n]{{8,}}'|[\w+/-]{{12,}}={{0,2}})""",
        _docker_auth,
        re.IGNORECASE,
    ),
    row(
        "key auth cred pat salt signature sid jwt otp hmac pw dsn license cookie _sk",
        rf"(?P<name>key|auth|creds?|pat|salt|signature|sid|jwt|otp|hmac|pw|dsn|license|cookie|_sk){EQUALS}{SIMPLE}",
        _key_like,
        re.IGNORECASE,
        gate=r"""(?:key|auth|creds?|pat|salt|signature|sid|jwt|otp|hmac|pw|dsn|license|cookie"""
        r"""|_sk)[\\"'`\]]{0,4}[^\S\n]{0,40}(?:[:=,>-]{1,3}|%3[ad]|\\u003|&#61)[^\S\n]{0,40}[^\s]{14}""",
    ),
    row("psk", rf"\bpsk{EQUALS}{VALUE}", keep_name, re.IGNORECASE),
    row(
        "pass pw auth",
        rf"(?<![A-Za-z])(?:pass|pw|REDISCLI_AUTH)[^\S\n]{{0,2}}[=:][^\S\n]{{0,2}}{SIMPLE}",
        _short,
        re.IGNORECASE,
    ),
    row("token=", rf"(?<![A-Za-z])token={SIMPLE}", _short),
    row(
        "password_ secret_ token_ key_",
        rf"(?:PASSWORD|SECRET|TOKEN|API_?KEY)_(?!FILE|PATH|NAME|URL|URI|ENV|ID\b|TYPE|TTL|VERSION|COUNT"
        rf"|LEN)[A-Z0-9_]{{1,40}}{EQUALS}{SIMPLE}",
        _short,
    ),
    after(
        "sessionid csrftoken .sid",
        rf"((?:J?SESSION_?ID|csrftoken|connect\.sid|PHPSESSID)=[\"']?){NOT_YET}[\w.%-]{{16,}}",
        re.IGNORECASE,
    ),
    after("account.key", rf"(account\.key\.[\w.]{{1,200}}[^\S\n]{{0,4}}[=:][^\S\n]{{0,4}}){NOT_YET}[\w+/=]{{16,}}"),
    # several values: lists, before and after a change
    after(
        "passwords secrets api_keys tokens",
        rf"""((?:passwords|secrets|api_?keys|(?:access|auth)_?tokens)\\{{0,8}}["']?[^\S\n]{{0,4}}[:=]"""
        rf"""[^\S\n]{{0,4}}[\[(]){NOT_YET}(?=[^\S\n]{{0,4}}\\{{0,8}}["'])[^\])\n]{{6,4000}}""",
        re.IGNORECASE,
    ),
    after(
        "-> =>",
        rf"""((?:{PASSWORDS}|{KEYS}|{SECRETS}|token)[^\S\n]{{0,4}}[=:]"""
        rf"""[^\S\n]{{0,4}}"?\[redacted\]"?[^\S\n]{{1,4}}[-=]>[^\S\n]{{1,4}}"){NOT_YET}[^"\n]+""",
        re.IGNORECASE,
    ),
    row(
        "pass",
        rf"{PASSWORDS}[^\S\n]{{1,4}}(?:was[^\S\n])?(?:changed|rotated|updated"
        rf"|reset)[^\S\n]{{1,4}}from[^\S\n]{{1,4}}(?P<value>\S{{4,200}})[^\S\n]{{1,4}}to[^\S\n]{{1,4}}\S{{4,200}}",
        lambda match: f"{match[0][: match.start('value') - match.start()]}{MARK} to {MARK}",
        re.IGNORECASE,
        gate=r"pass(?:word|wd|phrase|wort|code)[^\n]{1,30}from[^\S\n]",
    ),
    after(
        "pass",
        rf"({PASSWORDS}[^\S\n]{{1,4}}for[^\S\n]{{1,4}}[^\n:]{{1,80}}:[^\S\n]{{1,4}}){NOT_YET}(?=\S{{0,80}}"
        rf"[\d!#$%^&*~])\S{{6,}}",
        re.IGNORECASE,
        gate=r"pass[a-z]{0,8}[^\S\n]for[^\S\n]",
    ),
    after(
        "code otp pin",
        r"(\b(?:(?:verification|one-time|security|2fa|mfa|login)[ _-]?code|otp|totp|pin)(?:[^\S\n]is"
        r"|[^\S\n]?[:=])[^\S\n]{1,4})\d{4,10}\b",
        re.IGNORECASE,
    ),
    row(
        "token secret key password",
        r"""(?:token|secret|api_?key|password)\w{0,12}\([^\S\n]{0,4}(?:\w{1,12}=)?(?P<value>["'][^"'\n]{14,400}["'])""",
        _random_only,
        re.IGNORECASE,
        gate=r"(?:token|secret|key|password)\w{0,12}\(",
    ),
    after("kty", r"""("(?:d|p|q|dp|dq|qi|k)"[^\S\n]{0,4}:[^\S\n]{0,4}")[\w-]{20,}"""),
    after(
        "identified",
        rf"(\bIDENTIFIED[^\S\n](?:WITH[^\S\n]\w{{1,40}}[^\S\n])?(?:BY"
        rf"|AS)[^\S\n](?:PASSWORD[^\S\n])?['\"]){NOT_YET}[^'\"\n]+",
        re.IGNORECASE,
    ),
    # tables and shells: a blank between name and value
    row(
        "pass key secret credential token",
        rf"(?:^|[|│┃:\]])[^\S\n]{{0,20}}[\w.-]{{0,40}}?{_ANY_NAME}[^\S\n]{{0,60}}(?:[|│┃]|\t"
        rf"|[^\S\n]{{2}})[^\S\n]{{0,60}}{VALUE}",
        _column,
        re.IGNORECASE,
        gate=r"(?:pass|key|secret|credential|token|phrase|mnemonic|string|signature)[\w-]{0,20}[^\S\n]{0,60}(?:["
        r"|│┃]|\t|[^\S\n]{2})",
    ),
    row(
        "setenv env set",
        rf"\b(?:setenv|env|set(?:[^\S\n]-[a-zA-Z]{{1,4}}){{0,3}}|config(?:ure)?[^\S\n]set)[^\S\n]{{1,4}}"
        rf"[\w./:-]{{0,80}}?(?:{_ANY_NAME}|token)[^\S\n]{{1,4}}(?=\S{{4}}){VALUE}",
        keep_name,
        re.IGNORECASE,
        gate=r"(?:env|set)[^\S\n][^\n]{0,100}(?:pass|key|secret|cred|token)",
    ),
    # sentences
    row(
        "pass",
        rf"(?P<name>{PASSWORDS})\b{_SAYS}(?!-)(?P<value>{QUOTED}|[^\s\"'`]{{4,400}})",
        _said,
        re.IGNORECASE,
        gate=r"pass(?:word|wd|phrase|wort|code)[^\S\n]",
    ),
    row(
        "secret key token",
        rf"(?P<name>{KEYS}|{_TOKENS}|\bsecret|\btoken)\b{_SAYS}(?P<value>{QUOTED}|[^\s\"'`]{{14,4000}})",
        _said,
        re.IGNORECASE,
        gate=r"""(?:secret|key|token)\w{0,16}[^\S\n]{1,4}(?:(?:is|was|are|be|will be|would be|\w{3,7} to"""
        r"""|equals|of|provided)[^\S\n]{0,4}:?[^\S\n]{1,4})?["'`]?[^\s"'`]{14}""",
    ),
)
