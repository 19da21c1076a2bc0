"""Secrets in a text that is about to be stored.

Owns: how a secret is recognised, and how it is shown without being revealed. Must not know: what is done about one.
Memory is stored for years, shown to every model and exported, and what was stored can be read in history (reference:
memory, sections 1.3 and 6.4): a key must not get there. A hint where a key is stored is welcome.
"""

import math
import operator
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from json.encoder import encode_basestring

from msgspec import Struct

from pattern_acp.config.logs import Redactor
from pattern_acp.domain.late_pattern import AnchoredPattern, late_pattern, without_case


class SecretMatch(Struct, frozen=True):
    """A recognised secret: the kind, with its article, and an excerpt that does not give it away."""

    what: str
    excerpt: str


def _shape(expression: str, *beginnings: str) -> AnchoredPattern:
    # Nearly all texts hold none of the beginnings, and compiling a hundred expressions takes 30 ms.
    return AnchoredPattern(late_pattern(expression), [(each, 0) for each in beginnings])


_KEY_BEGINNING = "-----BEGIN "

_SHAPES: tuple[tuple[str, AnchoredPattern], ...] = (
    ("a private key", _shape(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----", _KEY_BEGINNING)),
    ("an AWS key", _shape(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", "AKIA", "ASIA", "ABIA", "ACCA")),
    (
        "a GitHub token",
        _shape(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})\b",
            *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        ),
    ),
    (
        "a GitLab token",
        _shape(r"\bgl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_-]{20,}\b", "glpat-", "gldt-", "glrt-", "glptt-", "glcbt-"),
    ),
    (
        "a Slack token",
        _shape(
            r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}\b|hooks\.slack\.com/services/[A-Za-z0-9/]{30,}",
            *("xox", "hooks.slack.com/"),
        ),
    ),
    ("a model provider's key", _shape(r"\bsk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{20,}", "sk-")),
    ("a Google key", _shape(r"\bAIza[A-Za-z0-9_-]{35}\b|\bGOCSPX-[A-Za-z0-9_-]{20,}", "AIza", "GOCSPX-")),
    ("a Stripe key", _shape(r"\b(?:sk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{20,}\b", "sk_", "rk_", "whsec_")),
    ("a package registry's token", _shape(r"\bnpm_[A-Za-z0-9]{30,}\b|\bpypi-[A-Za-z0-9_-]{50,}", "npm_", "pypi-")),
    ("a Hugging Face token", _shape(r"\bhf_[A-Za-z0-9]{30,}\b", "hf_")),
    ("a SendGrid key", _shape(r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{20,}", "SG.")),
    (
        "a bot's token",
        AnchoredPattern(re.compile(r"\b\d{8,10}:AA[A-Za-z0-9_-]{30,}"), [(":AA", -digits) for digits in (10, 9, 8)]),
    ),
    ("a web token", _shape(r"\beyJ[A-Za-z0-9_-]{8,1000}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}", "eyJ")),
    ("a Twilio key", _shape(r"\b(?:SK|AC)[0-9a-f]{32}\b", "SK", "AC")),
    ("a DigitalOcean token", _shape(r"\bdo[por]_v1_[0-9a-f]{64}\b", "dop_v1_", "doo_v1_", "dor_v1_")),
    (
        "a Shopify token",
        _shape(r"\bshp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}\b", "shpat_", "shpca_", "shppa_", "shpss_"),
    ),
    ("a Databricks token", _shape(r"\bdapi[0-9a-f]{32}(?:-\d)?\b", "dapi")),
    ("a Mailgun key", _shape(r"\bkey-[0-9a-f]{32}\b", "key-")),
    ("a Pulumi token", _shape(r"\bpul-[0-9a-f]{40}\b", "pul-")),
    ("a New Relic key", _shape(r"\bNR(?:AK|AA|II|RA)-[A-Za-z0-9]{27,}\b", "NRAK-", "NRAA-", "NRII-", "NRRA-")),
    (
        "a package registry's token",
        _shape(r"\brubygems_[0-9a-f]{48}\b|\bCLOJARS_[A-Za-z0-9]{60}\b", "rubygems_", "CLOJARS_"),
    ),
    ("a Postman key", _shape(r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b", "PMAK-")),
    ("a Supabase token", _shape(r"\bsbp_[0-9a-f]{40}\b|\bsb_secret_[A-Za-z0-9_-]{20,}", "sbp_", "sb_secret_")),
    ("a ReadMe key", _shape(r"\brdme_[a-z0-9]{70}\b", "rdme_")),
    ("an Alibaba key", _shape(r"\bLTAI[A-Za-z0-9]{12,24}\b", "LTAI")),
    ("a Tencent key", _shape(r"\bAKID[A-Za-z0-9]{32}\b", "AKID")),
    ("a Cloudflare key", _shape(r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}\b", "v1.0-")),
    ("a 42 intra secret", _shape(r"\bs-s4t2(?:ud|af)-[0-9a-f]{64}\b", "s-s4t2")),
    ("a Vault token", _shape(r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}", "hvs.", "hvb.", "hvr.")),
    ("a Grafana token", _shape(r"\bgl(?:sa|c)_[A-Za-z0-9_=+/]{32,}", "glsa_", "glc_")),
    (
        "a Notion or Linear token",
        _shape(
            r"\b(?:secret_|ntn_|lin_api_|lin_oauth_)[A-Za-z0-9]{40,}\b", "secret_", "ntn_", "lin_api_", "lin_oauth_"
        ),
    ),
    ("a Doppler token", _shape(r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}", "dp.")),
    ("a Figma token", _shape(r"\bfig[duor]{1,2}_[A-Za-z0-9_-]{40,}", "fig")),
    ("a Sentry token", _shape(r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,}", "sntrys_", "sntryu_")),
    (
        "a Groq, xAI, Perplexity or Replicate key",
        _shape(r"\b(?:gsk_|xai-|pplx-|r8_)[A-Za-z0-9]{36,}\b", "gsk_", "xai-", "pplx-", "r8_"),
    ),
    ("a PlanetScale token", _shape(r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}", "pscale_")),
    ("an age or PGP secret key", _shape(r"\bAGE-SECRET-KEY-1[A-Z0-9]{40,}", "AGE-SECRET-KEY-1")),
    ("an Airtable token", _shape(r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b", "pat")),
    ("an Atlassian token", _shape(r"\bAT[AC]TT3[A-Za-z0-9_=-]{60,}", "ATATT3", "ATCTT3")),
    ("a 1Password token", _shape(r"\bops_eyJ[A-Za-z0-9+/=_-]{80,}", "ops_eyJ")),
    ("an Adobe secret", _shape(r"\bp8e-[A-Za-z0-9]{32}\b", "p8e-")),
    ("an Artifactory token", _shape(r"\bAKCp[A-Za-z0-9]{60,}\b", "AKCp")),
    ("an AWS key", _shape(r"\bABSK[A-Za-z0-9+/]{100,}={0,2}", "ABSK")),
    (
        "an Azure key",
        AnchoredPattern(
            re.compile(r"\bAccountKey=[A-Za-z0-9+/]{80,}={0,2}|\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b"),
            [("AccountKey=", 0), ("AZDO", -76)],
        ),
    ),
    ("a Brevo key", _shape(r"\bxkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}\b", "xkeysib-")),
    ("a Buildkite token", _shape(r"\bbkua_[0-9a-f]{40}\b", "bkua_")),
    ("a CircleCI token", _shape(r"\bCCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[0-9a-f]{40}\b", "CCIPAT_", "CCIPRJ_")),
    ("a Contentful token", _shape(r"\bCFPAT-[A-Za-z0-9_-]{43}\b", "CFPAT-")),
    ("a Docker token", _shape(r"\bdckr_[po]at_[A-Za-z0-9_-]{27,}", "dckr_pat_", "dckr_oat_")),
    ("a Duffel token", _shape(r"\bduffel_(?:test|live)_[A-Za-z0-9_=-]{43}", "duffel_")),
    ("a Dynatrace token", _shape(r"\bdt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b", "dt0")),
    ("an EasyPost key", _shape(r"\bEZ[AT]K[A-Za-z0-9]{54}\b", "EZAK", "EZTK")),
    ("a Facebook token", _shape(r"\bEAA[A-Za-z0-9]{80,}\b", "EAA")),
    ("a Flutterwave key", _shape(r"\bFLWSECK(?:_TEST)?-[A-Za-z0-9-]{12,}", "FLWSECK")),
    ("a Fly.io token", _shape(r"\b(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/=]{100,})", "fo1_", "fm1", "fm2")),
    ("a Frame.io token", _shape(r"\bfio-u-[A-Za-z0-9_=-]{64}", "fio-u-")),
    (
        "a GitLab token",
        _shape(
            r"\b(?:gl(?:agent|oas|imt|ft|soat|ffct|wt)-[A-Za-z0-9_-]{20,}|GR1348941[A-Za-z0-9_-]{20,})",
            *("glagent-", "gloas-", "glimt-", "glft-", "glsoat-", "glffct-", "glwt-", "GR1348941"),
        ),
    ),
    ("a Google key", _shape(r"\bya29\.[A-Za-z0-9_-]{30,}", "ya29.")),
    ("a Harness token", _shape(r"\b[ps]at\.[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}\b", "pat.", "sat.")),
    ("a Heroku key", _shape(r"\bHRKU-AA[A-Za-z0-9_-]{58}", "HRKU-AA")),
    (
        "a HubSpot token",
        _shape(r"\bpat-(?:na|eu|ap)\d-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "pat-"),
    ),
    ("an Infracost key", _shape(r"\bico-[A-Za-z0-9]{32}\b", "ico-")),
    ("a JetBrains token", _shape(r"\bperm[:-][A-Za-z0-9+/=]{8,}\.[A-Za-z0-9+/=]{4,}\.[A-Za-z0-9]{30,}", "perm")),
    ("a LangSmith key", _shape(r"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}\b", "lsv2_")),
    ("a Mailchimp key", AnchoredPattern(re.compile(r"\b[0-9a-f]{32}-us\d{1,2}\b"), [("-us", -32)])),
    ("a MaxMind key", AnchoredPattern(re.compile(r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"), [("_mmk", -36)])),
    ("a Netlify token", _shape(r"\bnfp_[A-Za-z0-9]{36}\b", "nfp_")),
    ("a NuGet key", _shape(r"\boy2[a-z0-9]{43}\b", "oy2")),
    ("an Octopus Deploy key", _shape(r"\bAPI-[A-Z0-9]{26,40}\b", "API-")),
    ("an OpenShift token", _shape(r"\bsha256~[A-Za-z0-9_-]{43}", "sha256~")),
    ("a Pinecone key", _shape(r"\bpcsk_[A-Za-z0-9]{5,6}_[A-Za-z0-9]{60,}\b", "pcsk_")),
    (
        "a Plaid token",
        _shape(r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "access-"),
    ),
    ("a Prefect key", _shape(r"\bpn[ub]_[A-Za-z0-9]{36}\b", "pnu_", "pnb_")),
    ("a Resend key", _shape(r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b", "re_")),
    ("a Scalingo token", _shape(r"\btk-us-[A-Za-z0-9_-]{48}", "tk-us-")),
    ("a Shippo token", _shape(r"\bshippo_(?:live|test)_[0-9a-f]{40}\b", "shippo_")),
    (
        "a Slack token",
        _shape(r"\bxapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{30,}|\bxoxe\.xox[bp]-\d-[A-Za-z0-9]{100,}", "xapp-", "xoxe."),
    ),
    ("a Sonar token", _shape(r"\bsq[pua]_[0-9a-f]{40}\b", "sqp_", "squ_", "sqa_")),
    ("a Sourcegraph token", _shape(r"\bsgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}\b", "sgp_")),
    ("a Square token", _shape(r"\b(?:EAAA[A-Za-z0-9_-]{60}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,43})", "EAAA", "sq0")),
    (
        "a Tailscale key",
        _shape(r"\btskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}\b", "tskey-"),
    ),
    ("a Tavily key", _shape(r"\btvly-(?:dev-|prod-)?[A-Za-z0-9]{32}\b", "tvly-")),
    (
        "a Terraform token",
        AnchoredPattern(re.compile(r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"), [(".atlasv1.", -14)]),
    ),
    ("a Typeform token", _shape(r"\btfp_[A-Za-z0-9_.=-]{59}", "tfp_")),
    ("a Yandex key", _shape(r"\bAQVN[A-Za-z0-9_-]{35,38}\b", "AQVN")),
    (
        "a model provider's key",
        _shape(
            r"\b(?:csk-[a-z0-9]{48}|fw_[A-Za-z0-9]{22,24}|tgp_v1_[A-Za-z0-9_-]{43}|jina_[A-Za-z0-9]{60}|nvapi-[A-Za-z0-9_-]{64})\b",
            *("csk-", "fw_", "tgp_v1_", "jina_", "nvapi-"),
        ),
    ),
)
"""Token shapes that their issuers document; each is recognised by its beginning."""

_LONG = 15

_LONG_WORD = re.compile(rf"[A-Za-z0-9_.=+/:~-]{{{_LONG},}}")
"""A word that a token or a random run can be in. Most texts have none, or short ones: those are looked through."""

_SHAPE_AT = tuple((anchor, at) for at, (_, shape) in enumerate(_SHAPES) for anchor, _ in shape.anchors)
"""The beginnings of all shapes, each with the place of its shape: a hundred calls take three times this one loop."""

_ADDRESS_END = re.compile(r"://[^\s/:@]*+:[^\s/@]{3,}+@")
"""Rest of an address with a password; far quicker to find than its beginning."""

_NAMED: tuple[tuple[str, re.Pattern[str] | AnchoredPattern], ...] = (
    ("a password in an address", re.compile(r"\b[a-z][a-z0-9+.-]{0,30}+://[^\s/:@]*+:([^\s/@]{3,}+)@", re.IGNORECASE)),
    (
        "an authorization header",
        AnchoredPattern(
            re.compile(r"\bAuthorization:\s*(?:Bearer|Basic|Token)\s+([^\s\"'`]{8,})", re.IGNORECASE),
            [("authorization:", 0)],
            ignore_case=True,
        ),
    ),
    (
        "a password on a command line",
        AnchoredPattern(
            re.compile(
                r"\b(?:curl|wget|http|https|xh)\s(?:[^\n|;&]{0,200}\s)?"
                r"(?:-u\s?|--user[= ]|-a\s|--auth[= ]|--proxy-user[= ])"
                r"[\"']?[^\s:\"']{1,80}:([^\s\"'@]{3,})"
                r"|\b(?:mysql|mysqldump|mariadb|mysqladmin)\s(?:[^\n|;&]{0,200}\s)?"
                r"-p([^\s\"'-][^\s\"']{2,})"
                r"|\b(?:sshpass|docker\slogin|podman\slogin|az\slogin|oc\slogin)\s(?:[^\n|;&]{0,200}\s)?"
                r"-p\s?([^\s\"'-][^\s\"']{2,})",
            ),
            [
                (each, 0)
                for each in (
                    "curl",
                    "wget",
                    "http",
                    "xh",
                    "mysql",
                    "mariadb",
                    "sshpass",
                    "docker",
                    "podman",
                    "az ",
                    "oc ",
                )
            ],
        ),
    ),
)
"""Places that say themselves that a secret is there."""

_ASSIGNED = AnchoredPattern(
    re.compile(
        r"(?<![A-Za-z])((?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key"
        r"|private[_-]?key|auth[_-]?key|credentials?|pwd)(?:[_-][A-Za-z0-9]{1,60}+){0,8}+)[\"'`]?\s*+(?::=|=>|[:=]|\bis\b)\s*"
        r"(?:Bearer\s+)?([\"'`]?)([^\s\"'`,;]{6,})\2",
        re.IGNORECASE,
    ),
    [
        *((each, 0) for each in ("password", "passwd", "passphrase", "secret", "token", "credential", "pwd")),
        *((kind + sign + "key", 0) for kind in ("api", "access", "private", "auth") for sign in ("", "_", "-")),
    ],
    ignore_case=True,
)
"""Assignment of a secret. The prefix of its name (`DB_` of `DB_PASSWORD`) is matched only once the rest fits, and every
repetition has an end or gives nothing back: a page of hex digits is one word, and each of its characters would be a
beginning."""

_NAME_CHARACTERS = string.ascii_letters + string.digits + "_-"
_NAME_LENGTH = 60

_PLACEHOLDER = re.compile(
    r"[<$%{\[(*].*|.*[>})\]]|x{4,}.*|\*+|\.{3,}|.*\.\.\.|.*…|change_?me"
    r"|(?:your|my|the|some|example|dummy|fake)[-_ ].*"
    r"|(?:true|false|null|none|undefined|required|optional|string|process\.env.*|os\.environ.*|env[.:].*)",
    re.IGNORECASE,
)
"""Placeholders for secrets in documentation."""

_QUOTED_PASSWORD = 10
"""Letters of a word in quotes behind `password` from which on it counts as one."""

_PATHLIKE = re.compile(r"(?:~|\.{0,2}/|[A-Za-z]:\\|https?://).*|[\w.-]+/[\w./-]+|[\w-]+\.[a-z]{1,5}")

_RUN = re.compile(r"[A-Za-z0-9+_=-]{24,}")
_HASHLIKE = re.compile(r"[0-9a-f-]+|[0-9A-F-]+|sha\d+-.*")
_ENTROPY_BITS = 4.0
"""Bits a character above which a long run of letters and digits is no word of any language or program."""
_CLASSES = str.maketrans(
    string.ascii_lowercase + string.ascii_uppercase + string.digits + "+_=-", "a" * 26 + "A" * 26 + "0" * 10 + "+" * 4
)
_SWITCHES = 0.45
"""Share of neighbouring characters of different classes; identifiers in camel case have up to 0.4, random runs 0.6."""


def find_secret(text: str) -> SecretMatch | None:
    """The first secret in `text`, or None."""
    return next(_secrets(text), None)


_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)


def mask_secrets(text: str) -> str:
    """`text` with `[secret]` instead of everything that looks like a secret; for what leaves this machine."""
    mark = "[secret]"
    words = _long_words(text)
    masked = _with_marks(text, words, mark, mark)
    masked = _ASSIGNED.sub(lambda match: _with_mark(match, 3, mark) if _is_assigned(match) else match[0], masked)
    if masked is text and not any(map(_looks_random, _RUN.findall(words))):
        return text
    return _RUN.sub(lambda match: mark if _looks_random(match[0]) else match[0], masked)


_ANCHORED = (_ASSIGNED, *(shape for _, shape in _NAMED[1:]))


class SecretMask:
    """The mask of what leaves this machine: secrets of the settings, and whatever looks like one."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        """Mask these as well."""
        known = tuple(known)
        self._known = Redactor(known)
        # As a text in JSON has them.
        self._known_in_json = Redactor(encode_basestring(each)[1:-1] for each in known)

    def mask(self, text: str) -> str:
        """`text` with a mark instead of every secret."""
        return mask_secrets(self._known.mask(text))

    def is_needed(self, json: str) -> bool:
        """Tell whether a text of an object in JSON may be masked; False is sure, and takes no reading of the object."""
        if self._known_in_json.is_needed(json) or "://" in json or _KEY_BEGINNING in json:
            return True
        words, small = _long_words(json), without_case(json)
        return (
            any(shape.is_possible(small) for shape in _ANCHORED)
            or any(True for _ in _shapes_in(words))
            or any(map(_looks_random, _RUN.findall(words)))
        )


def _group(match: re.Match[str]) -> int:
    """The group of an expression with several that took part in the match."""
    return match.lastindex or 0


def mask_tokens(text: str, mark: str = "[secret]") -> str:
    """`text` with `mark` instead of what surely is a secret: tokens of known shapes, keys, passwords in addresses.

    What only may be one stays, such as a value behind a telling name: a reader of code has to see it.
    """

    # A token has digits; `sk-loading-indicator-large` is a name.
    def of_token(match: re.Match[str]) -> str:
        return mark if any(map(str.isdigit, match[0])) else match[0]

    return _with_marks(text, _long_words(text), of_token, mark)


def _long_words(text: str) -> str:
    """The words of a text that shapes and random runs can be in, a line each."""
    # Nearly all of a text is left at once; the expression alone takes twice as long.
    words = _LONG_WORD.findall("\n".join([word for word in text.split() if len(word) >= _LONG]))
    return "\n".join((_KEY_BEGINNING, *words) if _KEY_BEGINNING in text else words)


def _shapes_in(words: str) -> Iterator[tuple[str, AnchoredPattern]]:
    """Yield the shapes whose beginning is in the long words of a text."""
    return map(_SHAPES.__getitem__, sorted({at for anchor, at in _SHAPE_AT if anchor in words}) if words else ())


def _with_marks(text: str, words: str, of_token: str | Callable[[re.Match[str]], str], mark: str) -> str:
    text = _KEY_BLOCK.sub(mark, text) if _KEY_BEGINNING in text else text
    for _, shape in _shapes_in(words):
        text = shape.sub(of_token, text)
    for _, shape in _named(text):
        text = shape.sub(lambda match: _with_mark(match, _group(match), mark), text)
    return text


def _named(text: str) -> tuple[tuple[str, re.Pattern[str] | AnchoredPattern], ...]:
    return _NAMED if _ADDRESS_END.search(text) else _NAMED[1:]


def _with_mark(match: re.Match[str], group: int, mark: str) -> str:
    if mark in match[group] or _PLACEHOLDER.fullmatch(match[group]):
        return match[0]
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + mark + match[0][end:]


def _is_assigned(match: re.Match[str]) -> bool:
    if match[2] and match[3].isalpha() and "pass" in _assigned_name(match).lower():
        # In quotes, a word of a password's length is one, unless a document shows what to write.
        return len(match[3]) >= _QUOTED_PASSWORD and not _PLACEHOLDER.fullmatch(match[3])
    # Numbers are behind `token` where tokens are counted.
    counted = match[3].isdecimal() and "pass" not in _assigned_name(match).lower()
    return _looks_assigned(match[3]) and not counted


def _assigned_name(match: re.Match[str]) -> str:
    """The whole name in front of an assigned value, as far as it is not very long."""
    before = match.string[max(0, match.start(1) - _NAME_LENGTH) : match.start(1)]
    prefix = before[len(before.rstrip(_NAME_CHARACTERS)) :] if before.endswith(("_", "-")) else ""
    return prefix + match[1]


def _secrets(text: str) -> Iterator[SecretMatch]:
    words = _long_words(text)
    for what, shape in _shapes_in(words):
        yield from (SecretMatch(what, _masked(match[0])) for match in shape.finditer(text))
    for what, shape in _named(text):
        given = (match[_group(match)] for match in shape.finditer(text))
        yield from (SecretMatch(what, _masked(value, shown=0)) for value in given if not _PLACEHOLDER.fullmatch(value))
    for match in _ASSIGNED.finditer(text):
        if _is_assigned(match):
            yield SecretMatch(f"a value of `{_assigned_name(match)[:40]}`", _masked(match[3], shown=0))
    yield from (SecretMatch("a random key", _masked(run)) for run in _RUN.findall(words) if _looks_random(run))


def _looks_assigned(value: str) -> bool:
    """True when the value behind a telling name is one, and not a word, a name of a variable, or a place."""
    if value.endswith("()"):
        return False
    value = value.rstrip(".:!?)")
    if len(value) < 6 or _PLACEHOLDER.fullmatch(value) or _PATHLIKE.fullmatch(value):
        return False
    classes = {_character_class(character) for character in value}
    has_digit = "digit" in classes
    letters_only = value.replace("_", "").replace("-", "").isalpha()
    if letters_only:
        # `token = refresh_token`, or "the secret is: patience".
        return False
    return has_digit or "other" in classes


def _looks_random(run: str) -> bool:
    if _HASHLIKE.fullmatch(run) or not any(character.isdigit() for character in run):
        return False
    if run == run.lower() or run == run.upper():
        # Commit hashes, slugs and constants; keys of one case alone have a shape or a telling name.
        return False
    return _entropy(run) >= _ENTROPY_BITS and _switches(run) >= _SWITCHES


def _entropy(run: str) -> float:
    counts = Counter(run)
    return -sum(count / len(run) * math.log2(count / len(run)) for count in counts.values())


def _switches(run: str) -> float:
    classes = run.translate(_CLASSES)
    return sum(map(operator.ne, classes, classes[1:])) / max(1, len(run) - 1)


def _character_class(character: str) -> str:
    if character.isdigit():
        return "digit"
    if character.isupper():
        return "upper"
    return "lower" if character.islower() else "other"


def _masked(secret: str, shown: int = 4) -> str:
    start = secret[: min(shown, len(secret) // 4)]
    return f"{start}••• of {len(secret)} characters"
