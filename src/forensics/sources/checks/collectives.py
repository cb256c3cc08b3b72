"""Collectives that not every rank makes: inside a branch on the rank or on local data, or behind an early return."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forensics.sources.hits import Hit, Place, hit, place
from forensics.sources.models import given
from forensics.sources.program import (
    Program,
    Scope,
    calls_in,
    is_true,
    keyword,
    last,
    method,
    names_in,
    plain,
    receiver,
    walk,
)
from forensics.sources.project import Project
from forensics.sources.ranks import RankTest, is_rank, match_test, rank_test

# torch.distributed, its functional twins and DeepSpeed's copies of them. Point-to-point calls are meant for some ranks.
_TORCH = frozenset(
    "barrier monitored_barrier all_reduce all_reduce_coalesced all_gather all_gather_coalesced all_gather_object"
    " all_gather_into_tensor broadcast broadcast_object_list reduce reduce_scatter reduce_scatter_tensor gather"
    " gather_object scatter scatter_object_list all_to_all all_to_all_single new_group new_subgroups"
    " new_subgroups_by_enumeration init_device_mesh split_group".split()
)
_TORCH_MODULES = ("torch.distributed", "deepspeed.comm", "torch.distributed.nn", "torch.distributed.nn.functional")
_DCP = frozenset("get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict".split())
_ACCELERATE = frozenset(
    "wait_for_everyone gather gather_for_metrics reduce pad_across_processes save_state load_state"
    " get_state_dict".split()
)
_ACCELERATE_CLASSES = ("Accelerator", "PartialState")
_ACCELERATE_UTILS = frozenset(
    "gather gather_object broadcast broadcast_object_list reduce pad_across_processes wait_for_everyone".split()
)
_SHARDED = ("save_state", "load_state", "get_state_dict")  # collectives of FSDP and DeepSpeed, plain calls under DDP
_HOROVOD = frozenset("allreduce allgather broadcast broadcast_parameters broadcast_object barrier".split())
_DEEPEST = 5  # functions that are followed one into the other: helpers of evaluation and saving have two or three
_CREATES = ("new_group", "new_subgroups", "init_device_mesh", "split_group")


@dataclass(frozen=True, slots=True)
class _Made:
    """A collective that a call makes, by itself or in the function that it calls."""

    call: ast.Call  # what stands in the branch
    op: str
    grouped: bool  # it names a process group, which may hold just these ranks
    inner: _Reached | None = None


@dataclass(frozen=True, slots=True)
class _Reached:
    """A collective in a function that is called: where it stands, and the way there, the outermost first."""

    program: Program
    call: ast.Call
    steps: tuple[tuple[Program, ast.Call], ...]  # calls within the functions on the way
    names: tuple[str, ...]  # those functions


def collective(program: Program, call: ast.Call, project: Project) -> str | None:
    """The name of the collective that a call makes by itself; None where it makes none that is known."""
    full, name = program.called(call), method(call)
    module = full.removesuffix("." + name)
    if name in _TORCH and module in _TORCH_MODULES:
        return name
    if name in _DCP and module.startswith("torch.distributed.checkpoint"):
        return name
    if name in ("save", "load", "async_save") and module == "torch.distributed.checkpoint":
        return f"dcp.{name}"
    if name in ("full_optim_state_dict", "optim_state_dict", "sharded_optim_state_dict") and "fsdp" in module.lower():
        return name
    owner = receiver(call).split(".")[-1]
    if name in _ACCELERATE_UTILS and module.startswith("accelerate.utils"):
        return f"accelerate.{name}"
    if name in _ACCELERATE and program.uses("accelerate") and owner in _accelerators(program):
        if name in _SHARDED and not (
            program.uses("deepspeed") or any("fsdp" in word.lower() for word in program.words)
        ):
            return None
        return f"accelerator.{name}"
    if name in _HOROVOD and (module.startswith("horovod") or owner == "hvd"):
        return f"hvd.{name}"
    if name == "rendezvous" and module.startswith("torch_xla"):
        return name
    if name == "save_checkpoint" and program.uses("deepspeed") and owner not in ("self", "", "utils", "misc"):
        return "save_checkpoint" if "engine" in owner or owner in _engines(program) else None
    if name == "save_checkpoint" and owner == "trainer" and _lightning(program):
        return "trainer.save_checkpoint"
    if name == "barrier" and receiver(call).endswith("strategy") and _lightning(program):
        return "strategy.barrier"
    if name == "all_gather" and receiver(call) == "self" and _lightning(program):
        return "all_gather"
    if name == "state_dict" and (_gathering(program, call) or _is_fsdp(program, call, project)):
        return "state_dict"
    if name == "compute" and _is_torchmetric(program, receiver(call)):
        return "compute"
    if name in ("log", "log_dict") and receiver(call) == "self" and is_true(keyword(call, "sync_dist")):
        return "log(sync_dist=True)"
    return None


_FSDP = ("FullyShardedDataParallel", "FSDP")
_PARTIAL = frozenset({"LOCAL_STATE_DICT", "SHARDED_STATE_DICT"})  # each rank's own part


def _gathering(program: Program, call: ast.Call) -> bool:
    """Whether a state_dict() stands under `FSDP.state_dict_type(...)`, which makes it gather from all ranks."""
    return any(not names_in(kind) & _PARTIAL for kind in _kinds_around(program, call))


def _kinds_around(program: Program, call: ast.Call) -> list[ast.Call]:
    """The `FSDP.state_dict_type(...)` under which a call stands."""
    return [
        item.context_expr
        for parent in program.above(call)
        if isinstance(parent, ast.With)
        for item in parent.items
        if isinstance(item.context_expr, ast.Call) and method(item.context_expr) == "state_dict_type"
    ]


def _is_fsdp(program: Program, call: ast.Call, project: Project) -> bool:
    """Whether a state_dict() is that of a model which FSDP 1 has wrapped: unless told otherwise it gathers all of it.

    Silent where the wrapping, or this call, depends on a condition about sharding, and where the kind of state is set.
    """
    name = receiver(call)
    return bool(name) and not _kinds_around(program, call) and _is_wrapped(program, call, name, project, 0)


def _is_wrapped(program: Program, at: ast.expr, name: str, project: Project, depth: int) -> bool:
    """Whether a name stands for such a model where it is used: by what it is bound to, or, of an argument of the
    function, by what all of its calls give for it."""
    if "set_state_dict_type" in program.words or depth > _DEEPEST:
        return False
    own = program.scope_of(at)
    scopes = [s for s in program.scopes if s.owner is own.owner] if "." in name else [own]
    wraps = [v for s in scopes for v in s.values(name) if isinstance(v, ast.Call) and _wraps_in_fsdp(program, v)]
    if any(_asks_for_sharding(program, node) for node in (*wraps, at)):
        return False
    if wraps:
        return not any(isinstance(p, ast.If) and p in own.nodes for w in wraps for p in program.above(w))
    if own.values(name) or not own.takes(name):
        return False
    values = given(project, program, own, name)
    return bool(values) and all(_gives_wrapped(home, value, project, depth + 1) for home, value in values)


def _gives_wrapped(program: Program, value: ast.expr, project: Project, depth: int) -> bool:
    if isinstance(value, ast.Call):
        return _wraps_in_fsdp(program, value) and not _asks_for_sharding(program, value)
    return bool(plain(value)) and _is_wrapped(program, value, plain(value), project, depth)


def _asks_for_sharding(program: Program, node: ast.AST) -> bool:
    """Whether what stands around a node asks whether the model is sharded: `if use_fsdp:`."""
    tests = [p.test for p in program.above(node) if isinstance(p, ast.If | ast.IfExp)]
    return any("fsdp" in word.lower() or "shard" in word.lower() for test in tests for word in names_in(test))


def _wraps_in_fsdp(program: Program, value: ast.Call) -> bool:
    full = program.called(value)
    return last(full) in _FSDP and (full in _FSDP or full.startswith(("torch.distributed", "fairscale")))


def _is_torchmetric(program: Program, owner: str) -> bool:
    if not owner or not program.uses("torchmetrics"):
        return False
    values = [value for scope in program.scopes for value in scope.values(owner)]
    return bool(values) and all(program.dotted(v).startswith("torchmetrics") for v in values)


def _lightning(program: Program) -> bool:
    return any(program.uses(name) for name in ("lightning", "pytorch_lightning"))


def _accelerators(program: Program) -> set[str]:
    """Names of Accelerate's objects: those that are bound to one, and the usual one, which may be an argument."""
    bound = ((name, value) for scope in program.scopes for name, value, _ in scope.bound)
    made = {last(name) for name, value in bound if isinstance(value, ast.Call) and method(value) in _ACCELERATE_CLASSES}
    return made | {"accelerator"}


