# SPDX-License-Identifier: Apache-2.0
"""Secrets recognised by their place: in a command line, in a URL, in a line of a password file."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.redaction.secret_row import MARK, NOT_YET, after, row
from keepstep.base.redaction.secret_values import is_hash, looks_random

_WORD = r"""(?:"[^"\n]{1,400}"|'[^'\n]{1,400}'|[^\s"'][^\s"']*)"""
_ARGUMENTS = r"[^\n|;&]{0,200}?[^\S\n]"


def _typed(match: re.Match[str]) -> str:
    value = match["value"]
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return match[0][: match.start("value") - match.start()] + MARK if mixed else match[0]


COMMANDS = (
    after("login", r"(\bwandb(?:\.|[^\S\n]{1,4})login\b[^\n]{0,40}?)\b(?:[0-9a-f]{40}|local-[0-9a-f]{40})\b"),
    after(
        "login",
        rf"(\b(?:docker|podman|helm|nerdctl|skopeo|buildah|az|oc|ngc|cf"
        rf"|argocd)\b[^\n]{{0,40}}?\blogin\b{_ARGUMENTS}-p(?:[^\S\n]{{1,4}}|=)?){NOT_YET}(?!\s|-){_WORD}",
    ),
    after(
        "mysql mariadb mongo sshpass 7z",
        rf"(\b(?:mysql\w*|mariadb\w*|mongo\w*|sshpass|7za?)\b{_ARGUMENTS}-p)(?!ort|rofile|rotocol|ipe){NOT_YET}"
        rf"(?!\s){_WORD}",
    ),
    after("mongo sshpass", rf"(\b(?:mongo\w*|sshpass)\b{_ARGUMENTS}-p[^\S\n]{{1,4}}){NOT_YET}(?!-){_WORD}"),
    after(
        "ipmitool unzip zip ldap", rf"(\b(?:ipmitool|unzip|zip)\b{_ARGUMENTS}-P[^\S\n]{{0,4}}){NOT_YET}(?!\s|-){_WORD}"
    ),
    after("ldap", rf"(\bldap\w{{3,8}}\b{_ARGUMENTS}-w[^\S\n]{{0,4}}){NOT_YET}(?!\s|-){_WORD}"),
    after("redis-cli", rf"(\bredis-cli\b{_ARGUMENTS}-a[^\S\n]{{0,4}}){NOT_YET}(?!\s|-){_WORD}"),
    after("smbclient", rf"(\bsmbclient\b{_ARGUMENTS}-U[^\S\n]{{0,4}}[\w.\\/@-]{{1,64}}%){NOT_YET}{_WORD}"),
    after(
        "sudo chpasswd stdin",
        rf"""(\becho[^\S\n]{{1,4}}(?:-n[^\S\n])?["']?){NOT_YET}[^\s"'|]{{4,400}}"""
        rf"""(?=["']?[^\S\n]{{0,4}}\|[^\n]{{0,200}}?(?:sudo[^\S\n]-S|chpasswd|-stdin))""",
    ),
    after(
        "htpasswd",
        rf"(\bhtpasswd[^\S\n]{{1,4}}-\w{{0,6}}b\w{{0,6}}[^\S\n]{{1,4}}\S{{1,256}}[^\S\n]{{1,4}}\S{{1,128}}"
        rf"[^\S\n]{{1,4}}){NOT_YET}\S+",
    ),
    after(
        "-storepass -keypass -passwd -pass",
        rf"([^\S\n]-(?:store|key|src|dest)?pass(?:wd|word)?[^\S\n]{{1,4}})(?!-|pass:|env:|file:){NOT_YET}{_WORD}",
    ),
    after("/p:", rf"([^\S\n]/p:){NOT_YET}(?=\S{{4}})\S+"),
    after(
        "sqlplus oracle:thin",
        rf"((?:\bsqlplus[^\S\n]{{1,4}}|\boracle:thin:)[\w.$-]{{1,64}}/){NOT_YET}[^\s@/]{{1,128}}(?=@)",
    ),
    after(
        "auth login(",
        rf"""((?:\bauth[^\S\n]{{0,4}}=[^\S\n]{{0,4}}|BasicAuth|DigestAuth|\.auth|\blogin"""
        rf"""|\bauthenticate)\([^\S\n]{{0,4}}["'][^"'\n]{{0,128}}["'][^\S\n]{{0,4}},[^\S\n]{{0,4}}"""
        rf"""["']){NOT_YET}[^"'\n]+""",
    ),
    after(
        "@",
        rf"((?<![\w:/.@-])[A-Za-z_][\w.-]{{0,31}}:){NOT_YET}(?=[^\s:@/]{{0,63}}\d)(?=[^\s:@/]{{0,63}}"
        rf"[A-Za-z])[^\s:@/\"'<>()\[\]]{{6,64}}(?=@(?!sha)[\w-]{{1,63}}[.:])",
        gate=r":[^\s:@/]{6,64}@[\w-]{1,63}[.:]",
    ),
    # expect: `send "...\r"` types it, and what is a mix of letters and digits is no command
    row(
        "send",
        r"""\bsend(?:[^\S\n]{1,4}-{1,2}\w{0,8}){0,2}[^\S\n]{1,4}"(?P<value>[^\s"$\\/]{6,80})(?=\\r")""",
        _typed,
        gate=r"""\bsend[^\n"]{0,24}"[^\s"]{6,80}\\r\"""",
    ),
    after("ssh-keygen", rf"(\bssh-keygen\b{_ARGUMENTS}-[NP][^\S\n]{{0,4}}){NOT_YET}(?!\s|-|\"\"|''){_WORD}"),
    after("openssl", rf"(\bopenssl\b{_ARGUMENTS}-k[^\S\n]{{1,4}}){NOT_YET}(?!-){_WORD}"),
    after("/user:", rf"([^\S\n]/user:\S{{1,64}}[^\S\n]{{1,4}}){NOT_YET}(?![/-]){_WORD}", re.IGNORECASE),
    after(
        "--user",
        rf"((?<![\w-])--user(?:name)?(?:=|[^\S\n]{{1,4}})[\"']?[\w.@-]{{1,64}}:){NOT_YET}(?=[^\s\"']{{0,60}}"
        rf"[A-Za-z])(?=[^\s\"']{{0,60}}(?:\d|[a-z][A-Z]|[A-Z]{{2}}[a-z]))[^\s\"']{{6,}}",
    ),
    # an AWS id followed by its secret and session token: in a CSV of keys, a tuple, or the output of `aws sts`
    after(
        "akia asia",
        r"(\bA(?:KI|SI)A[A-Z0-9]{12,20}\b[^\n]{0,60}?[\s,:;|/\"'])"
        r"(?=[A-Za-z0-9+/]{0,39}[A-Z])(?=[A-Za-z0-9+/]{0,39}[a-z])(?=[A-Za-z+/]{0,39}\d)[A-Za-z0-9+/]{40}"
        r"(?![A-Za-z0-9+/=])(?:[\s,]{1,4}[A-Za-z0-9+/=]{80,})?",
    ),
    after("pass:", rf"([^\S\n]-pass(?:in|out|word)?[^\S\n]{{1,4}}pass:){NOT_YET}\S+"),
    after(
        "curl wget http",
        r"""(\b(?:curl|wget|https?)\b[^\n]{0,400}?[^\S\n](?:-u|-U|--user|--proxy-user|-a"""
        r"""|--auth)[^\S\n=]?["']?[^\s:"']{1,128}:)"""
        rf"""{NOT_YET}[^\s"']+""",
    ),
)

