"""What NCCL's log adds to the signs that signatures see: the meaning of warnings, the link of a failed transfer, and
what its status service says about ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from forensics.engine.collectives import closed
from forensics.engine.collectives.addresses import PEER_NODE, common_host, reporter
from forensics.engine.collectives.observations import spoken
from forensics.engine.identity import stated_size
from forensics.engine.whose import label
from forensics.files import beginning
from forensics.model import Evidence, Identity, Observation, Source
from forensics.parsers.nccl import efa, ras
from forensics.parsers.nccl.completions import completion
from forensics.parsers.nccl.facts import hosts_of_addresses, networks
from forensics.parsers.nccl.lines import init, parse
from forensics.parsers.nccl.warnings import meaning

WARNING = "nccl-warning"  # a warning of which no other signature knows
BEHIND = "straggler-rank"
LOST_A_PEER = "nccl-remote-error"
# ncclResult_t -> what the same error is where a log prints it.
_OF_RESULTS = {
    1: "nccl-unhandled-cuda-error", 2: "nccl-system-error", 3: "nccl-internal-error", 4: "nccl-invalid-usage",
    5: "nccl-invalid-usage", 6: LOST_A_PEER,
}  # fmt: skip
SLOW_NETWORK = "nccl-socket-network"
PEERS = ("nccl-peer-closed", "nccl-connect-failed", "nccl-env-mismatch")  # their lines name a peer's address
# Signatures whose lines can be about a failed transfer.
TRANSFERS = (
    "nccl-network-timeout", "nccl-flush-error", "ib-local-protection-error", "ib-remote-error",
)  # fmt: skip


def told(observations: Sequence[Observation]) -> list[Observation]:
    """The observations, with what NCCL's own words say added as notes; warnings that a signature knows are dropped."""
    observations = closed.alone(observations)
    known = {_place(o) for o in observations if o.signature != WARNING and o.evidence}
    hosts = _Hosts(observations)
    found: list[Observation] = []
    for o in observations:
        if o.signature == WARNING:
            if _place(o) not in known:
                found.append(_explained(o))
        elif o.signature in TRANSFERS and o.evidence:
            found.append(_with_link(o, hosts))
        elif o.signature in PEERS and "peer" in o.captures:
            found.append(_with_peer(o, hosts))
        else:
            found.append(o)
    return _without_reporters(found) + _mixed_networks(observations)