def _engines(program: Program) -> set[str]:
    """Names that deepspeed.initialize is unpacked into first: `engine, optimizer, _, _ = deepspeed.initialize(...)`."""
    found = set()
    for scope in program.scopes:
        for node in scope.nodes:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            if program.called(node.value) == "deepspeed.initialize":
                target = node.targets[0]
                first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
                found.add(last(plain(first)))
    return found - {""}


def _made(program: Program, project: Project, part: ast.AST | Sequence[ast.AST]) -> list[_Made]:
    """The collectives below some statements, those of functions that are called there included."""
    found = []
    for call in calls_in(part):
        op = collective(program, call, project)
        if op is not None:
            found.append(_Made(call, op, _grouped(call)))
            continue
        inner = _reached(program, project, call, frozenset())
        if inner is not None:
            op = collective(inner.program, inner.call, project) or ""
            grouped = any(map(_grouped, (call, *(c for _, c in inner.steps), inner.call)))
            found.append(_Made(call, f"{inner.names[0]}:{op}", grouped, inner))
    return found


def _reached(program: Program, project: Project, call: ast.Call, passed: frozenset[int]) -> _Reached | None:
    """The first collective that the function behind a call makes on no condition, by itself or in what it calls.

    passed: functions on the way, by the ids of their nodes: at most _DEEPEST, and none twice.
    """
    found = project.resolve(program, call)
    if found is None or id(found[1].node) in passed or len(passed) >= _DEEPEST:
        return None
    other, scope = found
    calls = [c for c in scope.calls if not _conditional(other, c)]
    own = next((c for c in calls if collective(other, c, project) is not None), None)
    if own is not None:
        return _Reached(other, own, (), (scope.name,))
    for c in calls:
        below = _reached(other, project, c, passed | {id(scope.node)})
        if below is not None:
            return _Reached(below.program, below.call, ((other, c), *below.steps), (scope.name, *below.names))
    return None