_DATABASES = (
    r"(?:postgres(?:ql)?|mysql|mariadb|redis|rediss|mongodb|amqps?|ftp|sftp|ssh|smb|cifs|mssql|oracle|clickhouse"
    r"|ldaps?|nats|kafka|db2)"
)

_HOST = (
    r"(?:[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?::\d{1,5})?|[\w-]{1,63}:\d{1,5}|localhost|\[[0-9a-fA-F:]{2,45}\])"
    r"(?:[/?#,;\s'\"<>]|\Z)"
)
"""What surely is one: a password goes on up to the last ``@`` before it."""

URLS = (
    # user and password, where the password may hold a slash; a token as the user; one that a shortened message cut off
    row(
        "@",
        rf"(://)[^\s/:@'\"<>]{{0,128}}:(?!\d{{1,5}}(?:[/?#,;\s]|$))[^\s@'\"<>]{{1,512}}"
        rf"(?:@(?!{_HOST})[^\s@'\"<>]{{0,256}}){{1,4}}@(?=[\w\[])",
        rf"\1{MARK}@",
        gate=r"://[^\s/:@]{0,128}:[^\s@]{1,512}@[^\s@]{0,256}@",
    ),
    row("://", r"(://)[^\s/:@'\"<>]{0,256}:[^\s/@'\"<>]{0,512}(?:@[^\s/@'\"<>]{0,256}){0,4}@", rf"\1{MARK}@"),
    row(
        "://",
        rf"((?i:{_DATABASES})(?:\+\w{{1,20}})?://)[^\s/:@'\"<>]{{0,128}}:[^\s@'\"<>]{{1,512}}@(?=[\w\[])",
        rf"\1{MARK}@",
    ),
    row("://", r"(://)[^\s/:@'\"<>]{1,128}:(?!\d{1,5}(?:[/?#,;\s]|$))[^\s@'\"<>]{1,512}@", rf"\1{MARK}@"),
    row("://", rf"(://){NOT_YET}[^\s/:@'\"<>]{{20,512}}@", rf"\1{MARK}@"),
    row("://", r"(://[^\s/:@'\"<>\[]{1,64}:)(?!\d{1,5}\b)[^\s/@'\"<>\[]{1,256}(?=\.\.\.|…)", rf"\1{MARK}"),
    after(
        "x-amz- x-goog- sig= signature= accesskeyid= accessid= pair-id= policy= token= key= code= secret= auth= "
        "sas= jwt= client_id= password= passwd= pass= pw= pwd= hmac=",
        r"((?:[?&#;]|&amp;|%26|\\u0026)(?:X-Amz-(?:Signature|Credential|Security-Token)|X-Goog-(?:Signature"
        r"|Credential)|Signature|sig|hmac|jwt"
        r"|AWSAccessKeyId|GoogleAccessId|Key-Pair-Id|Policy|[\w-]{0,20}token|auth|[\w-]{0,20}secret|api_?key"
        r"|pass(?:word|wd)?|pwd?"
        rf"|(?:key|code)(?==[\w-]{{16}}))(?:=|%3D)){NOT_YET}[^&\s\"'<>]+",
        re.IGNORECASE,
        gate=r"(?:[?&#;]|%26|u0026)[\w-]{1,30}(?:=|%3d)",
    ),
    after("hooks.slack", r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/+-]+"),
    after(
        "webhook logic.azure hooks.zapier /incoming/",
        r"((?:discord(?:app)?\.com/api/webhooks|webhook\.office\.com/webhookb2|hooks\.zapier\.com/hooks/catch"
        r"|/incoming/webhook)/)[\w/@.-]+",
    ),
    after("api.telegram", r"(api\.telegram\.org/(?:file/)?bot)[\w:-]{20,}"),
    after("softlayer", r"(api\.softlayer\.com/\w{1,10}/v[\d.]{1,4}/)[a-z0-9]{40,}"),
    after("ingest", rf"(://){NOT_YET}[0-9a-f]{{16,64}}(?=@[\w.]{{0,80}}ingest)"),
)

