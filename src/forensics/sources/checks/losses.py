"""Losses that get something else than they expect, and losses without a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from forensics.sources.hits import Hit, hit
from forensics.sources.models import LOSSES, home_of, loss_of, output_of, prediction
from forensics.sources.program import Program, calls_in, is_true, keyword, last, method, names_in, plain, receiver
from forensics.sources.project import Project

_NAMES = {function: {name, function} for name, function in LOSSES.items()}


def _wrong_input(
    check: str, program: Program, project: Project, loss: str, kind: str, note: str, weight: float
) -> Iterator[Hit]:
    if not _NAMES[loss] & program.words:
        return
    for call in program.calls:
        if loss_of(project, program, call) != loss or (value := prediction(call)) is None:
            continue
        found = output_of(project, program, value)
        if found is None or found[0] != kind:
            continue
        home = home_of(project, found[1])
        if home is None or home is program:
            yield hit(check, program, call, note, found[1], weight=weight)
        else:
            made = hit(check, program, call, note, weight=weight)
            yield Hit(made.check, note, (*made.evidence, home.evidence(found[1])), made.places, weight)


def softmax_before_cross_entropy(program: Program, project: Project) -> Iterator[Hit]:
    """Probabilities given to cross entropy, which takes logits and applies log-softmax itself.

    Followed through local names, the model's forward (in other files too), Sequential and wrappers. log_softmax is not
    reported: applied twice it is the same as once.
    """
    note = (
        "Cross entropy applies log-softmax itself; here it gets probabilities, so that its gradients are nearly zero."
    )
    yield from _wrong_input("softmax_before_cross_entropy", program, project, "cross_entropy", "softmax", note, 0.9)


def sigmoid_before_bce_with_logits(program: Program, project: Project) -> Iterator[Hit]:
    """Probabilities given to the loss that applies the sigmoid itself."""
    note = "This loss applies the sigmoid itself; here it gets the output of one."
    loss = "binary_cross_entropy_with_logits"
    yield from _wrong_input("sigmoid_before_bce_with_logits", program, project, loss, "sigmoid", note, 0.9)


def bce_on_logits(program: Program, project: Project) -> Iterator[Hit]:
    """BCELoss on the output of a linear layer: it takes probabilities."""
    if {"sigmoid", "Sigmoid"} & program.words:
        return
    note = "BCELoss takes probabilities; here it gets the output of a layer without a sigmoid."
    yield from _wrong_input("bce_on_logits", program, project, "binary_cross_entropy", "linear", note, 0.85)


def nll_without_log_softmax(program: Program, project: Project) -> Iterator[Hit]:
    """nll_loss on logits or on probabilities: it takes log-probabilities."""
    for kind in ("linear", "softmax"):
        what = "raw outputs of a layer" if kind == "linear" else "probabilities without the logarithm"
        note = f"NLLLoss takes log-probabilities; here it gets {what}, so that it has no lower bound."
        yield from _wrong_input("nll_without_log_softmax", program, project, "nll_loss", kind, note, 0.85)


_CUT = ("argmax", "detach", "item", "numpy", "tolist")


def detached_loss(program: Program, project: Project) -> Iterator[Hit]:
    """A loss that is rebuilt or cut from the graph before backward().

    `torch.tensor(loss, requires_grad=True)` and `loss.detach().requires_grad_()` are leaves of their own: backward()
    runs and no weight gets a gradient. A classification loss of `argmax` has none at all.
    """
    for scope in program.scopes:
        backward = {receiver(c) for c in scope.calls if method(c) == "backward"} - {""}
        for name, value, _ in scope.bound:
            if name in backward and isinstance(value, ast.Call) and _rewrapped(program, value):
                note = f"`{name}` is made anew with requires_grad here: its backward() reaches no weight."
                yield hit("detached_loss", program, value, note, weight=0.9)
    if not (set(LOSSES) | set(LOSSES.values())) & program.words:
        return
    for call in program.calls:
        if loss_of(project, program, call) is None or (given := prediction(call)) is None:
            continue
        if isinstance(given, ast.Call) and method(given) in _CUT and _goes_backward(program, call):
            note = f"The loss gets the result of {method(given)}(), through which no gradient flows."
            yield hit("detached_loss", program, call, note, weight=0.85)


def _rewrapped(program: Program, value: ast.Call) -> bool:
    full = program.called(value)
    given = value.args[0] if value.args else None
    if full in ("torch.tensor", "torch.Tensor", "torch.FloatTensor", "torch.autograd.Variable"):
        loss = given is not None and any("loss" in word.lower() for word in names_in(given))
        return loss and is_true(keyword(value, "requires_grad"))
    if method(value) == "requires_grad_" and isinstance(value.func, ast.Attribute):
        inner = value.func.value
        return isinstance(inner, ast.Call) and method(inner) in ("detach", "tensor") and bool(names_in(inner))
    return False


def _goes_backward(program: Program, call: ast.Call) -> bool:
    """Whether the result of a loss is what backward() is called on, directly or under one name."""
    parent = program.parents.get(call)
    if isinstance(parent, ast.Attribute) and parent.attr == "backward":
        return True
    if not isinstance(parent, ast.Assign):
        return False
    names = {plain(target) for target in parent.targets}
    scope = program.scope_of(call)
    return any(method(c) == "backward" and receiver(c) in names for c in scope.calls)


def inplace_on_leaf(program: Program, project: Project) -> Iterator[Hit]:
    """`w += ...`, `w[i] = ...` or `w.add_(...)` on a tensor made with requires_grad=True, outside of no_grad."""
    for scope in program.scopes:
        leaves = {
            name
            for name, value, _ in scope.bound
            if isinstance(value, ast.Call)
            and program.called(value).startswith("torch.")
            and is_true(keyword(value, "requires_grad"))
            and len(scope.values(name)) == 1
        }
        if not leaves:
            continue
        for node in scope.nodes:
            target = ""
            if isinstance(node, ast.AugAssign):
                target = plain(node.target.value if isinstance(node.target, ast.Subscript) else node.target)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                target = plain(node.targets[0].value)
            elif isinstance(node, ast.Call) and method(node).endswith("_") and not method(node).startswith("_"):
                target = receiver(node) if method(node) not in ("requires_grad_", "retain_grad_") else ""
            if target in leaves and not without_grad(program, node):
                note = f"`{target}` is a leaf that requires grad; it is changed in place outside of torch.no_grad()."
                yield hit("inplace_on_leaf", program, node, note, weight=0.9)


_NO_GRAD = ("no_grad", "inference_mode", "set_grad_enabled", "inference_context")


def without_grad(program: Program, node: ast.AST) -> bool:
    """Whether a node stands under torch.no_grad() or the like, by a `with` or by a decorator of its function."""
    for parent in program.above(node):
        if isinstance(parent, ast.With | ast.AsyncWith):
            if any(last(program.dotted(i.context_expr).removesuffix("()")) in _NO_GRAD for i in parent.items):
                return True
        elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            last(program.dotted(d).removesuffix("()")) in _NO_GRAD for d in parent.decorator_list
        ):
            return True
    return False


_PADS = ("max_length", "longest")


def labels_not_masked(program: Program, project: Project) -> Iterator[Hit]:
    """Labels that are a copy of padded input ids, with nothing set to -100: padding is learnt."""
    if not program.uses("transformers") or "DataCollatorForLanguageModeling" in program.words:
        return
    if any(isinstance(n, ast.Constant) and n.value == 100 for n in program.parents):
        return
    if {"DataCollatorForSeq2Seq", "ignore_index", "label_pad_token_id", "masked_fill"} & program.words:
        return
    for scope in program.scopes:
        padded = [
            c
            for c in scope.calls
            if (p := keyword(c, "padding")) is not None
            and isinstance(p, ast.Constant)
            and (p.value is True or p.value in _PADS)
        ]
        if not padded:
            continue
        for node in scope.nodes:
            if isinstance(node, ast.Assign) and _is_key(node.targets[0], "labels") and _copies_ids(node.value):
                note = "The labels are a copy of the padded input ids, and no label is -100: the loss counts padding."
                yield hit("labels_not_masked", program, node, note, padded[0], weight=0.8)


def _is_key(node: ast.expr, key: str) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == key


def _copies_ids(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and method(value) in ("clone", "copy", "deepcopy"):
        value = value.args[0] if value.args else value.func.value if isinstance(value.func, ast.Attribute) else value
    return _is_key(value, "input_ids") or (plain(value).endswith("input_ids") and bool(plain(value)))


def calls_backward(node: ast.AST) -> bool:
    return any(method(call) == "backward" for call in calls_in(node))