def _conditional(program: Program, call: ast.Call) -> bool:
    """Whether a collective is made on a condition of its own, on the rank or on arguments of its function.

    What depends on an argument may be switched off by the caller: `save(state, sync=False)`.
    """
    scope = program.scope_of(call)
    arguments = {a.arg for a in (*scope.node.args.args, *scope.node.args.kwonlyargs)} if scope.name else set()  # type: ignore[union-attr]
    for parent in program.above(call):
        if parent is scope.node:
            break
        if isinstance(parent, ast.If | ast.IfExp) and (
            rank_test(program, parent.test) is not None or arguments & names_in(parent.test)
        ):
            return True
        if isinstance(parent, ast.Match) and (is_rank(program, parent.subject) or arguments & names_in(parent.subject)):
            return True
    return False


def _grouped(call: ast.Call) -> bool:
    given = keyword(call, "group") or keyword(call, "process_group")
    return given is not None and not (isinstance(given, ast.Constant) and given.value is None)


def rank_conditional_collective(program: Program, project: Project) -> Iterator[Hit]:
    """Collectives on one side of a rank condition, or after an early return of some ranks.

    A barrier on one side is matched by one on the other side, also in a later branch of the same function (the usual
    way to let rank 0 download first). A collective in a named process group is left out where the condition may select
    just its members.
    """
    for scope in program.scopes:
        yield from _in_scope(program, project, scope)


def _in_scope(program: Program, project: Project, scope: Scope) -> Iterator[Hit]:
    sides: dict[str, tuple[list[tuple[_Made, ast.AST]], list[tuple[_Made, ast.AST]]]] = {}
    for node in scope.nodes:
        test = _test(program, node)
        if test is None or _same_rank_outside(program, node, scope, test):
            continue
        body, other = _sides(node)
        yes, no = _made(program, project, body), _made(program, project, other)
        if isinstance(node, ast.If) and not node.orelse and _leaves(node.body):
            no = _unless_same_condition(program, node, _made(program, project, _rest(program, node)))
        elif isinstance(node, ast.If) and node.orelse and _leaves(node.orelse):
            yes = yes + _unless_same_condition(program, node, _made(program, project, _rest(program, node)))
        if body and other and any(m.inner for m in (*yes, *no)) and _splits_roles(program, project, body, other):
            continue
        mine, others = sides.setdefault(test.side, ([], []))
        keep = [[m for m in made if test.exact or not m.grouped] for made in (yes, no)]
        if not test.positive:
            keep.reverse()
        mine += [(m, node) for m in keep[0]]
        others += [(m, node) for m in keep[1]]
    for mine, others in sides.values():
        yield from _surplus(program, mine, others)


def _test(program: Program, node: ast.AST) -> RankTest | None:
    """How a branch tells ranks apart; None where it does not, or is no branch."""
    if isinstance(node, ast.Match):
        return match_test(program, node)
    return rank_test(program, node.test) if isinstance(node, ast.If | ast.IfExp) else None


