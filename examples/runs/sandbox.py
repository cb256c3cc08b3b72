"""Namespaces around one scenario, so that a real run leaves nothing that names the machine or its user.

Inside, the host is called `node-0`, everything lies under /tmp/run (a tmpfs), and Python and its packages are seen
as /tmp/run/venv and /tmp/run/python: tracebacks, event file names and torchrun's failure table are neutral at their
source, binary files included, where rewriting afterwards would break length prefixes and checksums.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path("/tmp/run")
HOST = "node-0"

# The order matters: the tmpfs hides what lay at ROOT, and the bound pyvenv.cfg must lie over the bound environment.
_SETUP = """
set -e
mount --make-rprivate /
hostname "$BOX_HOST"
mount -t tmpfs -o size=256m,mode=755 tmpfs "$BOX_ROOT"
cd "$BOX_ROOT"
mkdir venv python out tmp
mount --bind "$BOX_BASE" python
mount --bind "$BOX_PREFIX" venv
if [ -e venv/pyvenv.cfg ]; then
    printf 'home = %s/python/bin\\ninclude-system-site-packages = false\\n' "$BOX_ROOT" > pyvenv.cfg
    mount --bind pyvenv.cfg venv/pyvenv.cfg
fi
mount --bind "$BOX_OUT" out
printf '127.0.0.1 %s\\n127.0.0.1 localhost\\n' "$BOX_HOST" > hosts
mount --bind hosts /etc/hosts
cp "$BOX_CODE"/scripts/*.py .
mkdir driver
cp "$BOX_CODE"/*.py driver
exec env -i PATH="$BOX_ROOT/venv/bin:/usr/bin:/bin:/usr/sbin:/sbin" HOME="$BOX_ROOT" \\
    TMPDIR="$BOX_ROOT/tmp" LANG=C.UTF-8 \\
    GLOO_SOCKET_IFNAME=lo PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \\
    "$BOX_ROOT/venv/bin/$BOX_EXE" driver/inside.py "$BOX_NAME"
"""


def enter(name: str, *, code: Path, out: Path) -> int:
    """Run scenario `name` with the scripts of `code`, into `out`; the exit status of the driver inside."""
    ROOT.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "BOX_HOST": HOST,
        "BOX_ROOT": str(ROOT),
        "BOX_BASE": sys.base_prefix,
        "BOX_PREFIX": sys.prefix,
        "BOX_EXE": Path(sys.executable).name,
        "BOX_CODE": str(code),
        "BOX_OUT": str(out),
        "BOX_NAME": name,
    }
    # Without root, a user namespace gives the same rights over the namespaces below it.
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    spaces = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return subprocess.run(["unshare", *mapped, *spaces, "sh", "-c", _SETUP], env=environment, check=False).returncode