class _Hosts:
    """Which host an address belongs to, and which ranks are on it; looked up only where a line names an address."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations
        self._known: tuple[dict[str, str], dict[str, set[int]]] | None = None
        self._instances: dict[str, set[str]] | None = None

    def of(self, address: str) -> str | None:
        """ "node-1 (ranks 4-7)" for "10.0.0.5" or "10.0.0.5<44189>"; None where NCCL did not say whose it is."""
        return self.spoken(host) if (host := self.named(address)) is not None else None

    def named(self, address: str) -> str | None:
        """ "node-1" for "10.0.0.5" or "10.0.0.5<44189>"; None where NCCL did not say whose it is."""
        of_address, ranks_of = self._tables()
        address = address.partition("<")[0].strip("[]").lower().removeprefix("::ffff:")
        short = address.partition(".")[0]  # NCCL cuts host names at their first dot, where it prints its own
        return of_address.get(address) or next((name for name in (address, short) if name in ranks_of), None)

    def spoken(self, host: str) -> str:
        """ "node-1 (ranks 4-7)", or the name alone where its ranks are not known."""
        ranks = self._tables()[1].get(host)
        return f"{host} ({spoken(ranks)})" if ranks else host

    def _tables(self) -> tuple[dict[str, str], dict[str, set[int]]]:
        if self._known is None:
            self._known = hosts_of_addresses(self._observations), _ranks_of_hosts(self._observations)
        return self._known

    def of_instance(self, name: str) -> str | None:
        """The same for "i-0123", of which a line of its own host says that it is its own."""
        if self._instances is None:
            self._instances = {}
            for o in self._observations:
                said = efa.failed(o.evidence[0].text) if o.signature in TRANSFERS and o.evidence else None
                if said is not None and said.own is not None and o.identity.node is not None:
                    self._instances.setdefault(said.own, set()).add(o.identity.node)
        hosts = self._instances.get(name, set())
        return None if len(hosts) != 1 else self.of(host := next(iter(hosts))) or host


def _ranks_of_hosts(observations: Sequence[Observation]) -> dict[str, set[int]]:
    """Host -> its ranks, from the births of the communicator of all ranks."""
    births = [
        (line.host, birth)
        for o in observations
        if o.signature == "nccl-init" and o.evidence and (line := parse(o.evidence[0].text)) is not None
        and (birth := init(line.message)) is not None
    ]  # fmt: skip
    stated = stated_size(observations)
    world = max((birth.size for _, birth in births), default=0)
    found: dict[str, set[int]] = {}
    if stated is not None and stated != world:  # communicators of parts of the job only
        return found
    for host, birth in births:
        if birth.size == world:
            found.setdefault(host, set()).add(birth.rank)
    return found


def _mixed_networks(observations: Sequence[Observation]) -> list[Observation]:
    """Processes that use sockets while others of the same run use a faster network."""
    used = networks(observations)
    slow = used.get("Socket", [])
    fast = [name for name in sorted(used) if name != "Socket"]
    if not slow or not fast:
        return []
    there = sorted({o.evidence[0].file for o in slow})
    note = f"{len(there)} of the logs say Socket ({', '.join(there[:4])}), others of this run {' and '.join(fast)}."
    return [replace(slow[0], signature=SLOW_NETWORK, weight=0.8, note=note, culprits=(), rule=None)]


def _place(o: Observation) -> tuple[str, int | None]:
    return (o.evidence[0].file, o.evidence[0].line) if o.evidence else ("", None)


def _explained(o: Observation) -> Observation:
    line = parse(o.evidence[0].text) if o.evidence else None
    message = line.message if line is not None else o.captures.get("message", "")
    found = meaning(message, line.file if line is not None else None)
    if found is None:
        return o
    return replace(o, note=f"NCCL warned: {found.text}.", captures={**o.captures, "area": found.area})


def _with_peer(o: Observation, hosts: _Hosts) -> Observation:
    """A lost or refused connection with the host of its peer."""
    far = hosts.named(o.captures["peer"])
    if far is None:
        return o
    note = o.note or f"The peer is {hosts.spoken(far)}."
    return replace(o, captures={**o.captures, PEER_NODE: far}, note=note)


def _without_reporters(observations: Sequence[Observation]) -> list[Observation]:
    """Where the connections of several hosts end at one, those who report it from the other hosts are not to blame."""
    together: dict[tuple[str, int | None], list[Observation]] = defaultdict(list)
    for o in observations:
        if o.signature in TRANSFERS:
            together[o.signature, o.identity.attempt].append(o)
    ends = {key: host for key, signs in together.items() if (host := common_host(signs)) is not None}

    def blamed(o: Observation) -> Observation:
        end = ends.get((o.signature, o.identity.attempt))
        host = reporter(o) if end is not None else None
        return o if end is None or host is None or label(host) == label(end) else replace(o, culprits=())

    return [blamed(o) for o in observations] if ends else list(observations)


def _with_link(o: Observation, hosts: _Hosts) -> Observation:
    """A failed transfer with its ends as captures and in words."""
    said = completion(o.evidence[0].text)
    if said is None:
        return _with_instances(o, hosts)
    ends = {
        "peer": said.peer, "hca": said.adapter, "local_gid": said.local_gid, "remote_gid": said.remote_gid,
        "vendor_err": None if said.vendor is None else str(said.vendor), "status": str(said.status),
    }  # fmt: skip
    captures = {**o.captures, **{name: value for name, value in ends.items() if value is not None}}
    far = next((host for end in (said.peer, said.remote_gid) if end and (host := hosts.named(end))), None)
    note = said.text + (f" That is {hosts.spoken(far)}." if far else "")
    if far is not None:
        captures[PEER_NODE] = far
    return replace(o, captures=captures, note=o.note or note)


def _with_instances(o: Observation, hosts: _Hosts) -> Observation:
    """The same of a transfer over EFA, whose ends are instances."""
    said = efa.failed(o.evidence[0].text)
    if said is None:
        return o
    far = hosts.of_instance(said.peer) if said.peer is not None else None
    captures = {**o.captures, "peer": said.peer or said.peer_address}
    return replace(o, captures=captures, note=o.note or said.text + (f" That is {far}." if far else ""))


def from_status_service(sources: Sequence[Source], answered: Collection[str], ended: bool = False) -> list[Observation]:
    """What answers of NCCL's status service say. answered: paths of the logs in which one was seen.

    ended: whether the run came to its end: then a rank that was behind when it was asked has caught up.
    """
    found: list[Observation] = []
    for source in sources:
        if source.path not in answered:
            continue
        try:
            answer = ras.read(beginning(source.file, ras.MAX_BYTES))
        except OSError:
            continue
        found += [o for o in _observations(source, answer) if not (ended and o.signature == BEHIND)]
    return found


def _observations(source: Source, answer: ras.Answer) -> list[Observation]:
    found: list[Observation] = []

    def add(signature: str, weight: float, rank: int | None, text: str, note: str, who: Identity) -> None:
        found.append(
            Observation(
                signature=signature, weight=weight, evidence=(Evidence(source.path, None, None, text),),
                identity=replace(who, rank=rank), culprits=None if rank is None else (rank,), note=note,
            )
        )  # fmt: skip

    for peer in (*answer.dead, *answer.missing):
        dead = peer in answer.dead
        rank = peer.rank if peer.whole_job else None
        who = f"rank {peer.rank}" if peer.rank is not None else f"process {peer.pid} on {peer.node}"
        what = "cannot be reached any more and is taken for dead" if dead else "gave no answer"
        note = f"NCCL's status service: {who} {what}. Why it ended, its own log says."
        add("nccl-rank-unreachable", 0.8 if dead else 0.5, rank, f"RAS: {who} {what}", note,
            Identity(pid=peer.pid, node=peer.node))  # fmt: skip
    late: dict[tuple[object, ...], ras.Behind] = {}
    for behind in answer.behind:
        key = (behind.rank,) if behind.whole_job else (behind.node, behind.pid)
        known = behind.whole_job or behind.pid is not None
        if known and (key not in late or behind.count < late[key].count):
            late[key] = behind
    for behind in sorted(late.values(), key=lambda b: (not b.whole_job, b.rank)):
        op = behind.op or "collective"
        text = f"{_said(behind)} has launched {behind.count} {op} operations, most others {behind.others}"
        note = f"{text[:1].upper()}{text[1:]}. That proves something only if a second answer says the same."
        rank = behind.rank if behind.whole_job else None
        add(BEHIND, 0.6 if rank is not None else 0.5, rank, f"RAS: {text}", note,
            Identity(pid=behind.pid, node=behind.node))  # fmt: skip
    for error in answer.errors:
        text = f"{_said(error)} reports {error.what}"
        rank = error.rank if error.whole_job else None
        signature = _OF_RESULTS.get(error.code or 0, "nccl-rank-unreachable")
        add(signature, 0.5, rank, f"RAS: {text}", f"NCCL's status service: {text}.",
            Identity(pid=error.pid, node=error.node))  # fmt: skip
    # Who reports that a peer is gone lost it, and is not to blame.
    return [replace(o, culprits=()) if o.signature == LOST_A_PEER else o for o in found]


def _said(one: ras.Behind | ras.Reported) -> str:
    """ "rank 5 (process 4005 on gpu-h0)"."""
    process = f"process {one.pid} on {one.node}" if one.pid is not None and one.node is not None else None
    if one.whole_job:
        return f"rank {one.rank}" + (f" ({process})" if process else "")
    return f"{process or 'a process'}, rank {one.rank} of its communicator,"