def _sides(node: ast.AST) -> tuple[Sequence[ast.AST], Sequence[ast.AST]]:
    """What those do that meet the condition of a branch, and what the others do."""
    if isinstance(node, ast.Match):
        return node.cases[0].body, node.cases[1].body if len(node.cases) > 1 else []
    if isinstance(node, ast.IfExp):
        return [node.body], [node.orelse]
    assert isinstance(node, ast.If)
    return node.body, node.orelse


def _splits_roles(program: Program, project: Project, body: Sequence[ast.AST], other: Sequence[ast.AST]) -> bool:
    """Whether both sides call functions of the program: ranks that play different parts, with collectives in each."""
    return all(any(project.resolve(program, c) is not None for c in calls_in(part)) for part in (body, other))


def _unless_same_condition(program: Program, branch: ast.If, made: list[_Made]) -> list[_Made]:
    """Without the collectives that are made on a condition which shares a name with the branch (`use_fsdp`)."""
    words = {n.id if isinstance(n, ast.Name) else n.attr for n in _outside_rank(program, branch.test)}
    kept = []
    for m in made:
        tests = [p.test for p in program.above(m.call) if isinstance(p, ast.If) and p is not branch]
        if not any(words & names_in(test) for test in tests):
            kept.append(m)
    return kept


def _outside_rank(program: Program, test: ast.expr) -> list[ast.Name | ast.Attribute]:
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    free = [part for part in parts if rank_test(program, part) is None]
    return [n for part in free for n in walk(part) if isinstance(n, ast.Name | ast.Attribute)]


def _same_rank_outside(program: Program, node: ast.AST, scope: Scope, test: RankTest) -> bool:
    """Whether the branch stands in another one of the same kind, which is reported itself."""
    for parent in program.above(node):
        if parent is scope.node:
            return False
        if isinstance(parent, ast.If | ast.Match) and (outer := _test(program, parent)) and outer.side == test.side:
            return True
    return False


def _surplus(program: Program, mine: list[tuple[_Made, ast.AST]], others: list[tuple[_Made, ast.AST]]) -> Iterator[Hit]:
    counts = Counter(m.op for m, _ in mine), Counter(m.op for m, _ in others)
    seen: set[int] = set()
    for made, against in ((mine, counts[1]), (others, counts[0])):
        left = Counter(against)
        for m, branch in made:
            if left[m.op] > 0:
                left[m.op] -= 1
                continue
            if id(branch) in seen:
                continue
            seen.add(id(branch))
            yield _hit(program, m, branch)


def _hit(program: Program, made: _Made, branch: ast.AST) -> Hit:
    test = _words(branch)[:80]
    inside = any(n is made.call for n in walk(branch))
    creates = made.op.endswith(_CREATES)
    what = f"{made.op.rpartition(':')[2]}()" if not made.op.endswith(")") else made.op
    via = f", in {' -> '.join(f'{name}()' for name in made.inner.names)}," if made.inner is not None else ""
    name = "process group creation" if creates else "collective"
    if inside:
        note = f"The {name} {what}{via} is called under `{test}`: not every rank comes to it."
    else:
        note = f"Ranks leave at `{test}` before the {name} {what}{via} that the others call."
    found = hit("rank_conditional_collective", program, made.call, note, branch)
    places = [*found.places[:1], place(program, made.call)]
    evidence = list(found.evidence)
    if made.inner is not None:
        for other, inner in (*made.inner.steps, (made.inner.program, made.inner.call)):
            places.append(place(other, inner))
            evidence.append(other.evidence(inner))
    if inside:
        places.append(Place(program.path, made.call.lineno, made.call.end_lineno or made.call.lineno))
    return Hit(found.check, note, tuple(dict.fromkeys(evidence)), tuple(dict.fromkeys(places)), 0.9)


def _words(branch: ast.AST) -> str:
    """The condition of a branch as it is written."""
    if isinstance(branch, ast.Match):
        return f"match {ast.unparse(branch.subject)}: case {ast.unparse(branch.cases[0].pattern)}"
    return ast.unparse(branch.test) if isinstance(branch, ast.If | ast.IfExp) else ""


