"""Places in which libraries name the host that they could not reach, resolve or trust.

Made from how the messages are printed: urllib3 and requests, libpq, PyMySQL, pymongo, kafka-python, gRPC, Hadoop and
Spark (Java's InetSocketAddress), ssl, paramiko, curl, wget, Go's net, Slurm.
"""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME, Place, place
from forensics.report.redaction.memory import Memory, telling

_Q = r"[\"'`\u2018\u201c]"
_CLOSE = r"\\?[\"'`\u2019\u201d]"
_END = rf"(?={_CLOSE})"
_SURE = rf"(?=[a-zA-Z.]*[\d-]){NAME}"  # unquoted, in prose: a name with a digit or hyphen
_WHY = (
    r"(?:\[Errno|Unknown (?:server error|host)|Name or service not known|Temporary failure in name resolution"
    r"|No address associated|nodename nor servname|[Hh]ost not found|No such host|no such host|No route to host"
    r"|Connection refused|Connection timed out|Host is unreachable|Network is unreachable|Operation timed out)"
)
_WORDS_OF_WHY = (
    "Errno",
    "nknown",
    "resolution",
    "No ",
    "no such",
    "nodename",
    "not found",
    "refused",
    "timed out",
    "unreach",
)
_IP = r"(?:ip-\d{1,9}|\d{1,3}(?:\.\d{1,3}){3})"  # also one that has a stand-in
# Behind what is mounted: where, how large it is, or its kind.
_MOUNTED = r"(?:on /|[\d.]+[KMGTP]?i?\s|/\S{0,100} (?:nfs|cifs|ceph|glusterfs|lustre|fuse))"
_NETSTAT = r"\b(?:tcp|udp)6?\s{1,8}\d+\s{1,8}\d+\s{1,8}"

