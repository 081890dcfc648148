# SPDX-License-Identifier: Apache-2.0
"""Secrets recognised by their shape, wherever they occur.

Most issuers begin their tokens with a prefix of their own, which scanners can find. The prefixes are those that
gitleaks and detect-secrets know, and those of the services that trainings talk to. Bodies may be shorter than what is
issued today: a log line may cut a token off, and formats change.
"""

from __future__ import annotations

from keepstep.base.redaction.secret_row import SecretRow, row

_B = r"(?<![A-Za-z0-9])"
"""Where a token may begin: not in the middle of a word. An underscore or a dash may precede it."""


def _prefixed(prefixes: str, body: str) -> SecretRow:
    """Tokens that begin with one of the prefixes, as written."""
    words = prefixes.split()
    return row(prefixes.lower(), f"{_B}(?:{'|'.join(word.replace('.', '[.]') for word in words)}){body}")


SHAPES = (
    # code hosts and package registries
    _prefixed("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{8,}"),
    _prefixed("github_pat_", r"[A-Za-z0-9_]{8,}"),
    _prefixed(
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- glffct- glwt-", r"[A-Za-z0-9_.-]{8,}"
    ),
    _prefixed("GR1348941", r"[\w-]{16,}"),
    _prefixed("npm_", r"[A-Za-z0-9]{30,}"),
    _prefixed("pypi-", r"[\w-]{40,}"),
    _prefixed("rubygems_", r"[0-9a-f]{40,}"),
    _prefixed("CLOJARS_ cio", r"(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{32,}"),
    _prefixed("oy2", r"[a-z0-9]{43}\b"),
    _prefixed("AKCp cmVmdGtuO", r"[A-Za-z0-9]{20,}"),
    _prefixed("ATATT3 ATCTT3 ATBB ATOA", r"[\w=-]{20,}"),
    _prefixed("sgp_", r"\w{40,}"),
    # clouds
    _prefixed("AKIA ABIA ACCA", r"[A-Z0-9]{8,}\b"),
    _prefixed("ASIA", r"[A-Z0-9]{12,}\b"),
    _prefixed("ABSK bedrock-api-key-", r"[A-Za-z0-9+/]{40,}={0,2}"),
    _prefixed("AIza", r"[\w-]{20,}"),
    _prefixed("ya29. GOCSPX- 1//0", r"[\w.-]{16,}"),
    row("q~", rf"{_B}[\w~.-]{{3}}\dQ~[\w~.-]{{31,40}}"),
    _prefixed("LTAI AKID", r"(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{16,}\b"),
    _prefixed("dop_v1_ doo_v1_ dor_v1_", r"\w{20,}"),
    _prefixed("HRKU-AA fo1_ fm1a_ fm1r_ fm2_", r"[\w+/=-]{30,}"),
    _prefixed("t1.9eu AQVN y0_", r"[\w.-]{35,}"),
    _prefixed("pscale_tkn_ pscale_pw_ pscale_oauth_ sbp_ vcp_ nfp_ rnd_", r"[\w.=-]{20,}"),
    _prefixed("sha256~", r"[\w-]{40,}"),
    _prefixed("tskey-", r"\w{1,20}-[\w-]{8,}"),
    # models, experiments, data
    row(
        "hf_ api_org_",
        rf"{_B}(?:hf|api_org)_(?:[A-Za-z0-9]{{28,}}|(?=[a-z]{{0,40}}[A-Z0-9])[A-Za-z0-9]{{6,}}(?=\.\.\.|…|\Z))",
    ),
    row("sk-", rf"{_B}(?:sk-(?:proj|ant|svcacct|admin|or|lf|None)-[\w-]{{8,}}|sk-[A-Za-z0-9]{{20,}})"),
    # the beginning of one that a program joins from several strings
    row("sk-", r"""(?<=["'])sk-(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{6,20}(?=["'])"""),
    row("sk_ rk_ pk_", rf"{_B}(?:[srp]k_(?:live|test|prod)_\w{{8,}}|sk_[A-Za-z0-9]{{24,}})"),
    _prefixed("nvapi- pplx- xai- csk- tvly- pcsk_ tgp_v1_ lsv2_pt_ lsv2_sk_", r"(?=[a-z-]{0,40}[A-Z0-9])[\w-]{20,}"),
    _prefixed("jina_ rpa_ fw_ esecret_ pnu_ pnb_", r"(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{20,}"),
    _prefixed("gsk_ r8_", r"\w{30,}"),
    _prefixed("wandb_v1_", r"\w{10,}"),
    _prefixed("dapi dose dkea", r"[0-9a-f]{32}(?:-\d)?"),
    # messages, pagers, payments
    _prefixed("xox", r"[a-z](?:\.xox[bp])?-[A-Za-z0-9-]{8,}"),
    _prefixed("xapp-", r"\d-[A-Za-z0-9-]{8,}"),
    row(":aa", rf"{_B}\d{{8,10}}:AA[\w-]{{30,}}"),
    row(".", r"(?<![\w.-])[MNO][A-Za-z0-9_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w.-])", gate=r"\.[\w-]{6}\.[\w-]{27}"),
    _prefixed("SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    row("sk ac", rf"{_B}(?:SK|AC)(?=[a-f]{{0,31}}[0-9])[0-9a-f]{{32}}\b", gate=r"[sa][kc][0-9a-f]{32}"),
    row("key-", r"(?<![\w-])key-[0-9a-f]{32}\b"),
    _prefixed("API-", r"(?=[A-Z]{0,40}\d)[A-Z0-9]{26}\b"),
    row("-us", rf"{_B}[0-9a-f]{{32}}-us\d{{1,2}}\b"),
    _prefixed(
        "xkeysib- xsmtpsib- PMAK- NRAK- NRAA- NRII- NRIQ- NRRA- NRSP-", r"(?=[A-Za-z-]{0,40}\d)[A-Za-z0-9-]{20,}"
    ),
    _prefixed("sntrys_ sntryu_ glc_ glsa_ phc_ phx_", r"[\w+/=]{24,}"),
    _prefixed("sq0csp- sq0atp- sq0idp- EAAA EAAC EAAM", r"(?=[A-Za-z_-]{0,40}\d)[\w-]{22,}"),
    _prefixed("shpat_ shpca_ shppa_ shpss_ shippo_live_ shippo_test_", r"[0-9A-Fa-f]{32,}"),
    _prefixed(
        "lin_api_ ntn_ figd_ figo_ rdme_ fio-u- duffel_live_ duffel_test_", r"(?=[a-z]{0,40}[A-Z0-9])[\w=-]{30,}"
    ),
    row("pat", rf"{_B}pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{32,64}}", gate=r"\.[0-9a-f]{32}"),
    row("pat. sat.", rf"{_B}[ps]at\.[\w-]{{20,24}}\.[0-9A-Za-z]{{20,26}}\.[A-Za-z0-9]{{18,22}}"),
    # secret managers
    _prefixed("hvs. hvb. hvr.", r"[\w-]{20,}"),
    row(
        "s.",
        r"(?<![\w.-])s\.(?=[A-Za-z]{0,40}\d)(?=[a-z0-9]{0,40}[A-Z])[A-Za-z0-9]{24}(?![\w.])",
        gate=r"s\.[a-z0-9]{24}",
    ),
    _prefixed("dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"[\w.]{30,}"),
    _prefixed(
        "ops_eyJ pul- ico- dckr_pat_ dckr_oat_ dt0c01. AGE-SECRET-KEY-1", r"(?=[A-Za-z_.+/=-]{0,40}\d)[\w.+/=-]{20,}"
    ),
    row("a3-", rf"{_B}A3-[A-Z0-9]{{6}}-[A-Z0-9]{{5,11}}(?:-[A-Z0-9]{{5,6}}){{3,4}}\b"),
    row(".atlasv1.", rf"{_B}[A-Za-z0-9]{{14}}\.atlasv1\.[\w=-]{{30,}}"),
    row(
        "$",
        r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{22,60}|(?:[1567y]|apr1)\$[./A-Za-z0-9$=,]{8,200}"
        r"|argon2\w{1,3}\$[\w$=,+/.-]{20,400})",
    ),
    row("pbkdf2 scrypt:", rf"{_B}(?:pbkdf2|scrypt)[:_][\w:-]{{1,40}}\$[\w$=+/.-]{{16,300}}"),
    _prefixed("xprv yprv zprv tprv", r"(?=[A-Z]{0,40}[a-z])[A-Za-z0-9]{90,120}\b"),
    # tokens that describe themselves
    row("eyj", rf"{_B}eyJ[\w-]{{8,}}\.[\w-]{{6,}}(?:\.[\w-]*){{0,3}}"),
)
