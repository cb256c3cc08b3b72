"""Secrets that are told by their own shape: tokens, keys, and the fields of URLs and headers that hold them.

Shapes are those that the issuers document or that their own scanners use. Minimal lengths are below the issued ones: a
log line that is cut inside a token must not save the rest of it.
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second

_PEM = lazy(r"-----BEGIN [A-Z0-9 ]{3,40}-----.*?(?:-----END [A-Z0-9 ]{3,40}-----|\Z)", re.DOTALL)
_SSH_KEY = lazy(
    r"((?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-nistp\d{3}|sk-(?:ssh|ecdsa)[\w@.-]+)\s+)(AAAA[A-Za-z0-9+/]{16,}={0,2})",
    re.ASCII,
)
# The body of a public key, whose kind is its first word: `AAAAB3NzaC1yc2E` says "ssh-rsa".
_SSH_BODY = lazy(r"(?<![\w+/])AAAA[A-Z][0-9A-Za-z](?:NzaC1|VjZHNh)[A-Za-z0-9+/]{16,}={0,2}", re.ASCII)
_FINGERPRINT = lazy(r"(\bSHA256:)([A-Za-z0-9+/]{40,44}={0,2})(?![A-Za-z0-9+/])", re.ASCII)

_TOKENS = lazy(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}"  # AWS key and principal ids
    r"|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{20,}"  # Alibaba, Tencent
    r"|AIza[\w-]{20,}|ya29\.[\w-]{10,}|GOCSPX-[\w-]{10,}|1//0[\w-]{20,}"  # Google API key, OAuth, client, refresh
    r"|[\w~.-]{3}[78]Q~[\w~.-]{28,}"  # Azure client secret
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas|ffct)-[\w.-]{10,}"
    r"|(?:hf|hf_oauth|api_org)_[A-Za-z0-9]{16,}"
    r"|sk-(?:proj-|ant-|svcacct-|admin-|or-|lf-)?[\w-]{16,}|sess-[A-Za-z0-9]{30,}"  # OpenAI, Anthropic, OpenRouter
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{16,}"  # Stripe
    r"|xox[abcdeoprs]-[\w-]{10,}|xoxe\.[\w.-]{10,}|xapp-[\w-]{10,}"  # Slack
    r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?|eyJ[\w-]{40,}={0,2}"  # JWT; Neptune's base64 of JSON
    r"|wandb_v\d_\w{16,}|nvapi-[\w-]{16,}|gsk_[A-Za-z0-9]{16,}|xai-\w{16,}|r8_[A-Za-z0-9]{16,}|dapi[0-9a-f]{24,}"
    r"|fw_[A-Za-z0-9]{20,}|a[ks]-[A-Za-z0-9]{10,}(?![\w-])"  # Fireworks, Modal
    r"|KGAT_\w{16,}|pplx-\w{16,}|csk-\w{16,}|rpa_[A-Z0-9]{16,}\w*|pcsk_\w{16,}|lsv2_[a-z]{2}_\w{16,}|jina_\w{16,}"
    r"|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dckr_(?:pat|oat)_[\w-]{10,}|dop_v1_\w{16,}|SG\.[\w-]{10,}\.[\w-]{10,}"
    r"|hv[sbr]\.[\w-]{20,}|glsa_\w{16,}|glc_[\w+/=]{16,}|tskey-[\w-]{10,}|lin_api_\w{16,}|ntn_\w{16,}|figd_[\w-]{16,}"
    r"|NRAK-[A-Z0-9]{16,}|NRJS-[0-9a-f]{16,}|pul-[0-9a-f]{32,}"  # New Relic, Pulumi
    r"|ATBB[A-Za-z0-9]{16,}|ATATT3[\w=-]{16,}|ATCTT3[\w=-]{16,}"  # Bitbucket, Atlassian
    r"|dp\.(?:st|pt|ct|sa|scim|audit)\.[\w.-]{16,}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{16,}"  # Doppler, Terraform
    r"|pscale_(?:tkn|pw|oauth)_[\w.=-]{16,}|sb[ps]_[0-9a-f]{16,}|sb_secret_\w{10,}"  # PlanetScale, Supabase
    r"|fm[12][ar]?_[\w+/=-]{16,}|fo1_[\w-]{20,}"  # Fly
    r"|rpa_[A-Za-z0-9]{24,}|secret_[\w-]{1,40}_[0-9a-f]{16,}\.[A-Za-z0-9]{16,}"  # RunPod, Lambda
    r"|PMAK-[\w-]{16,}|shpat_\w{16,}|AGE-SECRET-KEY-1\w{10,}|key-[0-9a-f]{32}|SK[0-9a-f]{32}|\d{8,10}:AA[\w-]{30,}"
    r")",
    re.ASCII,
)
# The secret half of an AWS pair, which has no shape of its own, where it stands behind the first half.
_AWS_PAIR = lazy(r"((?:AKIA|ASIA)[A-Z0-9]{12,}[\"',:;\s]{1,8})([A-Za-z0-9/+]{38,40})(?![A-Za-z0-9/+])", re.ASCII)
_WEBHOOK = lazy(
    r"(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot"
    r"|[\w.-]{1,80}\.webhook\.office\.com/)([\w/@:.-]{6,})",
    re.ASCII | re.I,
)
# A W&B key is 40 hex digits, as is a git commit: only what stands near its name is taken for one. Likewise Comet's, of
# 25 letters and digits, and Kaggle's, of 32 hex digits.
_NEAR_NAME = (
    lazy(r"(?i)((?:wandb|w&b|weights (?:and|&) biases)[^\n]{0,160}?)\b([0-9a-f]{40})\b", re.ASCII),
    lazy(r"(?i)(\bcomet[^\n]{0,80}?\bkey\W{1,4})\b([A-Za-z0-9]{25})\b", re.ASCII),
    # `using API key X`, `The given API key X is invalid`
    lazy(
        r"(?i)(\b(?:using (?:the |your |this )?|given |provided )api[ _-]?key[ :=]{1,3}[\"'(]?)"
        r"((?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{12,200})(?![\w-])",
        re.ASCII,
    ),
    lazy(r"((?<![\w.-])(?:AK|SK)=[\"']?)([A-Za-z0-9]{16,})", re.ASCII),  # Huawei
    lazy(r"((?:\b|_)bot)(\d{8,10}:AA[\w-]{30,})", re.ASCII),
    lazy(r"(\\?[\"']key\\?[\"']\s*:\s*\\?[\"'])([0-9a-f]{32})\b", re.ASCII),
    lazy(r"(\\?[\"']auth\\?[\"']\s*:\s*\\?[\"'])([A-Za-z0-9+/]{8,}={0,2})", re.ASCII),  # docker's config.json
    lazy(r"(\blogin\([^()\n]{0,80}?\bkey\s?=\s?\\?[\"'])([^\"'\\\n]{4,200})", re.ASCII),  # wandb.login(key="..")
    # AWS: parameters and secrets that are shown in clear
    lazy(
        r"(\bSecureString\\?[\"'],?\s{0,20}\\?[\"']?Value\\?[\"']?\s?[:=]\s?\\?[\"'])([^\"'\\\n]{1,4000})(?=\\?[\"'])",
        re.ASCII,
    ),
    lazy(r"(\bSecret(?:String|Binary)\\?[\"']?\s?[:=]\s?b?\\?[\"'])(?!\{)([^\"'\\\n]{1,4000})(?=\\?[\"'])", re.ASCII),
    # `vastai set api-key X`
    lazy(
        r"(\b[a-z][\w-]{1,20} (?:set|config|auth|add) (?:api[-_]?key|(?:access|auth)[-_]?token|token|secret) [\"']?)"
        r"((?=[^\s\"']*\d)[^\s\"'=]{12,})",
        re.ASCII,
    ),
    lazy(r"(\\?[\"']private_key_id\\?[\"']\s*:\s*\\?[\"'])([0-9a-f]{16,})", re.ASCII),
)
# The schemes of IANA's registry, and those that services use without one.
_AUTHORIZATION = lazy(
    r"(?i)(\b(?:proxy-)?authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:bearer|basic|concealed|digest|dpop|gnap|hawk"
    r"|hoba|mutual"
    r"|negotiate|oauth|privatetoken|scram-sha-\d+|vapid|ntlm|kerberos|token|api-?key|key|aws|aws4-hmac-sha256"
    r"|aws4-ecdsa-p256-sha256|sharedkey(?:lite)?|sharedaccesssignature|geniekey|googlelogin|splunk|snowflake)\s+)?)"
    r"(?!username=|digest\s)([^\s\"'\\,;]{3,})",
    re.ASCII,
)
# RFC 7616: what stands in quotes behind `Digest`.
_DIGEST = lazy(r"(?i)(\bdigest\s(?=[^\n]*?\b(?:nonce|response)=))([^\n]{8,4000})", re.ASCII)
_DIGEST_PART = lazy(r"(?i)(\b(username|response|c?nonce|opaque|uri|realm)=\\?[\"'])([^\"'\\\n]{1,500})", re.ASCII)
_BEARER = lazy(r"(?i)(\bbearer\s+)((?=[\w.~+/-]*\d)[\w.~+/-]{8,}=*)", re.ASCII)
_CHALLENGE = lazy(r"(?i)(\b(?:negotiate|ntlm)\s{1,3})((?=[a-z+/]*\d)[a-z0-9+/]{10,4000}={0,2})(?![\w+/=])", re.ASCII)
_BASIC = lazy(r"(\b[Bb]asic\s{1,3})([A-Za-z0-9+/]{8,400}={0,2})(?![A-Za-z0-9+/=])", re.ASCII)
_COOKIE = lazy(r"(?i)(\b(?:set-)?cookie\\?[\"']?\s*[:=]\s*\\?[\"']?)([^\n\"'\\]{4,})", re.ASCII)
_COOKIE_NAME = lazy(
    r"(?i)(\b(?:(?:session|sessionid|csrf_?token|_xsrf|connect\.sid|jsessionid|phpsessid|remember_token)="
    r"|(?:sessionid|session_id|csrf_?token|xsrf-token|_xsrf|connect\.sid|jsessionid|phpsessid|asp\.net_sessionid"
    r"|laravel_session|remember_token)\\?[\"']?\s?[=:]\s?\\?[\"'](?=[^\"']*\d)))([\w%.+/=-]{8,})",
    re.ASCII,
)
# Parameters of signed URLs: AWS, Google, Azure, CloudFront, and what others call their keys.
_SIGNED = lazy(
    r"(?i)([?&](?:x-(?:amz|goog|oss)-(?:signature|credential|security-token)|awsaccesskeyid|googleaccessid|signature|"
    r"sig|policy|key-pair-id|ossaccesskeyid|access_token|api_?key|key|token|auth|code|password|pwd|secret)=)"
    r"([^\s&\"'<>#]{2,})",
    re.ASCII,
)
# The same in an address that is itself a parameter, percent-encoded.
_ENCODED = lazy(
    r"(?i)((?:%3F|%26|\b|(?<=[a-z])_)(?:access_?token|api_?key|token|password|passwd|pwd|secret|signature|sig)%3D)"
    r"((?:[^\s&\"'<>%]|%(?!26|22|27|20|0A)[0-9A-F]{2}){2,500})",
    re.ASCII,
)
# Of a password that holds what an address may not (`/`, `@`): as far as the last `@`; a port is no password.
_URL_USER_WIDE = lazy(
    r"(?i)(\b[a-z][a-z0-9+.-]{1,20}://)([^\s/:@?#\"'<>]{0,100}):(?!\d{1,5}(?:[/?#]|\Z))((?:(?!://)[^\s\"'<>]){1,200})@"
    r"(?=[\w.-]{1,253}(?:[:/?\s\"',)]|\Z))",
    re.ASCII,
)
_CONDA = lazy(r"(\bhttps?://[\w.-]{1,253}(?::\d{1,5})?/t/)([\w-]{8,})(?=/)", re.ASCII)  # conda's channels
# ODBC puts a value with a semicolon in braces; a name in braces is a place for one.
_BRACED = lazy(
    r"(?i)((?<![A-Za-z])(?:pwd|password)\s?=\s?)(?!\{[a-z_]+\})(\{(?:[^{}\n]|\}\}){1,200}\})(?=;|[\s\"']"
    r"|\Z)",
    re.ASCII,
)
_URL_USER = lazy(r"(?i)(\b[a-z][a-z0-9+.-]{1,20}://)([^\s/\"'<>]{1,300})@", re.ASCII)


def _basic(value: str, memory: Memory) -> str:
    """Base64 of `user:password` (RFC 7617), and otherwise a word ("basic authentication")."""
    import base64
    import binascii

    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return value
    return memory.secret(value) if b":" in decoded and decoded.isascii() else value


def _digest(text: str, memory: Memory) -> str:
    def part(match: re.Match[str]) -> str:
        name = match[2].lower()
        if name in ("uri", "realm"):
            return match[0]
        return match[1] + (memory.user(match[3]) if name == "username" else memory.secret(match[3]))

    return second(_DIGEST, lambda parts: _DIGEST_PART.sub(part, parts), text)


def shaped_secrets(text: str, memory: Memory) -> str:
    """`text` without tokens, keys, credentials in headers and signatures in URLs."""
    if "-----BEGIN" in text:
        text = _PEM.sub(lambda match: memory.secret(match[0]), text)
    if "AAAA" in text:
        text = second(_SSH_KEY, memory.secret, text)
        text = _SSH_BODY.sub(lambda match: memory.secret(match[0]), text)
    if "SHA256:" in text:
        text = second(_FINGERPRINT, memory.secret, text)
    if "igest" in text or "DIGEST" in text:
        text = _digest(text, memory)
    text = second(_AUTHORIZATION, memory.secret, text)
    if "ookie" in text.lower():
        text = second(_COOKIE, memory.secret, text)
    text = second(_COOKIE_NAME, memory.secret, text)
    text = second(_AWS_PAIR, memory.secret, text)
    text = _TOKENS.sub(lambda match: memory.secret(match[0]), text)
    if "={" in text or "= {" in text:
        text = second(_BRACED, memory.secret, text)
    text = second(_BEARER, memory.secret, text)
    text = second(_CHALLENGE, memory.secret, text)
    text = second(_BASIC, lambda value: _basic(value, memory), text)
    text = second(_WEBHOOK, memory.secret, text)
    for pattern in _NEAR_NAME:
        text = second(pattern, memory.secret, text)
    return text


def signed_urls(text: str, memory: Memory) -> str:
    """`text` without what signs a URL or opens it."""
    if "%3D" in text or "%3d" in text:
        text = second(_ENCODED, memory.secret, text)
    if "=" in text and ("?" in text or "&" in text):
        text = second(_SIGNED, lambda value: value if value.startswith(("$", "{", "<")) else memory.secret(value), text)
    return text


def url_users(text: str, memory: Memory) -> str:
    """`text` without users and passwords in URLs (`scheme://user:password@host`)."""
    if "://" not in text:
        return text
    text = second(_CONDA, memory.secret, text)
    if "@" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match[1].lower().startswith(("abfs", "wasb", "oci:")):
            return match[0]  # a container, which another rule knows
        user, colon, password = match[2].partition(":")
        if not colon:
            scheme = match[1].lower()
            if user.lower() in ("git", "ssh"):
                return match[0]
            return f"{match[1]}{memory.user(user) if scheme.startswith(('ssh', 'sftp')) else memory.secret(user)}@"
        return f"{match[1]}{memory.user(user) if user else ''}:{memory.secret(password) if password else ''}@"

    def wide(match: re.Match[str]) -> str:
        return f"{match[1]}{memory.user(match[2]) if match[2] else ''}:{memory.secret(match[3])}@"

    return _URL_USER_WIDE.sub(wide, _URL_USER.sub(replace, text))
