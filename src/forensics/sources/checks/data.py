"""Samplers, loaders, workers and transforms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from forensics.sources.hits import Hit, hit
from forensics.sources.models import given
from forensics.sources.program import (
    FUNCTIONS,
    Program,
    Scope,
    argument,
    is_false,
    is_true,
    keyword,
    last,
    method,
    names_in,
    open_ended,
    plain,
    receiver,
    text_of,
    walk,
)
from forensics.sources.project import Project

# Trainers of these libraries call set_epoch themselves.
_CALLS_SET_EPOCH = ("lightning", "pytorch_lightning", "accelerate", "ignite", "composer", "torchtnt")
_EVALUATION = ("val", "test", "eval", "dev_", "valid")


def _for_evaluation(name: str) -> bool:
    return any(part in name.lower() for part in _EVALUATION)


def _target(program: Program, node: ast.AST) -> str:
    """The name that an expression's value gets, or the keyword it is given as."""
    for parent in program.above(node):
        if isinstance(parent, ast.Assign):
            return plain(parent.targets[0])
        if isinstance(parent, ast.keyword):
            return parent.arg or ""
        if isinstance(parent, ast.stmt):
            return ""
    return ""


def _loaders(program: Program) -> list[ast.Call]:
    return [c for c in program.calls if last(program.called(c)) == "DataLoader"]


def _has_workers(program: Program) -> bool | None:
    """Whether a loader of the program has worker processes; None where it has no loader."""
    loaders = _loaders(program)
    if not loaders:
        return None
    counts = [argument(c, 5, "num_workers") for c in loaders]
    return any(
        open_ended(c) if n is None else not (isinstance(n, ast.Constant) and n.value == 0)
        for c, n in zip(loaders, counts, strict=True)
    )


def set_epoch_missing(program: Program, project: Project) -> Iterator[Hit]:
    """A DistributedSampler that shuffles, and no set_epoch: every epoch has the same order."""
    if _sets_epoch(program) or any(program.uses(name) for name in _CALLS_SET_EPOCH):
        return
    if program.uses("transformers") and "Trainer" in program.words:
        return
    trains = "backward" in program.words
    if not trains and any(_sets_epoch(p) for p in project.programs):
        return
    if not any("epoch" in word.lower() or word == "ep" for word in program.words):
        return
    for call in program.calls:
        if last(program.called(call)) != "DistributedSampler" or open_ended(call):
            continue
        if not _shuffles(program, project, argument(call, 3, "shuffle")):
            continue
        if _for_evaluation(_target(program, call)) or _for_evaluation(" ".join(names_in(call))):
            continue
        note = "This sampler shuffles by its epoch, which nothing sets: every epoch has the order of the first."
        yield hit("set_epoch_missing", program, call, note, weight=0.85 if trains else 0.6)


def _shuffles(program: Program, project: Project, shuffle: ast.expr | None) -> bool:
    """Whether a sampler shuffles: by default, as told, or as one of the calls tells the function that makes it."""
    if isinstance(shuffle, ast.Name) and (scope := program.scope_of(shuffle)).takes(shuffle.id):
        return not scope.values(shuffle.id) and any(is_true(v) for _, v in given(project, program, scope, shuffle.id))
    return shuffle is None or is_true(shuffle)


# Words of `val_loader.sampler`, `self.testloader`: those of "interval" or "retrieval" are none.
_OF_EVALUATION = re.compile(
    r"(?:^|[._])(?:val|valid|validation|test|eval|evaluation|dev)(?:[._]|loader|sampler|data|set|$)"
)


def _sets_epoch(program: Program) -> bool:
    """Whether something sets the epoch of a sampler that may be the training's, or defines how to."""
    if "set_epoch" not in program.words:
        return False
    calls = [c for c in program.calls if method(c) == "set_epoch"]
    named = [n for n in program.nodes if isinstance(n, ast.Attribute) and n.attr == "set_epoch"]
    if not calls or len(named) > len(calls) or "set_epoch" in program.functions:
        return True
    return not all(_OF_EVALUATION.search(receiver(c).lower()) for c in calls)


def shuffle_with_sampler(program: Program, project: Project) -> Iterator[Hit]:
    """DataLoader(shuffle=True, sampler=...): options that exclude each other."""
    for call in _loaders(program):
        sampler = argument(call, 3, "sampler") or argument(call, 4, "batch_sampler")
        if not is_true(argument(call, 2, "shuffle")) or sampler is None or _may_be_none(program, sampler):
            continue
        note = "shuffle=True and a sampler exclude each other: the loader raises when it is made."
        yield hit("shuffle_with_sampler", program, call, note, weight=0.95)


