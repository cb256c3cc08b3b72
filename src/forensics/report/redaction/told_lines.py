"""Lines of a run's files that give names away: who ran it, on which hosts, under which account.

A report shows few lines of a run, and a name may stand in them as a bare word (`ckpt-jdoe/`, `slurm-dgx17-42.out`)
whose meaning a line elsewhere tells. These lines are read for what they teach, and shown by nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, islice

from forensics.engine.scan import Database, Pattern
from forensics.files import opened
from forensics.model import Fact, Kind, RunData, Source
from forensics.patterns import lazy
from forensics.report.redaction.host_shapes import numbered
from forensics.report.redaction.hosts import KUBELETS_LOG
from forensics.report.redaction.pairs import named_in_pairs
from forensics.report.redaction.ranked_heads import named_in_heads
from forensics.report.redaction.settings import pairs
from forensics.report.redaction.sure_hosts import plain
from forensics.report.redaction.tables import named_in_tables

HEAD, TAIL = 32 << 10, 8 << 10  # bytes of a file: programs say at their start where they run, and errors at their end
FILES = 256  # files that are read; of more a sample that is spread evenly
LINES = 800  # lines kept of all files together: each takes some 0.4 ms to learn from
CHARACTERS = 200_000  # of all lines together
_EACH, _OF_FILE = 3, 60  # lines of a file that hold the same word, and of any
_LONGEST = 4000  # characters of a line
_NAMES = 2000  # names of metrics
_ID = 64  # hexadecimals in the names of the kubelet's logs

_KINDS = frozenset({Kind.LOG, Kind.METRICS, Kind.CONFIG, Kind.ERROR_FILE})
_WORDS = (
    r"@|://|/home\d?/|[/\\]users[/\\]|/scratch/|logged in|kubectl|pod/|successfully assigned"
    r"|nccl info (?:bootstrap|net/)|slurm_|jobid=|srun: |slurmstepd|master_addr|rdzv|endpoint| kernel: |sshd|\bip="
    r"|node id|tfevents|addr=\[|keep-alive|mpiexec@|proxy:0|world info dict|node failure|pdsh|^-[r-][w-]"
    r"|accepted \w+ for |cron"
    r"|lsb_\w*hosts|exec_v?(?:host|node)|following workers|connecting to |authenticat|known_hosts|due to node"
    r"|update_node|\bsetx |configure set |setenvironmentvariable|\bssh +-"
    r"|\becho [^|]{1,200}\| ?(?:docker|podman|sudo)|full_?name|host\.name"
    r"|/[a-z]{0,8}home(?:s|fs|dirs?)?[_-]?\w{0,5}/|-stor/"
    r"|/(?:gpfs|lustre|pfs|blue|orange|work|nobackup)\w*/|\bp(?:sql|g_dump)\b[^\n]{0,100} -"
    r"|under (?:the )?(?:entity|namespace)"
    r"|local folder|\bvalid model|dataset '|from_pretrained|repo_id|setenv |set -gx"
    r"|--[\w-]*(?:pass(?:word|wd|phrase)?|token|secret|user|entity|project|name|addr|repo|model_id|path|include|account|bucket|host|key)\b"
    r"|\b[\w-]*(?:user(?:_?name|_?id)?|node(?:name)?|owner|author|account|entity|host(?:name)?|namespace|nodelist|bucket|project|team|workspace"
    r"|run_?(?:name|id)|job_?name|pass(?:word|wd|phrase|code)?|pwd|secrets?|token|credentials?|passwords"
    r"|(?:api|access|secret|account|private|auth|encryption|license|signing|hmac|consumer|deploy|webhook|jwt|shared)"
    r"(?:[_-]?access)?[_-]?key(?:[_-]?id)?|remote|email)\\?[\"']?\s{0,3}[=:]"
    r"|pass(?:word|wd|phrase|code) (?:is|was)\b|\b(?:basic|bearer) [a-z0-9+/._~-]{8}|akia"
    r"|[A-Z]_(?:key|pass|pat|auth|dsn|salt|cookie)\\?[\"']?\s?[=:]"
    r"|^[a-z][\w.-]*:\d+:\d+ \[|^\[?[a-z][\w.-]*:\d+\]"
    # hosts that were not reached, users that were refused, and what administrators' tools say of them
    r"|\bresolve\b|resolution failed|not known|unknownhost|refused|no such host|unreachable|server (?:at|on) \\?[\"']"
    r"|serviceaccount| cannot [a-z]+ resource|pull access denied|inode=\"|-by: |session c?\d+ of user|quotas for "
    r"|user/group:|docker://|registry-1\.docker|following files to |\bfrom host <|pmixp_|\b(?:node|worker) \(id: "
    # variables of an environment, and what trackers and drivers say
    r"|\b[a-z]\w*_(?:cluster(?:_name)?|addr(?:ess)?|endpoint|server|hosts?|workspace|organi[sz]ation|task_id|container)\\?[\"']?\s?[=:]"
    r"|\bwandb agent |\bentity [\"']?[\w.-]+[\"']? not found|denied to access "
    r"|\bartifact |resuming run |\bruns/[a-z]{3}\d\d_\d\d-"
    r"|new run with run id |\bview run [^\n]{1,128} at: |\bexperiment with name '"
    r"|/rech/|/var/spool/mail/|serial number|gethostname\(\)|requested job |slurm(?:stepd|d)-"
    # what people's own scripts say of where they run
    r"|\b(?:running|submitted|launched|started|scheduled|executing) (?:on|from) |\bhost ?name is |\bhost ?list\b"
    r"|\b(?:master|machine|chief|head)(?:[ _](?:node|host|addr(?:ess)?))?\s?[:=]|\brank \d+ [^\n]{0,12}\bon "
    r"|\b(?:nodes|hosts|machines)\b| slots=\d"
    r"|\bhost {4,12}: | cancelled at |^[a-z][\w.-]*: \[\d{4}-\d\d-|\blinux [a-z][\w.-]* \d+\.\d+\."
    # what services of clouds and LSF call a job
    r"|/ls_root/|\bexperiment_id\b|\bto start run: |\bjob (?:name )?<\w"
    # and of who runs them
    r"|\b(?:submitted|launched) by |\bwhoami\b|/pytest-of-|\b(?:gcsfuse|s3fs|goofys|mount-s3|rclone mount|blobfuse2?) "
    r"|/(?:shared?|storage|workspaces?|mnt|tmp|nfs)/[^\s:]{2,60}/(?:code|projects|repos|git|venvs?|[\w-]{1,40}\.py)\b"
    r"|\bhead -> | type (?:nfs|cifs|fuse)|->[\w.-]+:\w+ \(|sky-[0-9a-f]{4}-|secrets\.\w|securestring|secretstring"
)
_TELLING = lazy(b"(?i)" + _WORDS.encode())

# The columns of Slurm's tables that name someone or something; the others are numbers and states.
_TABLE = lazy(rb"(?i)^\W*JobID\b.*\b(?:NodeList|Account|User|JobName|Name)\b")
_COLUMNS = {"USER": "User", "ACCOUNT": "Account", "NODELIST": "NodeList", "NODELIST(REASON)": "NodeList"}
_COLUMNS |= {"JOBNAME": "JobName", "NAME": "JobName"}
_ROWS = 20  # of a table, or of a list of hosts
_LIST = lazy(
    rb"(?i)(?:\b(?:following|these|allocated|assigned) (?:processors|nodes|hosts|machines)(?: are)?"
    rb"|(?:host|node|machine)[ _-]?(?:list|file|s)(?: contents?| contains| is| are)?)\s?:?\s*\Z"
)
_LABEL = 80  # characters at the end of a line in which it stands
_LISTS = (b"processors", b"node", b"host", b"machine")  # one of these is in each line that _LIST takes
_HOST_LINE = lazy(rb"\s{0,8}([A-Za-z][A-Za-z0-9-]{1,62}(?:\.[A-Za-z0-9-]{1,62}){0,8})\s*\Z")
_HEADS = (b"USER ", b"User ", b"user ", b"OWNER", b"EXEC_HOST")  # of the tables of other programs


def told(data: RunData) -> tuple[str, ...]:
    """What to learn from, the most telling first: settings that others name, arguments, hosts, metrics, lines."""
    named = islice(_named_by_kubelet(data.sources), _OF_FILE)
    settings = (*pairs(data.facts), *_arguments(data.facts))
    return (*settings, *_nodes(data), *named, *_metric_names(data), *told_by(data.sources))


def _nodes(data: RunData) -> list[str]:
    """The hosts that were read from prefixes of lines, from files and their names, said as variables say it."""
    identities = [item.identity for items in (data.sources, data.observations, data.tracebacks) for item in items]
    nodes = list(dict.fromkeys(identity.node for identity in identities if identity.node))[:_NAMES]
    return list(_as_hosts(nodes))


def _as_hosts(names: Sequence[str]) -> Iterator[str]:
    """Names of hosts as variables of an environment have them, some to a line."""
    for at in range(0, len(names), _ROWS):
        yield " ".join(f"HOSTNAME={name}" for name in names[at : at + _ROWS])


def _named_by_kubelet(sources: Sequence[Source]) -> Iterator[str]:
    """The names of logs that say pod and namespace."""
    names = (source.path.rpartition("/")[2] for source in sources)
    return (name for name in names if len(name) > _ID and KUBELETS_LOG.search(name))


def _arguments(facts: Sequence[Fact]) -> list[str]:
    """Command lines that are kept argument by argument, whole again: an option tells what its value is."""
    lists: dict[tuple[str, str], list[str]] = {}
    for fact in facts:
        name, _, number = fact.name.rpartition(".")
        if number.isdecimal():
            lists.setdefault((fact.source, name), []).append(fact.value)
    return [" ".join(values)[:_LONGEST] for values in lists.values()]


def _metric_names(data: RunData) -> list[str]:
    if data.metrics.is_empty():
        return []
    return [str(name) for name in data.metrics["name"].unique().sort().head(_NAMES)]


def told_by(sources: Sequence[Source]) -> list[str]:
    """The telling lines of files: in turn, one of each file, then a second one of each, until there are enough."""
    wanted = [source for source in sources if source.kind in _KINDS and source.size]
    readers = [_lines(source) for source in wanted[:: -(-len(wanted) // FILES) or 1]]
    found: dict[str, None] = {}
    room = CHARACTERS
    while readers and len(found) < LINES and room > 0:
        left = []
        for reader in readers:
            line = next(reader, None)
            if line is not None and room > 0:
                found.setdefault(line)
                room -= len(line)
                left.append(reader)
        readers = left
    return list(found)[:LINES]


def _lines(source: Source) -> Iterator[str]:
    seen: dict[bytes, int] = {}
    left = _OF_FILE
    lines = _ends(source)
    whole = b"\n".join(lines)
    lowered = whole.lower()
    if source.kind is Kind.LOG:
        yield from _as_hosts(named_in_heads([_text(line) for line in lines]))
    if b"jobid" in lowered:
        yield from _accounts(lines)
    if any(word in lowered for word in _LISTS):
        yield from _listed(lines)
    if b"alue" in whole or b"VALUE" in whole:
        yield from islice(named_in_pairs("\n".join(_text(line) for line in lines)), _OF_FILE)
    if any(word in whole for word in _HEADS):
        yield from islice(named_in_tables([_text(line) for line in lines]), _ROWS)
    for n in _may_tell(lines, whole):
        line = lines[n]
        match = _TELLING.search(line) if left else None
        if match is None:
            continue
        word = match[0].lower()
        seen[word] = seen.get(word, 0) + 1
        if seen[word] <= _EACH:
            left -= 1
            yield _text(line)


def _may_tell(lines: Sequence[bytes], whole: bytes) -> Iterator[int]:
    """Places of the lines in which _TELLING can match, in order: it is 300 times as fast to ask hyperscan first.

    whole: the lines, joined.
    """
    ends: list[int] = []
    _database().scan(whole, lambda _id, _start, end, _flags, _context: ends.append(end))
    begins = [0, *accumulate(len(line) + 1 for line in lines)]
    yield from sorted({bisect_left(begins, end) - 1 for end in ends})


@cache
def _database() -> Database:
    return Database([Pattern(0, f"(?im){_WORDS}")])


def _accounts(lines: Sequence[bytes]) -> Iterator[str]:
    """Rows of Slurm's tables (sacct, squeue; also with `|` between the columns) as `User=x Account=y NodeList=z`."""
    head: list[str] = []
    rows = 0
    for line in lines:
        if _TABLE.search(line):
            head = [_COLUMNS.get(name.upper(), "") for name in _cells(line)]
            rows = _ROWS
        elif rows:
            rows -= 1
            cells = _cells(line)
            if len(cells) == len(head):
                yield " ".join(f"{name}={cell}" for name, cell in zip(head, cells, strict=True) if name and cell)


