"""Whether lines are the source of a program: what it may say stands there in full, and nothing has happened."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.patterns import lazy

AROUND = 20  # lines on either side of a message that are looked at
FEWEST = 8  # lines that tell anything
SHARE = 0.25  # of them that only programs have; the rest of a source are continued lines, texts and comments

# Statements of Python, C++ and the shell that neither logs nor printed settings hold. A JSON dump ends its lines in
# brackets and commas as well, which are therefore none of them.
_STATEMENT = lazy(
    r"^\s*(?:import \w|from [\w.]+ import |(?:async )?def \w+\(|class \w+[(:]|return\b|raise \w+"
    r"|(?:if|elif|while|with) .{1,200}:$|for \w.{0,100} in .{1,200}:$|(?:else|try|finally):$|except\b.{0,200}:$"
    r"|@\w+[\w.]*(?:\(.{0,200})?$|self\.\w+|(?:assert|yield|await|del|global) \w"
    r"|#\s*(?:include|define|if|ifdef|ifndef|elif|else|endif|undef|pragma)\b|template ?<|namespace \w|using \w|typedef "
    r"|(?:public|private|protected):|(?:static|const|void|inline|extern|struct|virtual|enum|auto|int|char|bool) [\w*&]"
    r"|TORCH_\w+\(|\}? ?else ?\{|[^\"']{1,200};$|[^\"'{]{1,200}\) ?\{$|(?:my|local|our) [$@%]|fi$|done$|esac$|then$|do$"
    r"|(?:if|while) \[|(?:.{1,80}\|\| )?exit \d+$|//|/\*|\* |[^*\n]{0,200}\*/$|\w[\w.]* = [\w.]+\(.{0,200}$)"
)
_QUOTED = lazy(r"^\s*(?:[furbFURB]{0,2}[\"'`]|#|//|/\*|\* )|/\*.*\*/")  # a text or a comment of a program
_IN_A_LOG = lazy(r"^(?:Traceback \(most recent|\s*File \"[^\"]+\", line \d+|[\[(<]?\d{4}-\d\d-\d\d|\[?rank ?\d+\b)")


def is_statement(line: str) -> bool:
    """Whether a line is what only programs have."""
    return _STATEMENT.search(line) is not None


def may_be(line: str) -> bool:
    """Whether a line can be a statement, a text or a comment of a program."""
    return _STATEMENT.search(line) is not None or _QUOTED.search(line) is not None


def among_statements(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether what stands around a line is a program.

    before, after: the lines next to it, nearest last and first. A traceback quotes programs, and lines that begin with
    a date or a rank were printed: among these nothing is a program.
    """
    lines = [line[:400] for line in (*before[-AROUND:], *after[:AROUND]) if line.strip()]
    if len(lines) < FEWEST or any(_IN_A_LOG.search(line) for line in lines):
        return False
    return sum(_STATEMENT.search(line) is not None for line in lines) >= SHARE * len(lines)
