"""Links that open what they name to whoever has them: shares of files, pages and places that take messages."""

from __future__ import annotations

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second

_ID = r"([\w-]{8,200})"
# Only texts that hold the word need be searched; group 2 of each pattern is the key.
_KEYS = tuple(
    (word, lazy(pattern))
    for word, pattern in (
        ("dropbox", rf"(?i)(\bdropbox\.com/(?:scl/f[io]|sh?|t|request)/){_ID}"),
        ("dropbox", r"(?i)(\bdropbox\.com/scl/f[io]/[\w-]{1,200}/)([\w-]{10,200})(?=[/?])"),
        ("rlkey=", r"(?i)([?&]rlkey=)([\w-]{4,200})"),
        # `/:u:/s/SITE/TOKEN`, `/:x:/g/personal/USER/TOKEN`, also `/:f:/r/...`, which is a path and no key
        ("sharepoint", rf"(?i)(\bsharepoint\.com/:[a-z]:/[a-qs-z]/(?:personal/)?[\w.-]{{1,100}}/){_ID}"),
        ("1drv.ms", r"(\b1drv\.ms/[a-z](?:/[a-z])?/)([\w!-]{8,200})"),
        ("drive.google", rf"(\bdrive\.google\.com/(?:file/(?:u/\d/)?d|drive/(?:u/\d/)?folders)/){_ID}"),
        (
            "drive.",
            rf"(\bdrive\.(?:google|usercontent\.google)\.com/(?:uc|open|download)\?(?:[\w=&.-]{{0,80}}&)?id=){_ID}",
        ),
        ("docs.google", rf"(\bdocs\.google\.com/(?:spreadsheets|presentation|forms)/(?:u/\d/)?d/(?:e/)?){_ID}"),
        ("notion.", r"(\bnotion\.(?:so|site)/(?:[\w.-]{1,100}/)?(?:[\w%-]{1,200}-)?)([0-9a-f]{32})\b"),
        ("box.com", rf"(\bbox\.com/(?:s|v|shared/static)/){_ID}"),
        ("we.tl", rf"(\bwe\.tl/t-){_ID}"),
        ("pan.baidu", r"(\bpan\.baidu\.com/s/)([\w-]{6,60})"),
        ("mega.nz", r"(\bmega\.nz/(?:file|folder)/)([\w-]{6,20}#[\w-]{16,60})"),
        # messages to one's own telephone
        ("ftqq.com", r"(\b(?:sctapi|sc)\.ftqq\.com/)([\w-]{8,100})(?=\.send)"),
        ("ft07.com", r"(\bpush\.ft07\.com/send/)([\w-]{8,100})(?=\.send)"),
        ("day.app", r"(\bapi\.day\.app/)(?!push\b)([\w-]{8,60})"),
        ("ntfy.sh", r"(\bntfy\.sh/)(?!docs\b)([\w-]{4,64})"),
        ("maker.ifttt", r"(\bmaker\.ifttt\.com/trigger/[\w-]{1,100}(?:/json)?/with/key/)([\w-]{8,100})"),
        ("/bot/", r"(\bopen\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/(?:v2/)?hook/)([\w-]{8,100})"),
    )
)
_NOTION_OWNERS = (
    lazy(r"(\bnotion\.so/)([\w-]{2,100})(?=/)"),
    lazy(r"(\b)([\w-]{2,63})(?=\.notion\.site\b)"),
)


def shared_links(text: str, memory: Memory) -> str:
    """`text` without the keys of links that are shared by being told, and without whose pages of Notion they are."""
    if "/" not in text:
        return text
    lowered = text.lower()
    for word, pattern in _KEYS:
        if word in lowered:
            text = second(pattern, memory.secret, text)
    if "notion." in lowered:
        for pattern in _NOTION_OWNERS:
            text = second(pattern, memory.account, text)
    return text