LINES = (
    # .pgpass: host:port:database:user:password
    after(
        "543 6432 :*:",
        r"((?:^|(?<=[\s\"']))[\w.*-]{1,128}:(?:543\d|6432|\*):[\w*-]{1,63}:[\w.@-]{1,63}:)(?!\[redacted\])[^\s:\"']+",
    ),
    # kubeadm join, and other places that say "token" shortly before one of this shape
    after("token", r"(\btoken\w{0,8}[\"']?[^\S\n:=]{0,4}[:=]?[^\S\n\"']{0,4}[\"']?)[a-z0-9]{6}\.[a-z0-9]{16}\b"),
    after("private-mac private-lines", r"(Private-MAC: )[0-9a-f]{32,}"),
)

SHORTEST_LINE = 64
"""A line of base64: programs break it after 64, 70 or 76 characters."""
_FULL = r"(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76})(?=\r?$)"
_BLOCK = lazy_pattern(
    rf"(?m)(?:^|(?<=\s)){_FULL}(?:\r?\n[^\S\n]{{0,40}}[A-Za-z0-9+/]{{4,76}}={{0,2}}(?=\r?$)){{0,400}}"
)
_PIECE = lazy_pattern(r"[A-Za-z0-9+/]{4,76}={0,2}")


def without_blocks_of_base64(text: str) -> str:
    """Lines of a key or another file in base64, whose beginning may be elsewhere. Digests do not count."""
    return _BLOCK.sub(_block, text)


def _block(match: re.Match[str]) -> str:
    first = match[0].split(None, 1)[0]
    return _PIECE.sub(_piece, match[0]) if looks_random(first.strip("/")) and not is_hash(first) else match[0]


def _piece(match: re.Match[str]) -> str:
    word = match[0]
    return word if word.isalpha() and (word.islower() or word.istitle() or word.isupper()) else MARK
