"""Places in which programs print the name of a user or a group, whatever it looks like."""

from __future__ import annotations

from forensics.report.redaction.host_places import Place, place

# First parts of branches that are no users: kinds of work, and robots.
_TOPICS = (
    "feat(?:ure)?s?|(?:bug|hot)?fix(?:es)?|releases?|rel|dev|devel|develop|exp|experiments?|users?|main|master|trunk|chore"
    "|refactor|docs?|tests?|wip|ci|perf|build|style|dependabot|renovate|gh-readonly-queue|remotes|origin|upstream|tags|pull"
    "|backport|revert|support|task|issues?|improvement|cleanup|export-?\\w*"
)
PEOPLE: tuple[Place, ...] = (
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