def _leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether a block ends its function or its turn of a loop. A process that exits or raises is no rank that waits."""
    return bool(block) and isinstance(block[-1], ast.Return | ast.Continue | ast.Break)


def _rest(program: Program, branch: ast.If) -> list[ast.stmt]:
    """What comes after a branch that leaves: the rest of the loop's turn, or of the function."""
    leave = (branch.body if _leaves(branch.body) else branch.orelse)[-1]
    rest: list[ast.stmt] = []
    node: ast.AST = branch
    while isinstance(node, ast.stmt):
        block = program.block(node)
        rest += block[next(i for i, s in enumerate(block) if s is node) + 1 :] if node in block else []
        parent = program.parents.get(node)
        if isinstance(parent, ast.For | ast.AsyncFor | ast.While):
            if not isinstance(leave, ast.Return):
                return rest
            # A loop's next turns come after it as well.
            rest += parent.body[: next((i for i, s in enumerate(parent.body) if s is node), 0)]
        if not isinstance(parent, ast.If | ast.With | ast.AsyncWith | ast.Try | ast.For | ast.AsyncFor | ast.While):
            return rest
        node = parent
    return rest


def data_dependent_collective(program: Program, project: Project) -> Iterator[Hit]:
    """Branches on a value of this rank alone (`loss.item() < best`) that make different collectives.

    Also `continue` on a loss that is not finite, before the backward pass of a DDP model, whose all-reduce the other
    ranks then make without this one. Silent where the value was reduced or gathered before.
    """
    if not program.uses("torch"):
        return
    for scope in program.scopes:
        for node in scope.nodes:
            if not isinstance(node, ast.If) or not _local_value(node.test):
                continue
            if (
                names_in(node.test) & _shared(program, project, scope, node)
                or rank_test(program, node.test) is not None
            ):
                continue
            yes, no = _made(program, project, node.body), _made(program, project, node.orelse)
            ops = [m.op for m in yes], [m.op for m in no]
            test = ast.unparse(node.test)[:80]
            if ops[0] != ops[1] and not any(m.grouped for m in (*yes, *no)):
                one = (yes or no)[0]
                other = no[0].op if yes and no else "none"
                note = (
                    f"`{test}` is decided by each rank for itself, and its branches make different collectives"
                    f" ({one.op} and {other})."
                )
                yield hit("data_dependent_collective", program, one.call, note, node, span=node, weight=0.8)
            elif _skips_backward(program, node):
                note = (
                    f"A rank that takes `{test}` skips backward(), and with it the gradient all-reduce for which the"
                    " others wait."
                )
                yield hit("data_dependent_collective", program, node, note, weight=0.7)


def _shared(program: Program, project: Project, scope: Scope, before: ast.If) -> set[str]:
    """Names whose values are the same on all ranks, since a collective before a statement has made them."""
    shared: set[str] = set()
    for call in scope.calls:
        name = method(call)
        if call.lineno >= before.lineno:
            continue
        if collective(program, call, project) is not None or any(
            w in name for w in ("reduce", "gather", "broadcast", "sync")
        ):
            shared |= names_in(call)
    shared -= {"torch", "dist", "distributed", "self", "op", "group", "ReduceOp", "SUM"}
    for _ in range(3):
        for name, value, statement in scope.bound:
            if statement.lineno < before.lineno and names_in(value) & shared:
                shared.add(last(name))
    return shared


def _local_value(test: ast.expr) -> bool:
    """Whether a condition asks for a loss or a metric, or whether a loss is finite."""
    words = {word.lower() for word in names_in(test)}
    if words & {"isnan", "isfinite", "isinf"}:
        return any("loss" in word for word in words)
    if not isinstance(test, ast.Compare) or "item" not in words:
        return False
    return any(part in word for word in words for part in ("loss", "val", "metric"))


def _skips_backward(program: Program, node: ast.If) -> bool:
    if not node.body or not isinstance(node.body[-1], ast.Continue) or node.orelse:
        return False
    if not {"DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP"} & program.words:
        return False
    inside = calls_in(node.body)
    if any(method(c) == "backward" for c in inside):
        return False
    return any(method(c) == "backward" for c in calls_in(_rest(program, node)))


def sync_on_rank_zero(program: Program, project: Project) -> Iterator[Hit]:
    """Lightning: `self.log(..., sync_dist=True, rank_zero_only=True)` synchronises on one rank only."""
    if not _lightning(program):
        return
    for call in program.calls:
        if method(call) not in ("log", "log_dict") or receiver(call) != "self":
            continue
        if is_true(keyword(call, "sync_dist")) and is_true(keyword(call, "rank_zero_only")):
            note = "sync_dist=True is a collective, and rank_zero_only=True lets rank 0 alone call it."
            yield hit("sync_on_rank_zero", program, call, note, weight=0.9)