def _may_be_none(program: Program, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return False
    if isinstance(node, ast.Name):
        values = program.scope_of(node).values(node.id)
        return not values or not all(isinstance(v, ast.Call) for v in values)
    return True


def _datasets(program: Program) -> list[ast.ClassDef]:
    return [node for node in program.classes.values() if any(base.endswith("Dataset") for base in program.bases(node))]


def _methods(program: Program, owner: ast.ClassDef) -> dict[str, Scope]:
    return {s.name: s for s in program.scopes if s.owner is owner}


def _drawn_by(methods: Mapping[str, Scope]) -> list[Scope]:
    """The methods that give a sample, and those of the same object that they call."""
    first = [methods[name] for name in ("__getitem__", "__iter__") if name in methods]
    called = {method(c) for s in first for c in s.calls if receiver(c) == "self"} - {"__init__"}
    return [*first, *(methods[name] for name in sorted(called & methods.keys()) if methods[name] not in first)]


def numpy_generator_in_dataset(program: Program, project: Project) -> Iterator[Hit]:
    """A numpy generator made in Dataset.__init__ and drawn from in __getitem__: each worker gets a copy of it.

    Since torch 1.9 workers seed numpy's global state themselves, so that its functions are not reported.
    """
    if _has_workers(program) is False or {"worker_init_fn", "get_worker_info"} & program.words:
        return
    for owner in _datasets(program):
        methods = _methods(program, owner)
        init = methods.get("__init__")
        if init is None:
            continue
        for name, value, _ in init.bound:
            full = program.called(value) if isinstance(value, ast.Call) else ""
            if not full.endswith(("random.default_rng", "random.RandomState", "random.Generator")):
                continue
            if not name.startswith("self.") or "numpy" not in full:
                continue
            uses = [
                node
                for other in _drawn_by(methods)
                for node in other.nodes
                if isinstance(node, ast.Attribute) and plain(node) == name
            ]
            if uses:
                note = f"`{name}` is copied into every worker: all of them draw the same numbers, in every epoch."
                weight = 0.8 if _has_workers(program) else 0.6
                yield hit("numpy_generator_in_dataset", program, value, note, uses[0], weight=weight)


def worker_seed_constant(program: Program, project: Project) -> Iterator[Hit]:
    """A worker_init_fn that gives every worker the same seed."""
    for call in _loaders(program):
        given = keyword(call, "worker_init_fn")
        if given is None:
            continue
        if isinstance(given, ast.Lambda):
            body: list[ast.AST] = [given.body]
            arguments = {a.arg for a in given.args.args}
        else:
            found = [s for s in program.functions.get(last(plain(given)), []) if s.owner is None]
            if len(found) != 1 or not isinstance(found[0].node, FUNCTIONS):
                continue
            body = list(found[0].nodes)
            arguments = {a.arg for a in found[0].node.args.args}
        words = {w for part in body for w in names_in(part)}
        if words & {"initial_seed", "get_worker_info", "worker_info", "getpid", "urandom", "time"}:
            continue
        seeds = [c for part in body for c in walk(part) if isinstance(c, ast.Call) and method(c) == "seed" and c.args]
        if seeds and not (arguments & words) and all(not isinstance(s.args[0], ast.Call) for s in seeds):
            note = "Every worker gets the same seed here: they all draw the same numbers."
            yield hit("worker_seed_constant", program, seeds[0], note, call, weight=0.85)


def iterable_not_split(program: Program, project: Project) -> Iterator[Hit]:
    """An IterableDataset that does not ask which worker it is in, in a loader with several of them."""
    if {"get_worker_info", "worker_id", "worker_info", "split_by_worker", "worker_init_fn"} & program.words:
        return
    for owner in _datasets(program):
        if "IterableDataset" not in program.bases(owner) or "__iter__" not in _methods(program, owner):
            continue
        for call in _loaders(program):
            workers = argument(call, 5, "num_workers")
            constant = workers.value if isinstance(workers, ast.Constant) else None
            if workers is None or (isinstance(constant, int) and constant < 2):
                continue
            if _is_instance(program, argument(call, 0, "dataset"), owner.name):
                note = f"{owner.name}.__iter__ is the same in every worker: each item comes once from each of them."
                iterate = _methods(program, owner)["__iter__"].node
                yield hit(
                    "iterable_not_split", program, call, note, iterate, weight=0.8 if constant is not None else 0.6
                )


def _is_instance(program: Program, node: ast.expr | None, name: str) -> bool:
    if isinstance(node, ast.Call):
        return method(node) == name and isinstance(node.func, ast.Name)
    if isinstance(node, ast.Name):
        values = program.scope_of(node).values(node.id)
        return len(values) == 1 and isinstance(values[0], ast.Call) and _is_instance(program, values[0], name)
    return False


def cuda_in_worker(program: Program, project: Project) -> Iterator[Hit]:
    """Tensors moved to the GPU in a dataset or collate function that worker processes run."""
    if "spawn" in program.texts or "set_start_method" in program.words or not _has_workers(program):
        return
    names = ("__getitem__", "__iter__")
    scopes = [s for owner in _datasets(program) for name, s in _methods(program, owner).items() if name in names]
    for call in _loaders(program):
        given = keyword(call, "collate_fn")
        if given is not None and plain(given):
            scopes += [s for s in program.functions.get(last(plain(given)), []) if s.owner is None]
    for scope in dict.fromkeys(scopes):
        for call in scope.calls:
            device = argument(call, 0, "device") if method(call) == "to" else keyword(call, "device")
            if (method(call) == "cuda" and receiver(call) != "torch") or (text_of(device) or "").startswith("cuda"):
                note = "This runs in the loader's worker processes, where CUDA cannot be used after a fork."
                yield hit("cuda_in_worker", program, call, note, span=scope.node, weight=0.8)
                break


def pin_memory_custom_batch(program: Program, project: Project) -> Iterator[Hit]:
    """pin_memory=True for batches of a class of one's own that has no pin_memory(): they are left as they are."""
    for call in _loaders(program):
        given = keyword(call, "collate_fn")
        if not is_true(keyword(call, "pin_memory")) or given is None:
            continue
        name = last(plain(given))
        made: list[tuple[ast.AST, str]] = []
        if isinstance(given, ast.Lambda) and isinstance(given.body, ast.Call) and isinstance(given.body.func, ast.Name):
            made = [(given.body, method(given.body))]
        if name in program.classes:
            made = [(program.classes[name], name)]
        for scope in program.functions.get(name, []):
            made += [
                (n, method(n.value))
                for n in scope.nodes
                if isinstance(n, ast.Return) and isinstance(n.value, ast.Call) and isinstance(n.value.func, ast.Name)
            ]
        for node, kind in made:
            owner = program.classes.get(kind)
            if (
                owner is None
                or owner.bases
                or "pin_memory" in _methods(program, owner)
                or "__call__" in _methods(program, owner)
            ):
                continue
            note = f"The loader does not know how to pin a {kind}: without a pin_memory() method it is not pinned."
            yield hit("pin_memory_custom_batch", program, call, note, node, owner, weight=0.8)


def images_in_bgr(program: Program, project: Project) -> Iterator[Hit]:
    """Images or frames of cv2, whose channels are B, G, R, feeding a network with ImageNet's statistics or weights."""
    if not program.uses("cv2") or {"cvtColor", "COLOR_BGR2RGB"} & program.words:
        return
    if any("bgr" in word.lower() for word in program.words | program.texts):
        return
    if any(isinstance(n, ast.Slice) and n.step is not None for n in program.parents):
        return
    imagenet = any(isinstance(n, ast.Constant) and n.value in (0.485, 123.675) for n in program.parents)
    pretrained = any(
        program.called(c) == "timm.create_model" and is_true(argument(c, 1, "pretrained")) for c in program.calls
    )
    zoo = any(name.startswith("torchvision.models") for name in program.imports.values())
    if not (imagenet or pretrained or zoo):
        return
    films = {
        name
        for scope in program.scopes
        for name, value, _ in scope.bound
        if isinstance(value, ast.Call) and program.called(value) == "cv2.VideoCapture"
    }
    for call in program.calls:
        if method(call) == "read" and receiver(call) in films:
            note = "The frames of cv2.VideoCapture are B, G, R; the network's statistics (or weights) are for R, G, B."
            yield hit("images_in_bgr", program, call, note, weight=0.7)
            return
        if program.called(call) == "cv2.imread" and len(call.args) == 1 and not call.keywords:
            target = _target(program, call).lower()
            if any(word in target for word in ("mask", "label", "depth", "gray", "gt")):
                continue
            note = "cv2.imread gives B, G, R; the network's statistics (or weights) are for R, G, B."
            yield hit("images_in_bgr", program, call, note, weight=0.7)
            return


_RANDOM = ("ColorJitter", "AutoAugment", "TrivialAugmentWide", "RandAugment", "AugMix", "GaussianBlur")


def _steps(program: Program, value: ast.expr | None) -> list[ast.Call] | None:
    """The transforms of a Compose; None for anything else."""
    if not isinstance(value, ast.Call) or last(program.called(value)) != "Compose" or not value.args:
        return None
    given = value.args[0]
    if not isinstance(given, ast.List | ast.Tuple) or not all(isinstance(e, ast.Call) for e in given.elts):
        return None
    return [e for e in given.elts if isinstance(e, ast.Call)]


def _is_random(call: ast.Call) -> bool:
    return method(call).startswith("Random") or method(call) in _RANDOM


def augmentation_at_evaluation(program: Program, project: Project) -> Iterator[Hit]:
    """One transform with random steps for the training set and for the validation set."""
    for scope in program.scopes:
        random = {
            name: step
            for name, value, _ in scope.bound
            for step in (_steps(program, value) or [])
            if _is_random(step) and len(scope.values(name)) == 1
        }
        if not random:
            continue
        used: dict[str, dict[bool, ast.Call]] = {}
        for call in scope.calls:
            for word in {plain(a) for a in (*call.args, *(k.value for k in call.keywords))} & random.keys():
                held_out = _for_evaluation(_target(program, call)) or is_false(keyword(call, "train"))
                used.setdefault(word, {}).setdefault(held_out, call)
        for name, calls in used.items():
            if len(calls) == 2:
                note = f"`{name}` has random steps ({method(random[name])}) and is used for evaluation as well."
                yield hit("augmentation_at_evaluation", program, calls[True], note, random[name], weight=0.8)


def normalisation_differs(program: Program, project: Project) -> Iterator[Hit]:
    """Training and validation transforms that normalise by different constants, or only one of which does."""
    found: dict[bool, list[tuple[ast.Call, str | None]]] = {True: [], False: []}
    for scope in program.scopes:
        for node in scope.nodes:
            steps = _steps(program, node) if isinstance(node, ast.Call) else None
            if steps is None or (where := _side(program, node)) is None:
                continue
            means = [ast.dump(s, include_attributes=False) for s in steps if method(s) == "Normalize"]
            tensors = any("ToTensor" in method(s) or method(s) in ("PILToTensor", "ConvertImageDtype") for s in steps)
            if means or tensors:
                found[where].append((steps[0], _constants(means[0]) if means else None))
    training, held_out = found[False], found[True]
    if len(training) != 1 or len(held_out) != 1 or training[0][1] == held_out[0][1]:
        return
    one_only = None in (training[0][1], held_out[0][1])
    note = "Only one of the training and the validation transform normalises." if one_only else (
        "Training and validation images are normalised by different constants."
    )  # fmt: skip
    yield hit("normalisation_differs", program, held_out[0][0], note, training[0][0], weight=0.75)


def _constants(dump: str) -> str:
    """The arguments of a Normalize, however they are passed."""
    return "".join(part for part in dump.split("Constant(")[1:])


def _side(program: Program, node: ast.AST) -> bool | None:
    """True for what is named after evaluation, False for training, None otherwise; by name or key of a dict."""
    for parent in program.above(node):
        if isinstance(parent, ast.Assign):
            name = plain(parent.targets[0]).lower()
            break
        if isinstance(parent, ast.Dict):
            keys = [text_of(k) for k, v in zip(parent.keys, parent.values, strict=True) if v is node]
            name = (keys[0] if keys and keys[0] else "").lower()
            break
        if isinstance(parent, ast.stmt):
            return None
    else:
        return None
    return True if _for_evaluation(name) else False if "train" in name else None


def normalize_before_tensor(program: Program, project: Project) -> Iterator[Hit]:
    """torchvision's Normalize before ToTensor: it takes tensors only."""
    for node in program.calls:
        steps = _steps(program, node) or []
        names = [method(s) for s in steps]
        if "Normalize" in names and "ToTensor" in names and names.index("Normalize") < names.index("ToTensor"):
            step = steps[names.index("Normalize")]
            if program.called(step).startswith("torchvision"):
                note = "Normalize takes tensors, and stands before ToTensor."
                yield hit("normalize_before_tensor", program, step, note, weight=0.95)


_FITTED = frozenset(
    "StandardScaler MinMaxScaler RobustScaler MaxAbsScaler Normalizer PCA SimpleImputer KNNImputer QuantileTransformer"
    " PowerTransformer SelectKBest TruncatedSVD TfidfVectorizer CountVectorizer TargetEncoder".split()
)


def fitted_before_split(program: Program, project: Project) -> Iterator[Hit]:
    """A scaler or selector fitted on all rows before they are split into training and test."""
    if not program.uses("sklearn") or "train_test_split" not in program.words:
        return
    for scope in program.scopes:
        made = {n for n, v, _ in scope.bound if isinstance(v, ast.Call) and last(program.called(v)) in _FITTED}
        fits = [
            c
            for c in scope.calls
            if method(c) in ("fit", "fit_transform")
            and c.args
            and (
                receiver(c) in made
                or last(program.called(c).removesuffix("." + method(c)).removesuffix("()")) in _FITTED
            )
        ]
        for split in (c for c in scope.calls if method(c) == "train_test_split"):
            for fit in fits:
                if fit.lineno >= split.lineno:
                    continue
                data = {plain(fit.args[0]), _target(program, fit)} - {""}
                if data & {plain(a) for a in split.args}:
                    note = "This is fitted on all rows, before the test rows are split off: they leak into training."
                    yield hit("fitted_before_split", program, fit, note, split, weight=0.75)
                    break
