"""Places in which programs print the name of a user or a group, whatever it looks like."""

from __future__ import annotations

from forensics.report.redaction.host_places import Place, place

# First parts of branches that are no users: kinds of work, and robots.
_TOPICS = (
    "feat(?:ure)?s?|(?:bug|hot)?fix(?:es)?|releases?|rel|dev|devel|develop|exp|experiments?|users?|main|master|trunk|chore"
    "|refactor|docs?|tests?|wip|ci|perf|build|style|dependabot|renovate|gh-readonly-queue|remotes|origin|upstream|tags|pull"
    "|backport|revert|support|task|issues?|improvement|cleanup|export-?\\w*"
)
# Who started a job, if it is no program that starts jobs, and no word of sentences.
_STARTER = (
    r"(?!(?:an?|the|this|that|its?|our|your|my|you|me|us|hand|default|users?|someone|anyone|root|self|system\w*|slurm\w*"
    r"|srun|sbatch|torch\w*|pytorch\w*|accelerate|deepspeed|mpi\w*|horovod\w*|ray|dask|spark|kube\w*|docker\w*|pod|cron\w*"
    r"|launcher|scheduler|operator|controller|agent|elastic|supervisor|watchdog|autoscaler|parent|process|main|rank\d*"
    r"|worker\d*|job|jobs|client|server|application|script|python\w*|bash|sh|pid|hydra|submitit|lightning|jenkins|github"
    r"|gitlab|airflow|argo|sagemaker|skypilot|sky|modal|daemon|admin|another|other|each|all|setting|using|running|calling"
    r"|adding|means|way|accident|design|mistake)\b)"
)
PEOPLE: tuple[Place, ...] = (
    # su: `(to root) x on pts/4`, `FAILED SU (to x) y on pts/4`; PAM: `session opened for user x by y(uid=1)`
    place(r"(\b(?:su(?:\[\d+\])?: |FAILED SU )\(to )([A-Za-z_][\w.-]{0,31})(?=\) )", "(to "),
    place(r"(\b(?:su(?:\[\d+\])?: |FAILED SU )\(to [\w.-]{1,32}\) )([A-Za-z_][\w.-]{0,31})(?= on )", "(to "),
    place(r"(\bfor user [\w.-]{1,32}(?:\(uid=\d+\))? by )([A-Za-z_][\w.-]{0,31})(?=\(uid=)", "for user "),
    place(r"(\bUser <)([A-Za-z_][\w.-]{1,31})(?=>)", "User <"),  # LSF
    # what scripts say of who runs them; a word is one in most sentences
    place(
        rf"(\b(?:[Ss]ubmitted|[Ll]aunched) by:? (?:user )?){_STARTER}([a-z][a-z0-9.-]{{2,31}}?)"
        r"(?=\.?\s*$|[,;)]|\s(?:at|on|from|via)\s)",
        " by ",
        " by: ",
    ),
    place(r"(\b[Ww]hoami\)?(?: ?[:=]| is|\s*->)\s{1,4}|\$ whoami\n)([a-z_][a-z0-9._-]{1,31})(?=\s*$|[,;])", "hoami"),
    place(
        rf"(\b(?:[Rr]unning|[Ee]xecuting) as:? ){_STARTER}([a-z][a-z0-9.-]{{2,31}}?)(?=@|\s(?:on|at)\s|\s\(?uid\b)",
        " as ",
        " as: ",
    ),
    place(
        rf"(\b[Uu]ser ){_STARTER}((?!code\b|data\b|program\b|session\b|request\b)[a-z][a-z0-9.-]{{2,31}})"
        r"(?= (?:has )?(?:started|submitted|launched|cancelled|requested|ran|owns|logged (?:in|out)"
        r"|(?:pid|gpu|uid|gid|job(?:id)?)\s?[=:]?\s?\d))",
        "ser ",
    ),
    place(r"(^owner {2,24})([a-z_][\w.-]{1,31})(?=\s*$)", "owner  "),  # qacct
    # pytest keeps its temporary folders by who runs it
    place(r"(/pytest-of-)([A-Za-z_][\w.-]{1,31})(?=/|\s|\Z)", "/pytest-of-"),
    # Kubernetes: `User "x" cannot list ...`, `User "system:serviceaccount:NAMESPACE:x" cannot ...`
    place(
        r"(\b[Uu]ser \\?[\"'](?!system:))([A-Za-z_][\w.@-]{0,63})(?=\\?[\"'] (?:cannot|is not allowed|is forbidden))",
        'ser "',
        "ser '",
        "ser \\",
    ),
    place(r"(\bsystem:serviceaccount:[\w-]{1,63}:)([a-z0-9][\w.-]{0,62})", "system:serviceaccount"),
    place(r"(\bserviceaccounts? \\?[\"'])([a-z0-9][\w.-]{1,62})(?=\\?[\"'])", "serviceaccount"),
    place(
        r"(\b(?:Service Account:[ \t]+|serviceAccount(?:Name)?\\?[\"']?:\s?\\?[\"']?))"
        r"(?!default\b)([a-z0-9][\w.-]{1,62})",
        "Service Account:",
        "serviceAccount",
    ),
    place(
        r"(\buser )((?!does\b|is\b|has\b)[A-Za-z_][\w.-]{1,31})(?= does not have access to (?:entity|project|team))",
        "have access to",
    ),
    # systemd-logind, quota, seff
    place(r"(\bSession c?\d+ of [Uu]ser )([A-Za-z_][\w.-]{0,31}?)(?=\.?(?:\s|\Z))", "Session "),
    place(r"(\bquotas for (?:usr|user|grp|group|prj) )([A-Za-z_][\w.-]{0,31})(?= \()", "quotas for"),
    place(r"(\bUser/Group: )([A-Za-z_][\w.-]{0,31})(?=/)", "User/Group"),
    place(r"(\bUser/Group: [\w.-]{1,40}/)([A-Za-z_][\w.-]{0,31})", "User/Group"),
    # tailscale: `100.1.2.3  host  user@  linux`
    place(r"(\s)([A-Za-z_][\w.-]{0,31})(?=@\s{1,12}(?:linux|windows|macOS|android|iOS)\s)", "@ "),
    # HDFS: `inode="/d":OWNER:GROUP:drwxr-xr-x`
    place(r"(\binode=\"[^\"\n]{1,400}\":)([A-Za-z_][\w.-]{0,63})(?=:)", "inode="),
    place(r"(\binode=\"[^\"\n]{1,400}\":[\w.-]{1,64}:)([A-Za-z_][\w.-]{0,63})(?=:[-dl][r-])", "inode="),
    # SkyPilot calls a cluster after who launched it, and its machines after both.
    place(r"(\bsky-[0-9a-f]{4}-)([a-z][a-z0-9]{1,31})(?![A-Za-z0-9])", "sky-"),
    # Branches of the form `user/topic`, where git names one.
    place(
        rf"(\b(?:HEAD -> |On branch |refs/heads/|Switched to (?:a new )?branch '|git checkout (?:-[bB] )?"
        rf"|git switch (?:-c )?)(?:origin/)?)(?!(?:{_TOPICS})/)([a-z][\w.-]{{1,31}})(?=/[\w.-])",
        "HEAD -> ",
        "On branch",
        "refs/heads/",
        "Switched to",
        "git checkout",
        "git switch",
    ),
)