ERRORS: tuple[Place, ...] = (
    # HTTPConnectionPool(host='h', port=443), <HTTPConnection(host='h', port=80) at 0x7f>, connect(host="h")
    place(
        rf"((?<![\w.-])(?:host|hostname|server|proxy|peername)=b?\\?[\"'])({NAME})(?=\\?[\"'])",
        "host=", "server=", "name=", "proxy=",
    ),
    # `server at "h"`, `MySQL server on 'h'`, `host name "h"`, `MySQL server host 'h'`, `Server 'h' not found in`
    place(
        rf"(\b(?:[Ss]erver|[Hh]ost(?: ?name)?|[Pp]roxy|[Bb]roker|[Gg]ateway|[Rr]egistry)"
        rf"(?: (?:at|on|host|name|address)){{0,2}}"
        rf" \\?{_Q})({NAME}){_END}",
        "erver", "ost", "roxy", "roker", "ateway", "egistry",
    ),
    # Programs' own words: `cannot reach host h`, `connection to host h lost`
    place(
        rf"(\b(?:reach|resolve|contact|ping|find|lost|(?:connect|connected|connecting|connection) (?:to|with))"
        rf" (?:the )?(?:remote )?host(?:name)?:? )({_SURE})(?![\w-])",
        "host",
    ),
    # ssl and urllib3: certificates that are another's
    place(rf"(\bnot valid for {_Q})({NAME}){_END}", "not valid for"),
    place(rf"(\bdoesn't match (?:either of )?{_Q})({NAME}){_END}", "doesn't match"),
    # `Failed to resolve 'h' ([Errno -2] ...`, `Unable to resolve "h": Unknown server error`
    place(rf"(\bresolve \\?{_Q})({NAME})(?={_CLOSE}(?: \(|: ){_WHY})", "resolve "),
    place(rf"(\bresolve \\?{_Q})({_SURE}){_END}", "resolve "),
    # curl: `Could not resolve host: h`; wget: `unable to resolve host address 'h'`; mount.nfs: `resolve server h`
    place(
        rf"(\bresolve (?:the )?(?:host ?name|host(?: address)?|proxy|server|address of|remote)(?: name)?:? {_Q}?)"
        rf"({NAME})(?![\w(])",
        "resolve ",
    ),
    place(rf"(\bfind address for host )({NAME})", "find address for host"),
    place(rf"(\bUnknownHostException: (?:[Ii]nvalid host name: )?{_Q}?)({NAME})", "UnknownHostException"),
    place(rf"(\b(?:local|destination) host is: [\"(]?)({NAME})", "host is: "),  # Hadoop
    # `h: Name or service not known`, `Name or service not known: 'h'`
    place(rf"((?:^|[\s\"'(,]))({_SURE})(?<!Error)(?<!Exception)(?=[\"']?(?::\d{{1,5}})?: {_WHY})", *_WORDS_OF_WHY),
    place(rf"(\b{_WHY}[^\s:]{{0,40}}: [\"'])({NAME})(?=[\"'])", ": '", ': "'),
    # gRPC: `DNS resolution failed for h:2379: C-ares status is not ARES_SUCCESS qtype=A name=h is_balancer=0`
    place(rf"(\bresolution failed for (?:service: )?)({NAME})(?=:)", "resolution failed"),
    place(rf"(\bqtype=\w+ name=)({NAME})", "qtype="),
    # Hadoop: `Call From h/10.0.0.1 to h2:8020 failed`
    place(
        rf"(\b(?:to|from|with) )({NAME})(?=:\d{{2,5}} (?:failed|timed out|refused|closed|reset))",
        " failed", " timed out", " refused", " closed", " reset",
    ),
    place(rf"(\bkafka[^\n]{{0,200}}?\bhost=|\bBrokerConnection[^\n]{{0,120}}?\bhost=)({NAME})(?=:\d)", "host="),
    # pymongo: `('h', 27017)`; sockets
    place(
        rf"(\b(?:ServerDescription|[Aa]ddress|addr|peer(?:name)?|sock(?:name)?|[Cc]onnect\w*|bind|server|laddr|raddr"
        rf"|remote|to)[ =:]{{0,2}}\([\"'])({NAME})(?=[\"'], ?\d{{2,5}}\))",
        "('", '("',
    ),
    # Go: `lookup h on 10.0.0.53:53: no such host`, `lookup h: no such host`
    place(
        rf"(\blookup )({NAME})(?= on |: (?:no such host|server misbehaving|Temporary failure|i/o timeout|dial ))",
        "lookup ",
    ),
    # curl, wget, ssh, nfs
    place(rf"(\b[Cc]onnect(?:ion)? to )({NAME})(?= port \d)", "onnect"),
    place(rf"(\b(?:Resolving|Connecting to) )({NAME})(?= \([\w.-]{{1,253}}\)|\.\.\.)", "Resolving ", "Connecting "),
    place(rf"(\bConnection to )({NAME})(?= closed(?: by remote host)?\.)", "Connection to "),
    place(rf"(\bnfs: server )({NAME})(?= (?:not responding|OK))", "nfs: server"),
    # Python's platform and os
    place(rf"(\buname_result\([^)\n]{{0,80}}?\bnode=[\"'])({NAME})(?=[\"'])", "uname_result"),
    place(rf"(\bplatform\.node\(\)[\s:=]{{1,4}}[\"']?)({NAME})", "platform.node"),
    place(rf"(\bgethostname\(\)\s?(?:[:=]|->|=>|is|returned)\s?\\?[\"'])({NAME})(?=\\?[\"'])", "gethostname"),
    place(rf"(\bgethostname\(\)\s?(?::|->|=>)\s)({NAME})(?![\w.(\[])", "gethostname"),
    place(rf"(\bbeegfs-\w{{2,12}} )({NAME})(?= \[ID)", "beegfs-"),
    # df and mount: `h:/export 10T 9.9T`, `h:/vol on /proj type nfs4`, `//h/share on /mnt type cifs`, lines of fstab
    place(rf"((?:^|[\s\]:]))({NAME})(?=:/[^\s:]{{0,200}}\s{{1,40}}{_MOUNTED})", ":/"),
    place(rf"((?:^|[\s\]])//)({NAME})(?=/\S{{0,200}}\s{{1,40}}{_MOUNTED})", "//"),
    # lsof, netstat: `TCP h:41022->h2:29500`, `tcp 0 0 h:ssh h2:51020 ESTABLISHED`
    place(rf"(\b(?:TCP|UDP) )({NAME})(?=:[\w-]{{1,30}}(?:->|\s|$))", "TCP ", "UDP "),
    place(rf"(\b(?:TCP|UDP) [\w.-]{{1,253}}:[\w-]{{1,30}}->)({NAME})(?=:[\w-]{{1,30}})", "->"),
    place(rf"({_NETSTAT})({NAME})(?=:[\w-]{{1,30}}\s)", "tcp", "udp"),
    place(rf"({_NETSTAT}[\w.-]{{1,253}}:[\w-]{{1,30}}\s{{1,40}})({NAME})(?=:[\w-]{{1,30}}\s)", "tcp", "udp"),
    # tailscale: `100.1.2.3  h  user@  linux`; seff: `Cluster: h`; a job of PBS in a listing: `88123.h  name  user`
    place(
        rf"((?:^|\s){_IP}\s{{1,12}})({NAME})(?=\s{{1,12}}[\w.-]{{1,40}}@\s{{1,12}}(?:linux|windows|macOS|android|iOS)\s)",
        "@ ",
    ),
    place(rf"(^Cluster: )({NAME})(?=\s*$)", "Cluster: "),
    place(rf"(^\d{{3,12}}(?:\[\d*\])?\.)((?=[a-z]){NAME})(?=\s{{2,}}\S)", "."),
    # Kubernetes names the kubelet's account after its node
    place(rf"(\bsystem:node:)({NAME})", "system:node:"),
)  # fmt: skip

