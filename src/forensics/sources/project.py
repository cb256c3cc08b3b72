"""All programs together: which function a call reaches, over files as well."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from forensics.sources.program import Program, Scope, method, plain, receiver

# A method of one of these names is defined by so many classes that its name alone says nothing.
_COMMON = frozenset(
    "__init__ __call__ forward step update save load train eval test run fit close reset add get set log compute main"
    " backward state_dict load_state_dict zero_grad to cuda apply build setup start stop write read print"
    " append".split()
)


# Nor do those of wrappers of collectives: whose group they use is the object's secret.
_COLLECTIVE = ("broadcast", "gather", "scatter", "reduce", "barrier", "all_to_all")


@dataclass(frozen=True)
class Project:
    programs: tuple[Program, ...]

    @cached_property
    def _functions(self) -> dict[str, list[tuple[Program, Scope]]]:
        found: dict[str, list[tuple[Program, Scope]]] = {}
        for program in self.programs:
            for name, scopes in program.functions.items():
                found.setdefault(name, []).extend((program, scope) for scope in scopes)
        return found

    def resolve(self, program: Program, call: ast.Call) -> tuple[Program, Scope] | None:
        """The function of these programs that a call reaches, where there is exactly one that it can be."""
        name = method(call)
        every = self._functions.get(name)
        if not every:
            return None
        owner = receiver(call)
        here = [(p, s) for p, s in every if p is program]
        if isinstance(call.func, ast.Name):
            full = program.imports.get(name)
            if full is not None:
                return _one([(p, s) for p, s in every if s.owner is None and _module_fits(p.module, full, s.name)])
            return _one([(p, s) for p, s in here if s.owner is None])
        if owner in ("self", "cls"):
            mine = program.scope_of(call).owner
            if mine is None:
                return None
            family = {mine.name, *program.bases(mine)}
            own = [(p, s) for p, s in here if s.owner is mine]
            return _one(own or [(p, s) for p, s in here if s.owner is not None and s.owner.name in family])
        full = program.dotted(call.func)
        if plain(call.func) and plain(call.func).split(".")[0] in program.imports:
            return _one([(p, s) for p, s in every if s.owner is None and _module_fits(p.module, full, s.name)])
        if name in _COMMON or name.startswith("__") or any(word in name for word in _COLLECTIVE):
            return None
        return _one(every) if len(every) == 1 and every[0][1].owner is not None else None

    @cached_property
    def callers(self) -> dict[int, list[tuple[Program, ast.Call]]]:
        """Calls that reach a function, by the id of its node."""
        found: dict[int, list[tuple[Program, ast.Call]]] = {}
        for program in self.programs:
            for call in program.calls:
                reached = self.resolve(program, call)
                if reached is not None:
                    found.setdefault(id(reached[1].node), []).append((program, call))
        return found


def _one(found: Sequence[tuple[Program, Scope]]) -> tuple[Program, Scope] | None:
    return found[0] if len(found) == 1 else None


def _module_fits(module: str, full: str, name: str) -> bool:
    """Whether `module` ("src.utils.dist") can be the one of `full` ("utils.dist.reduce")."""
    wanted = full.removesuffix("." + name)
    return wanted != full and (module == wanted or module.endswith("." + wanted))
