"""The image of the container that a run was in, as container runtimes and clusters print it, or who starts one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

from forensics.parsers.run_files.base import item
from forensics.parsers.run_files.documents import Item
from forensics.patterns import lazy

_REFERENCE = r"[a-z0-9][\w.-]{0,120}(?:[/:@#][\w.-]{1,120}){1,12}"  # registry, path, tag, digest; enroot has one "#"
# (a word that must stand in the text, the line)
_LINES = (
    ("pyxis: import", lazy(rf"\bpyxis: import(?:ing|ed) docker image: ({_REFERENCE})")),
    ("Status: ", lazy(rf"^Status: (?:Downloaded newer image|Image is up to date) for ({_REFERENCE})\s*$", re.M)),
    ("Container ID:", lazy(rf"^ {{2,}}Image: {{2,}}({_REFERENCE})\s*$", re.M)),  # kubectl describe pod
    ("ulled image ", lazy(rf'\bSuccessfully pulled image "({_REFERENCE})"')),
    ("Container image ", lazy(rf'\bContainer image "({_REFERENCE})" already present on machine')),
)
# Commands as a shell prints them before it runs them (`bash -x`: one "+" a level).
_COMMAND = lazy(r"^\++ ([^\n]{1,4000})$", re.M)
_RUNTIMES = ("singularity ", "apptainer ", "docker run ", "podman run ", "nerdctl run ", "--container-image")
LITERALS = (*(literal for literal, _ in _LINES), *_RUNTIMES)
_MOST = 16
_MOST_COMMANDS = 256
_STORED = lazy(r".+\.(?:sif|simg|sqsh)|(?:docker|library|oras|shub)://\S+")  # Singularity's and Apptainer's
# Options of `docker run`, `podman run` and `nerdctl run` that take no value (docs.docker.com/reference/cli/docker).
_FLAGS = lazy(
    r"-[itdPq]+|--(?:rm|interactive|tty|detach|privileged|init|read-only|publish-all|no-healthcheck|oom-kill-disable|"
    r"disable-content-trust|quiet|sig-proxy|replace|no-hosts|rmi|tls-verify)"
)


def images(text: str) -> Iterator[Item]:
    """The one image that a text names; none where several are, since one of them may be a sidecar's."""
    found: dict[str, int] = {}
    for literal, pattern in _LINES:
        if literal in text:
            for m in islice(pattern.finditer(text), _MOST):
                found.setdefault(m[1].replace("#", "/"), m.start())
    if any(word in text for word in _RUNTIMES):
        for m in islice(_COMMAND.finditer(text), _MOST_COMMANDS):
            if (name := _started(_words(m[1]))) is not None:
                found.setdefault(name, m.start())
    if len(found) == 1:
        name, at = found.popitem()
        yield item("container.image", name, text.count("\n", 0, at) + 1)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return command.split()


def _started(words: Sequence[str]) -> str | None:
    """The image that a command starts a container of; None where it starts none, or that cannot be told."""
    programs = [word.rpartition("/")[2] for word in words]
    for n, (program, word) in enumerate(zip(programs, words, strict=True)):
        if word.startswith("--container-image"):  # pyxis' option of srun
            name, mark, value = word.partition("=")
            value = value if mark else next(iter(words[n + 1 :]), "")
            return value.replace("#", "/") or None if name == "--container-image" else None
        if program in ("singularity", "apptainer"):
            given = words[n + 1 :]
            return next(
                (w for at, w in enumerate(given) if _STORED.fullmatch(w) and given[at - 1] != "--overlay"), None
            )
        if program in ("docker", "podman", "nerdctl") and "run" in words[n + 1 : n + 2]:
            return _first_argument(words[n + 2 :])
    return None


def _first_argument(words: Sequence[str]) -> str | None:
    """The first word that is neither an option nor the value of one."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif not word.startswith("-"):
            return word if re.fullmatch(r"[a-z0-9][\w./:@-]{1,400}", word) else None
        else:
            skip = "=" not in word and not _FLAGS.fullmatch(word)
    return None