# Options of a mount: `type cifs (rw,username=x,domain=D)`.
DOMAINS = lazy(r"(\bcifs \([^()\n]{0,400}?\bdomain=)([\w.-]{1,64})(?=[,)])", re.ASCII)
# Lines of /etc/hosts: an address and names, of which the first looks like one.
HOSTS_LINES = lazy(
    rf"(^\s{{0,8}}{_IP}[ \t]{{1,40}})({_SURE}(?:[ \t]{{1,40}}{NAME}){{0,6}})(?=[ \t]*(?:#[^\n]*)?$)",
    re.ASCII | re.M,
)

# `h/10.0.0.1:7077`, `h/<unresolved>:8020`: a socket address as Java prints it.
_JAVA = lazy(
    rf"(?<![\w/.:@-])({NAME})(?=/(?:ip-\d{{1,9}}|\d{{1,3}}(?:\.\d{{1,3}}){{3}}|<unresolved>)(?![\w./-]|:\D))", re.ASCII
)
_JAVA_BEFORE = lazy(r"(?:\b(?:from|From|to|master|host|server|at|on|address|channel|peer)[ =:(]{1,3})\Z", re.ASCII)
_JAVA_PORT = lazy(r"/[^\s:/]{1,64}:\d", re.ASCII)
# `h:2379` in a text that speaks of a connection. Interfaces of networks and what is counted are no hosts, and files
# have no ports.
_COUNTED = (
    "eth|en[ops]|ib[ps]?|bond|lo|mlx|hsn|docker|veth|ipv|tcp|udp|http|layer|conv|fc|block|stage|linear|attn|head|epoch"
    "|step|iter|rank|shard|batch|line|cuda|sm|fp|bf|u?int|float|part|chunk|expert|level|version|sha|md|utf"
)
_PORT = lazy(
    rf"(?<![\w./:@<-])((?!(?:{_COUNTED})[_-]?\d){_SURE})(?=:\d{{2,5}}(?![\w]|[.:]\d))",
    re.ASCII,
)
_FILE = lazy(
    r"\.(?:py|pyx|cc|cpp|cu|cuh|c|h|hpp|go|rs|java|scala|js|ts|log|txt|out|err|json|yaml|yml|sh|toml"
    r"|\d+)\Z",  # `log.3`: no domain ends in a number (RFC 3696, 2)
    re.ASCII,
)
_CONNECTION = lazy(
    r"(?i)connect(?!or)|resolv|resolution|refused|unreachable|timed? ?out|not known|handshake|\bdial\b|broker|lookup"
    r"|hostname|socket|\brpc\b|unavailable|\bpeer\b|rendezvous|\bbind\b|listening",
)
_NEAR = 160  # characters to either side in which a word of the connection stands


def with_ports(text: str, memory: Memory) -> str:
    """`text` without hosts that a port, or an address as Java prints it, follows."""
    if "/" in text:

        def java(match: re.Match[str]) -> str:
            name = match[1]
            port = _JAVA_PORT.match(match.string, match.end())
            before = match.string[max(0, match.start() - 12) : match.start()]
            if not (telling(name) or port or _JAVA_BEFORE.search(before)):
                return name
            return memory.host(name, everywhere=telling(name))

        text = _JAVA.sub(java, text)
    if ":" not in text or _CONNECTION.search(text) is None:
        return text

    def port(match: re.Match[str]) -> str:
        near = match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]
        if _FILE.search(match[1]) or _CONNECTION.search(near) is None:
            return match[1]
        return memory.host(match[1], everywhere=telling(match[1]))

    return _PORT.sub(port, text)