def _listed(lines: Sequence[bytes]) -> Iterator[str]:
    """Hosts that a job's script prints a line each below a sentence (`cat $PBS_NODEFILE`), as `HOSTNAME=x`.

    They are hosts where one of them has a number as hosts have; the others are, if they are no words of anything.
    """
    names: list[str] = []
    below = False
    for line in (*lines, b""):
        host = _HOST_LINE.match(line) if below and len(names) < _ROWS else None
        if host is not None:
            names.append(host[1].decode())
            continue
        if any(map(numbered, names)):
            yield from _as_hosts([name for name in dict.fromkeys(names) if numbered(name) or plain(name)])
        names = []
        below = _LIST.search(line[-_LABEL:]) is not None


def _text(line: bytes) -> str:
    return line[:_LONGEST].decode("utf-8", "replace")


def _cells(line: bytes) -> list[str]:
    text = _text(line)
    return [cell.strip() for cell in text.split("|")] if "|" in text else text.split()


def _ends(source: Source) -> list[bytes]:
    try:
        with opened(source.file) as stream:
            head = stream.read(HEAD) or b""
            if source.size > HEAD:
                stream.seek(max(HEAD, source.size - TAIL))
                head += b"\n" + (stream.read(TAIL) or b"")
    except OSError:
        return []
    return re.split(rb"[\r\n]+", head)
