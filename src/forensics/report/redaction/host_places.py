"""Places in which programs print the name of a host, whatever it looks like."""

from __future__ import annotations

import re
from typing import NamedTuple

from forensics.patterns import lazy
from forensics.report.redaction.shapes import IS, TO


class Place(NamedTuple):
    """Group 2 of the pattern is the name; only texts that hold one of the words need be searched."""

    pattern: re.Pattern[str]
    words: tuple[str, ...] = ()


def place(pattern: str, *words: str) -> Place:
    """A place of that pattern, which needs one of the words."""
    return Place(lazy(pattern, re.ASCII | re.M), words)


NAME = r"[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*"
# What prose says of a host's name: `Hostname mismatch`, `hostname verification failed`.
_PROSE = (
    r"(?:mismatch|verification|resolution|lookup|validation|check(?:ing)?|match(?:es|ing)?|and|or|of|for|in|on|to|from|with|by"
    r"|is|was|are|not|does|doesn't|did|has|must|should|can|cannot|could|provided|nor|if|as|at|that|which|string|field|instead)\b"
)
PLACES = (
    # TensorBoard puts it into file names
    place(rf"(tfevents\.\d+\.)({NAME}?)(?=\.\d+\.\d+|\.profile|\.v2|[\s\"']|\Z)", "tfevents"),
    # Hugging Face's and TensorBoard's own folder of a run: `runs/Apr11_08-00-00_HOST`
    place(rf"((?<![A-Za-z0-9])[A-Z][a-z]{{2}}\d\d_\d\d-\d\d-\d\d_)({NAME})", "_"),
    place(rf"((?:^|[\s\]>|]))({NAME})(?=:\d+:\d+ (?:\[\d+\] )?(?:[\w./]+:\d+ )?NCCL )", "NCCL"),
    place(rf"(\[)({NAME})(?=:\d+:\d+ - \d+\] (?:[\w./]+:\d+ )?NCCL )", "NCCL"),
    # NCCL: `connect to host<port>`
    place(rf"(\b(?:to|from|with|peer) )({NAME})(?=<\d{{2,5}}>)", "NCCL", "onnect", "ocket"),
    # syslog, the journal
    place(rf"^([A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d )({NAME})(?= (?:kernel|systemd|[\w./-]+\[\d+\]):)"),
    place(  # programs of syslog that print no process id
        rf"^([A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d )({NAME})"
        rf"(?= (?:sudo|su|sshd|cron|CRON|rsyslogd|audit|slurmd|slurmctld|slurmstepd|containerd|dockerd|kubelet|dhclient"
        rf"|NetworkManager|nvidia-\w+|nv-\w+|mcelog|smartd|ntpd|chronyd|login|polkitd)(?:\(\w+\))?: )"
    ),
    place(rf"^(<\d{{1,3}}>\d{{1,2}} \S{{10,40}} )({NAME})(?= \S{{1,48}} \S{{1,128}} \S{{1,32}} )", "<"),  # RFC 5424
    place(rf"^(\d{{4}}-\d\d-\d\dT[\d:.]{{8,20}}(?:Z|[+-]\d\d:?\d\d) )({NAME})(?= (?:kernel|systemd|[\w./-]+\[\d+\]):)"),
    place(
        rf"(\b(?:(?:[A-Z][A-Z0-9]{{0,20}}_){{0,3}}HOSTNAME|MASTER_ADDR|SLURMD_NODENAME|NODENAME|COMPUTERNAME|USERDOMAIN|SLURM_SUBMIT_HOST"
        rf"|SLURM_TOPOLOGY_ADDR|PBS_O_HOST|PBS_SERVER|LSB_SUB_HOST|"
        rf"SLURM_LAUNCH_NODE_IPADDR|BatchHost|AllocNode:Sid|hostname|host[._]name|Hostname|fqdn|host\.hostname"
        rf"|k8s\.node\.name|master_addr|master-addr"
        rf"|main_process_ip|[Nn]ode[._]?name"
        rf"|nodeName|node_id|peer_host|server_name|head_node)\\?[\"']?(?:[ \t]{{0,16}}[=:][ \t]{{0,16}}"
        rf"|\s(?!{_PROSE}))\\?[\"']?)(?!b\\?[\"'])({NAME})(?![\w(\[])"
    ),
    place(rf"(\\?[\"'](?:host|node|machine|server|peer)\\?[\"']\s?:\s?\\?[\"'])({NAME})(?=\\?[\"'])"),  # JSON
    place(
        rf"(--(?:master[-_]addr|rdzv[-_]endpoint|main_process_ip|head[-_]node|hostname|host|hosts|address"
        rf"|local[-_]addr){TO})({NAME})",
        "--",
    ),
    place(rf"(\b(?:rdzv_)?endpoint\s*[:=]\s*[\"']?)({NAME})(?=:\d)", "endpoint"),
    place(rf"(\bhost\s{{1,10}}: )({NAME})", "host"),  # torchrun's summary of a failure
    # Open MPI, collect_env
    place(rf"(\b(?:(?:Local|Remote|Peer) host|Hostname|Node name|System name):\s{{1,12}})({NAME})(?=\s*$)"),
    place(rf"(\bon (?:node|host|vnode) )({NAME})", "on node ", "on host ", "on vnode "),
    # Open MPI: [host:pid]; many programs put the file and line of their own source there
    place(rf"(^\[)(?!\w+\.(?:py|pyx|cc|cpp|cu|c|h):)({NAME})(?=:\d+\])"),
    place(rf"(\[)({NAME})(?=:\d+ ?:\d+\] )", ":"),  # UCX: [host:pid :tid]
    place(rf"(\[(?:mpiexec|proxy:\d+(?::\d+)?|press)@)({NAME})(?=\])", "@"),  # MPICH's Hydra
    place(rf"(\bRUNNING AT )({NAME})", "RUNNING AT"),
    place(
        rf"(\bconnect(?:ed|ing)? to (?:\[|\(|host |peer |server "
        rf"|store )?[\"']?)({NAME})(?=\]?[\"']?[:,] ?\d)",
        "connect",
    ),  # c10d sockets
    place(
        rf"(\b[Cc]onnect(?:ed|ing)? to (?:the )?(?:master|rank ?0|head|chief|leader|coordinator|scheduler|store|node)"
        rf"(?: (?:node|host|process|at|address|on))? )({NAME})(?=:\d)",
        "onnect",
    ),
    # torch: SocketImpl(fd=.., addr=[..]:..); in a template of many messages with `<n>` for numbers
    place(rf"(\b(?:addr|remote|local)=\[)({NAME})(?=(?:<n>[\w.-]*)*\]:)", "=["),
    place(rf"('@')({NAME})(?=')", "'@'"),  # MySQL: user 'x'@'host'
    place(rf"(\bThe node ')({NAME})(?=_\d+_\d+' has )", "The node '"),  # torch's dynamic rendezvous
    place(rf"(\b[Nn]ode '?)({NAME})(?=_\d{{2,8}}_\d{{1,3}}\b)", "ode "),  # its name of a node: HOST_PID_NUMBER
    place(rf"(/mounts/clusters/)({NAME})(?=/)", "/mounts/clusters/"),  # Azure's machines are called by who has them
    place(rf"(\baddress(?:es)? of \()({NAME})(?=, \d)", "address"),
    place(
        rf"(\b(?:client|server|listening on|bind(?:ing)? to|bound to|resolve|resolving|lookup"
        rf"|reach) \[?[\"']?)({NAME})(?=\]?[\"']?:\d)"
    ),
    # ssh -v, and what it says of keys of hosts
    place(rf"(\bConnecting to )({NAME})(?= (?:\[[^\]\n]{{2,60}}\] )?port \d)", "Connecting to "),
    place(rf"(\bAuthenticating to )({NAME})(?=:\d+ as )", "Authenticating to "),
    place(
        rf"(\b(?:authenticity of host|[Pp]ermanently added|[Hh]ost key for) ['\"]?)({NAME})",
        "host",
        "ermanently added",
        "Host key",
    ),
    place(rf"(\bknown_hosts:\d+ for )({NAME})", "known_hosts"),
    place(rf"^()({NAME})(?=(?:,\S{{1,300}})? (?:ssh-\w+|ecdsa-sha2-\S+) )", " ssh-", " ecdsa-"),
    place(rf"(\bssh: (?:connect to host|Could not resolve hostname) )({NAME})", "ssh: "),
    place(rf"(\b(?:Linux|Darwin) )({NAME})(?= \d+\.\d+)", "Linux ", "Darwin "),  # uname -a
    # Slurm
    place(rf"(\bsrun: error: )({NAME})(?=: task)", "srun: "),
    place(rf"(\bON )({NAME})(?= CANCELLED)", " CANCELLED"),
    place(rf"(\bnode failure: |\b[Nn]ode failure on |\bbatch node )({NAME})", "ode failure", "batch node "),
    place(rf"(\b(?:slurm\w*: )?(?:error|warning|info): Node )({NAME})(?=: )", ": Node "),
    place(rf"(\bslurmstepd: (?:error|info|debug): )({NAME})(?= \[\d+\]:? pmixp_)", "pmixp_"),
    place(rf"(\bmpi/pmix\w{{0,8}}: \w{{1,64}}: )({NAME})(?= \[\d+\]:? pmixp_)", "pmixp_"),
    place(rf"(\bslurm(?:stepd|d)-)({NAME}?)(?=: (?:error|info|debug|verbose|warning|fatal))", "slurm"),
    place(rf"(\b[Pp]rolog (?:for job \d+ )?failed on (?:node )?)({NAME})", "rolog"),
    place(rf"(\bSTEPD TERMINATED ON )({NAME})", "STEPD TERMINATED"),
    place(rf"(\bDUE TO NODE )({NAME})(?= FAILURE)", "DUE TO NODE"),
    place(rf"(\bupdate_node: node )({NAME})", "update_node"),
    place(
        rf"(\b[Nn]odes? )({NAME})(?= (?:not responding|now responding|rebooted|unexpectedly|returned to|is down"
        rf"|status is now))"
    ),
    place(rf"(\bREASON=[^\n]{{1,80}} : )({NAME})", "REASON="),
    place(
        rf"(\bscontrol\b[^\n]{{0,40}}?\b[Nn]ode(?:[Nn]ame)?[= ])({NAME})(?= (?:[Ss]tate|[Rr]eason)=|\s*$)", "scontrol"
    ),
    place(rf"(\bSubmitted batch job \d+ on cluster )({NAME})", "on cluster"),
    # DeepSpeed's launcher; pdsh puts the host before each line
    place(rf"(\bfor node )(?=[\w.]*\d|[\w.]+-)({NAME})", "for node "),
    place(rf"^()({NAME})(?=: \[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\] \[)", "] ["),
    place(rf"(\bpdsh@)({NAME})(?=: )", "pdsh@"),
    place(rf"(\bpdsh@[\w.-]{{1,253}}: )({NAME})(?=: (?:ssh|rsh|mcmd|exec|connect|command|no such host))", "pdsh@"),
    # Kubernetes' events: who was put where, and who says so
    place(rf"(\bSuccessfully assigned [\w./-]{{1,320}} to )({NAME})", "Successfully assigned"),
    place(
        rf"(\bnode \\?[\"'])(?=\w+-)({NAME})(?=\\?[\"'] (?:had|has|not found|is not|was not|does not|cannot|hasn't))",
        'node "',
        "node '",
        "node \\",
    ),
    place(rf"(\bkubelet, )({NAME})(?=\s{{2}}|\s*$)", "kubelet, "),
    # what scripts say of themselves: `rank 3 on h7 (pid 17)`, `MEMBER: 1/8 (host: h7)`
    place(
        rf"(\b[Rr]ank:? \d{{1,6}}(?:/\d{{1,6}})? (?:is )?on )"
        rf"(?!(?:cuda|gpu|cpu|npu|xpu|hpu|tpu|device|port|step|epoch|attempt|line|pp|tp|dp)[\d:_-])(?=[\w.]*\d)({NAME})"
        rf"(?=\s*[(,;:)]|\.?\s*$)",
        "ank",
    ),
    place(rf"(\(host(?:name)?: )(?=[\w.-]*\d)({NAME})(?=\))", "(host"),
    # LSF, PBS
    place(rf"(\b(?:from host|on|to|[Hh]ost\(s\)) <(?:\d+\*)?)({NAME})(?=>(?: by user| in |[,;.]))", " <"),
    place(rf"(/pbs/aux/\d{{1,12}}(?:\[\d*\])?\.)({NAME})", "/pbs/aux/"),
    place(rf"(\bLSF System <\w+@)({NAME})(?=>)", "LSF System"),
    place(rf"(\b(?:PBS )?[Jj]ob(?:[ _][Ii]d)?:? ?=? ?\d+(?:\[\d*\])?\.)({NAME}\d[\w-]*)(?![\w.])", "ob"),
    place(rf"(\bvnode )({NAME})", "vnode "),
    place(rf"(\bnode \d{{1,5}} \()({NAME})(?=\) requested job )", "requested job"),
    place(rf"(\bin cluster <)({NAME})(?=>)", "in cluster <"),
    place(rf"(\bexec_v?(?:host|node)2?\s?=\s?\(?|[/*\d)]\+\(?)({NAME})(?=(?:/\d+|:ncpus=))", "exec_"),
    place(rf"((?:^|[\s=:'\"+(])\(?)({NAME})(?=/\d+\*\d+(?:[+\s'\")]|$))", "*"),
    place(rf"(\bDISPLAY\W{{1,4}})({NAME})(?=:\d{{1,3}}(?:\.\d{{1,2}})?(?![\w.]))", "DISPLAY"),
    # NCCL_DEBUG_FILE=nccl.%h.%p.log
    place(
        rf"(\bnccl(?:[._-](?:debug|log|trace|info))?[._-])(?=[A-Za-z-]+\d)({NAME}?)(?=[._-]\d{{2,8}}(?:\.(?:log|txt|out))?\b)",
        "nccl",
    ),
    place(rf"(\bdocker image: |\bdocker://(?:[\w.-]{{1,64}}@)?)({NAME})(?=#)", "docker"),  # enroot, pyxis
    place(rf"(^hostname {{2,24}})({NAME})(?=\s*$)", "hostname  "),  # qacct
    # gpustat's head: `host   Sat Nov 28 09:12:44 2026  550.54.15`
    place(
        rf"^()({NAME})(?= {{2,40}}(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{{2}} [ \d]\d [\d:]{{8}} \d{{4}}(?:\s"
        rf"|$))"
    ),
    place(rf"(\bcifs\b[^\n]{{0,60}}?\s//|\bsmb://|\bsmbclient\s+[\"']?//)({NAME})(?=/)", "cifs", "smb"),
    place(
        rf"((?<![\w.-])(?:host|hostname|server)=)(?=[\w.-]*\d)({NAME})(?=[\s,;)\]}}]|:\d|$)",
        "host=",
        "server=",
        "hostname=",
    ),
    # connection strings of ODBC and ADO.NET
    place(
        rf"(\b(?:[Ss]erver|SERVER|[Dd]ata [Ss]ource|[Aa]ddr(?:ess)?)\s?=\s?(?:tcp:|np:|lpc:)?)({NAME})"
        rf"(?=[,\\:;][^\n]{{0,300}}(?i:pwd|password|uid|user id|database|catalog|driver)\s?=)",
        "=",
    ),
    # mounts: `mount nas:/export on /home`, `nas:/export /home nfs4`
    place(rf"(\bmount(?:\.nfs4?)?:? )({NAME})(?=:/)", "mount"),
    # libpq: host=pg7 dbname=study
    place(rf"(\bhost=)({NAME})(?=[ ;](?:dbname|port|user|password)\s?=)", "host="),
    # licence servers of FlexLM and the like: `27000@lic1`
    place(rf"((?<![\w.@/-])\d{{4,5}}@)({NAME})(?=[\s:;,'\")\\]|$)", "@"),
    # servers of Windows: `\\\\nas\share`, also as Python's repr writes it; devices and long paths have no name there
    place(
        rf"((?:^|(?<=[\s\"'=(<,;]))(?:\\\\){{1,2}})((?![.?]|wsl\b|wsl\$|localhost\b){NAME})(?=\\{{1,2}}[\w$])", "\\\\"
    ),
    # the automounter's folder of a server
    place(rf"((?<![\w.-])/net/)(?!(?:scratch|home|work|data|proj|users?|nfs|storage)[a-z]*\d)({NAME}\d)(?=/)", "/net/"),
    place(
        rf"(\bBuilding (?:remotely )?on )({NAME})(?= \([^()\n]{{0,200}}\) in workspace| in workspace)", "Building "
    ),  # Jenkins
    # a folder of a node's own: `node_gpu17a/rank3.log`
    place(
        r"((?<![\w.-])(?:node|host)[_=-])((?!rank|local|gpu\d|group|list|id|type)[a-z]{2,20}[a-z-]*\d[\w-]{0,40})(?=/)",
        "node",
        "host",
    ),
    # files of a core, `core.PROGRAM.HOST.PID` and `core.HOST.PROGRAM.PID`
    place(
        rf"((?<![\w.])core[.-](?:python[\d.]*|pt_main_thread|torchrun|ray|train\w*)[.-])({NAME}?)(?=[.-]\d{{2,8}}(?:\.\d+)?(?:[\s\"'),:;]|$))",
        "core",
    ),
    place(
        rf"((?<![\w.])core\.)(?=[\w-]*\d)({NAME}?)(?=\.(?:python[\d.]*|pt_main_thread|torchrun|ray|train\w*)\.\d{{2,8}})",
        "core.",
    ),
    place(
        rf"((?<![\w.])core[.-](?:python[\d.]*|pt_main_thread|torchrun|ray)[.-]\d{{2,8}}[.-])(?!(?:gz|xz|zst|lz4|bz2)\b)({NAME})(?=[\s\"'),:;]|$)",
        "core",
    ),
    # settings: `trainer.hosts=x` (an item of a list has the name of the list), `cluster.name: x`, `ClusterName=x`
    place(
        rf"((?<![\w.-])(?:[\w-]{{1,40}}\.){{1,8}}(?:hosts|host_?names?|machines)=)({NAME})(?![\w(\[])",
        ".host",
        ".machines=",
    ),
    place(
        rf"((?<![A-Za-z])(?:cluster[._]?name|ClusterName)(?:=|: |\\?[\"']\s?:\s?)\\?[\"']?)"
        rf"(?!(?:default|str|None|self|args|cfg|config|name|value|cluster)\b)({NAME})(?=[\"'\s,;)}}\\]|$)",
        "cluster",
        "ClusterName",
    ),
    # Prometheus calls what it asks by host and port
    place(rf"(\binstance\\?[\"']?\s?[=:]\s?\\?[\"']?)({NAME})(?=:\d{{2,5}}(?![\w.:]))", "instance"),
    # the runners of GitLab: `Running with gitlab-runner 16.11.0 (91a27b2a) on NAME TOKEN`, on one line or two
    place(
        rf"(\bgitlab-runner \d\S{{1,40}}(?: \([0-9a-f]{{6,12}}\))? on )({NAME})(?= [\w-]{{8,12}}(?:,|\s|$))",
        "gitlab-runner",
    ),
    place(rf"(^ {{1,4}}on )({NAME})(?= [\w-]{{8,12}}, system ID: )", "system ID: "),
    # PSM of Omni-Path and InfiniPath: `HOST.PIDhfp_gen1_context_open: ...`
    place(rf"(^|\s)({NAME}?)(?=\.\d{{2,8}}(?:hfp_|hfi_|ips_|psm[23]?_|PSM[23]? ))", "hf", "ips_", "psm", "PSM"),
    # slots of a hostfile
    place(rf"^()({NAME})(?= slots=\d)", " slots="),
)
# Lists of hosts by comma; group 2 is the list.
LISTS = (
    place(rf"(\bpdsh [^\n]{{0,80}}?-w |\bparallel-ssh [^\n]{{0,80}}?-H )({NAME}(?:,{NAME})*)", "pdsh", "parallel-ssh"),
    place(rf"(\bsrun: error: )({NAME}(?:,{NAME})+)(?=: task)", "srun: "),
    # Go's x509: `certificate is valid for h1, h2, not h3`
    place(rf"(\bcertificate is valid for )({NAME}(?:, {NAME})*?)(?=, not )", "certificate is valid"),
    place(rf"(\bon the following workers: )({NAME}(?:,{NAME})*)", "following workers"),  # DeepSpeed
    place(
        rf"(--(?:hosts|hostlist|host)[= ]|\bmpirun [^\n]{{0,200}}?-(?:H|host) )({NAME}(?::\d+)?(?:,{NAME}"
        rf"(?::\d+)?)+)",
        "host",
        "mpirun",
    ),
)
# Hosts one after another, of LSF with a count behind each: `LSB_MCPU_HOSTS='h1 8 h2 8'`. Group 2 is the list.
ROWS = (
    place(
        rf"(\bLSB_\w{{0,20}}HOSTS(?:{IS}|[ \t]{{1,4}}))({NAME}(?:[ ]+\d+)?"
        rf"(?:[ ]+(?=[\w.-]*\d){NAME}(?:[ ]+\d+)?(?![\w.=-]))*)(?=[\"']|\s|$)",
        "LSB_",
    ),
)
# DeepSpeed: `WORLD INFO DICT: {'h1': [0, 1], 'h2': [0, 1]}`, `--include h1:0,1@h2:2`; group 2 holds the names.
DICTS = (
    place(
        r"(\b(?:WORLD INFO DICT|global_rank_mapping|world_info|active_resources"
        r"|resource_pool)\W{1,6}\{)([^\n{}]{1,20000})", "WORLD INFO",
        "mapping", "world_info", "resource",
    ),
    place(r"(\bdefaultdict\(<class 'list'>, \{)([^\n{}]{1,20000})", "defaultdict("),
    place(
        rf"(--(?:include|exclude){TO}\\?[\"']?)([A-Za-z][\w.-]*(?=:\d|@)(?::[\d,]+)?(?:@[A-Za-z][\w.-]*"
        rf"(?::[\d,]+)?)*)", "lude"),
)  # fmt: skip
IN_DICTS = lazy(rf"((?:\A|[@,{{\s])[\"']?)({NAME})(?=[\"']?\s?: ?[\[\d]|@|\Z)", re.ASCII)
