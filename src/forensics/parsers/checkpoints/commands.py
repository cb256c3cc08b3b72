"""Names in a pickle that would run a command or any code as it is loaded, and that no checkpoint needs.

Calls of harmless looking functions can do harm as well: that nothing is found here makes no file safe to load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from forensics.patterns import lazy

# What scanners of models look for (picklescan's and modelscan's lists of unsafe globals), without what picklers write
# themselves: getattr for bound methods, classes of exceptions, paths and results of calls.
_RUNS = lazy(
    r"(?:(?:os|posix|nt)\.(?:system|popen\w*|exec[lv]\w*|spawn\w*|posix_spawnp?|startfile|fork|kill|remove|unlink|rmdir)"
    r"|subprocess\.(?:Popen|run|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|commands\.(?:getoutput|getstatusoutput)|popen2\.popen\d"
    r"|(?:builtins|__builtin__)\.(?:eval|exec|execfile|compile|__import__|open|breakpoint)"
    r"|importlib\.(?:import_module|__import__)|runpy\.(?:run_path|run_module|_run_code)"
    r"|pty\.spawn|shutil\.(?:rmtree|move)|webbrowser\.open\w*|socket\.(?:socket|create_connection)"
    r"|(?:urllib\.request|urllib)\.(?:urlopen|urlretrieve)|code\.interact|timeit\.timeit|ctypes\.CDLL"
    r"|(?:bdb\.Bdb|pdb\.(?:Pdb\.)?)run\w*|pip\.main|pydoc\.pipepager)$",
    re.ASCII,
)


def refused(names: Iterable[str]) -> str | None:
    """Why a pickle that names these globals (module.qualname) is refused; None where none of them runs anything."""
    found = [name for name in dict.fromkeys(names) if _RUNS.match(name)]
    if not found:
        return None
    more = f" and {len(found) - 1} more like it" if len(found) > 1 else ""
    return f"refused: it names global {found[0]}{more}"
