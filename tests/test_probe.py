"""The probe in real training loops on the CPU: what it writes, and what `analyze` makes of it."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import math
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Identity, Kind, Role, Source, Verdict
from forensics.parsers import tensorboard as tb
from forensics.probe.incidents import Sentinel, StepNumbers
from forensics.signatures.schema import load_catalogue

torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard")
from torch import nn  # noqa: E402

from forensics.probe import Probe as Budgeted  # noqa: E402
from forensics.probe.watch import Watch  # noqa: E402

CATALOGUE = load_catalogue()
Probe = functools.partial(Budgeted, budget=None)  # watches the same on a machine of any speed


@pytest.fixture(autouse=True)
def _reproducible() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    yield


def model_of(width: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))


def batch(step: int, rows: int = 32) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(rows, 8, generator=generator)
    return x, x[:, :1] * 2 - x[:, 1:2]


Change = Callable[[int, Any, Any], tuple[Any, Any]]


def train(
    folder: Path,
    model: nn.Module,
    optimizer: Any,
    *,
    steps: int = 100,
    change: Change = lambda step, x, y: (x, y),
    after: Callable[[int], None] = lambda step: None,
    **options: Any,
) -> None:
    with Probe(model, optimizer, folder, **{"every": 5, **options}) as probe:
        for step in range(steps):
            x, y = change(step, *batch(step))
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            after(step)
            probe.step(loss, sample_ids=range(step * 32, step * 32 + 32))


def series(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.rglob("events*")):
        for step, _, tag, value in tb.read_events(path).scalars.iter_rows():
            found.setdefault(tag, []).append((step, value))
    return found


def diagnose(folder: Path) -> Diagnosis:
    return analyse([str(folder)], Options(threads=1), CATALOGUE)


def roots(folder: Path) -> list[str]:
    return [finding.name for finding in diagnose(folder).of_role(Role.ROOT)]


# --- what is written -------------------------------------------------------------------------------------------------


def test_a_healthy_run(tmp_path: Path) -> None:
    model = model_of()
    train(tmp_path, model, torch.optim.AdamW(model.parameters(), lr=3e-3), steps=150)
    found = series(tmp_path)
    assert [step for step, _ in found["probe/loss"]] == list(range(1, 151))
    assert [step for step, _ in found["probe/update_ratio"]] == [1, *range(5, 151, 5)]
    assert {name for name in found if name.startswith("probe/update_ratio/")} == {
        f"probe/update_ratio/{n}" for n in (0, 2, 4)
    }
    assert {name for name in found if name.startswith("probe/dead_units/")} == {f"probe/dead_units/{n}" for n in (1, 3)}
    assert not [name for name in found if "nonfinite" in name]
    assert found["probe/lr/group0"][0][1] == pytest.approx(3e-3)
    assert set(found["probe/optimizer_holds"]) == {(step, 1.0) for step in (1, *range(5, 151, 5))}
    assert found["probe/last_step"] == [(150, 150.0)]
    diagnosis = diagnose(tmp_path)
    assert (diagnosis.verdict, diagnosis.of_role(Role.ROOT)) == (Verdict.HEALTHY, ())


def test_ratio_is_that_of_the_update(tmp_path: Path) -> None:
    model = nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with Probe(model, optimizer, tmp_path, every=1) as probe:
        before = model.weight.detach().clone()
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        optimizer.step()
        probe.step(loss)
        expected = ((model.weight - before).norm() / before.norm()).item()
        norm = model.weight.grad.norm().item()
    found = series(tmp_path)
    assert found["probe/update_ratio"] == [(1, pytest.approx(expected, rel=1e-5))]
    assert found["probe/grad_norm"] == [(1, pytest.approx(norm, rel=1e-5))]


def test_ratio_of_a_sample_of_a_large_parameter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forensics.probe import updates

    monkeypatch.setattr(updates, "SAMPLE", 1000)
    model = nn.Linear(200, 100)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Probe(model, optimizer, tmp_path, every=1) as probe:
        before = model.weight.detach().clone()
        loss = model(torch.randn(64, 200)).square().mean()
        loss.backward()
        optimizer.step()
        probe.step(loss)
        expected = ((model.weight - before).norm() / before.norm()).item()
    assert series(tmp_path)["probe/update_ratio/model"][0][1] == pytest.approx(expected, rel=0.2)


def test_hooks_go_when_it_closes(tmp_path: Path) -> None:
    model, x = model_of(), torch.ones(2, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(KeyError), Probe(model, optimizer, tmp_path) as probe:
        model(x)
        raise KeyError("the loop's own")
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    probe.close()
    probe.step(1.0)  # both do nothing any more


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError, None])
def test_only_a_loop_that_ends_by_itself_has_a_last_step(tmp_path: Path, stop: type[BaseException] | None) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with contextlib.suppress(KeyboardInterrupt, ValueError), Probe(model, optimizer, tmp_path) as probe:
        for _ in range(3):
            probe.step(torch.tensor([1.0, 3.0]))  # a loss for each sample counts by its mean
        if stop is not None:
            raise stop
    found = series(tmp_path)
    assert found["probe/loss"] == [(1, 2.0), (2, 2.0), (3, 2.0)]
    assert found.get("probe/last_step") == ([(3, 3.0)] if stop is None else None)


def test_evaluation_and_accumulation(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Probe(model, optimizer, tmp_path, every=2) as probe:
        for update in range(6):
            for micro in range(4):
                x, y = batch(update * 4 + micro)
                loss = nn.functional.mse_loss(model(x), y)
                (loss / 4).backward()
                last = micro == 3
                if last:
                    optimizer.step()
                    optimizer.zero_grad()
                probe.step(float(micro), update=last)
            with torch.no_grad():
                model(torch.full((4, 8), math.nan))  # an evaluation is not watched
    found = series(tmp_path)
    assert found["probe/loss"] == [(n, 1.5) for n in range(1, 7)]  # the mean of 0, 1, 2, 3
    assert len(found["probe/update_ratio"]) == 4  # updates 1, 2, 4, 6
    assert not [name for name in found if "nonfinite" in name]


def test_loss_scale_and_skipped_steps(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=1000)
    with Probe(model, optimizer, tmp_path, scaler=scaler, every=10) as probe:
        for step in range(40):
            x, y = batch(step)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if step in (3, 4, 25):
                model[0].weight.grad[0, 0] = math.inf
            scaler.step(optimizer)
            scaler.update()
            probe.step(loss)
    found = series(tmp_path)
    assert found["probe/skipped_total"] == [(1, 0), (10, 2), (20, 2), (30, 3), (40, 3)]
    assert found["probe/loss_scale"] == [(1, 2**16), (10, 2**14), (20, 2**14), (30, 2**13), (40, 2**13)]
    assert not [name for name in found if "nonfinite" in name]  # a scaler's skipped step is no incident
    assert roots(tmp_path) == []


def test_resumed_run_says_from_where(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(tmp_path, model, optimizer, steps=5, start_step=40)
    assert [step for step, _ in series(tmp_path)["probe/loss"]] == [41, 42, 43, 44, 45]
    (path,) = tmp_path.iterdir()
    assert [s.step for s in tb.read_events(path).sessions] == [40]


def test_nothing_waits_for_the_device_between_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Readings(TorchDispatchMode):
        """Counts the operations that bring a number of a tensor to the host."""

        count = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.count += function.overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.equal)
            return function(*args, **(kwargs or {}))

    # A loss on the CPU is at hand; this is about the rest.
    monkeypatch.setattr("forensics.probe.notice.Notice.add", lambda self, loss: None)
    listing = torch.Tensor.tolist

    def counted(tensor: Any) -> Any:
        readings.count += 1
        return listing(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", counted)
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    read = []
    with Readings() as readings, Probe(model, optimizer, tmp_path, every=4) as probe:
        for step in range(8):
            x, y = batch(step)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            before = readings.count
            probe.step(loss)
            read.append(readings.count - before)
        assert readings.count == sum(read)  # hooks read nothing
    assert [n > 0 for n in read] == [True, False, False, True, False, False, False, True]


def test_wrong_options(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for options in ({"every": 0}, {"sentinel": "sometimes"}, {"budget": 0.0}, {"budget": math.nan}):
        with pytest.raises(ValueError, match="must be"):
            Probe(model, optimizer, tmp_path, **options)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with pytest.warns(RuntimeWarning, match="stops recording"):
        train(tmp_path / "file" / "logs", model, optimizer, steps=3)  # trains on


def test_compiled_module_is_watched_as_a_whole(tmp_path: Path) -> None:
    model = model_of()
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(tmp_path, compiled, optimizer, steps=6)
    found = series(tmp_path)
    assert {"probe/update_ratio/0", "probe/update_ratio/4", "probe/loss"} <= found.keys()
    for module in model.modules():
        assert not module._forward_hooks


# --- what analyze makes of it -----------------------------------------------------------------------------------------


class Divide(nn.Module):
    """Divides by something that is zero in one step."""

    def __init__(self) -> None:
        super().__init__()
        self.by = 1.0

    def forward(self, x: Any) -> Any:
        return x / self.by


def test_nan_in_forward_names_module_and_step(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), Divide(), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def change(step: int, x: Any, y: Any) -> tuple[Any, Any]:
        model[1].by = 0.0 if step == 56 else 1.0
        return x, y

    train(tmp_path, model, optimizer, change=change, every=25)
    (root,) = diagnose(tmp_path).of_role(Role.ROOT)
    assert (root.name, root.step, root.captures["module"]) == ("nan-in-forward", 57, "1")
    found = series(tmp_path)
    assert [step for step, _ in found["probe/nonfinite/output/1"]] == [57]
    (path,) = tmp_path.iterdir()
    ids = {step: text for tag, step, text in tb.read_events(path).text if tag.startswith("probe/sample_ids")}
    assert ids[57].startswith("1792, 1793, ")


class Block(nn.Module):
    """Computes behind its last child: a sum, and something in place."""

    def __init__(self, *, bad: str = "") -> None:
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.out = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
        self.bad, self.now = bad, False

    def forward(self, x: Any) -> Any:
        h = self.out(self.fc(x))
        by = 0.0 if self.now else 1.0
        if self.bad == "behind":
            h = h / by
        if self.bad == "in place":
            h.div_(by)
            return h
        return x + h


class Wrapped(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        return self.module(x)


@pytest.mark.parametrize("bad", ["behind", "in place"])
def test_nan_behind_the_children_of_a_module_names_the_module(tmp_path: Path, bad: str) -> None:
    blocks = nn.Sequential(*(Block(bad=bad if i == 1 else "") for i in range(3)))
    model = Wrapped(nn.Sequential(nn.Linear(8, 16), blocks, nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def change(step: int, x: Any, y: Any) -> tuple[Any, Any]:
        blocks[1].now = step == 56
        return x, y

    train(tmp_path, model, optimizer, change=change, every=25)
    (root,) = diagnose(tmp_path).of_role(Role.ROOT)
    assert (root.name, root.step, root.captures["module"]) == ("nan-in-forward", 57, "1.1")


def test_what_a_module_only_hands_on_is_summed_once() -> None:
    inner = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    model = Wrapped(inner)
    watch = Watch(model, outputs=True, dead_units=False, most=100)
    watch.arm(None, dead=False)
    model(torch.ones(4, 8))
    assert watch.names == ["0", "1.0", "1.1"]
    watch.close()
    block = Watch(Block(), outputs=True, dead_units=False, most=100)
    block.arm(None, dead=False)
    block._model(torch.ones(4, 16))
    assert block.names == ["fc", "out.0", "out.1", "model"]


def test_the_loss_that_a_model_puts_out_is_none_of_its_outputs() -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            logits = self.fc(x)
            return {"loss": logits.mean(), "logits": logits * 2}

    watch = Watch(WithLoss(), outputs=True, dead_units=False, most=100)
    watch.arm(None, dead=False)
    out = watch._model(torch.ones(4, 8))
    numbers = watch.take().numbers()
    assert watch.names == ["fc", "model"] and numbers[1] == pytest.approx(out["logits"].sum().item())


def test_modules_without_children_are_watched_before_the_others() -> None:
    model = nn.Sequential(*(Block() for _ in range(2)))
    few = Watch(model, outputs=True, dead_units=False, most=7)
    assert [name for name, *_ in few._watched] == ["0.fc", "0.out.0", "0.out.1", "1.fc", "1.out.0", "1.out.1", "0.out"]


class Root(torch.autograd.Function):
    """Finite forward, and an infinite derivative."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * math.inf


class Sqrt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.bad = False

    def forward(self, x: Any) -> Any:
        return Root.apply(self.linear(x)) if self.bad else self.linear(x)


def test_nan_in_backward_names_module_and_step(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), Sqrt(), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def change(step: int, x: Any, y: Any) -> tuple[Any, Any]:
        model[2].bad = step == 33
        return x, y

    train(tmp_path, model, optimizer, change=change)
    (root,) = diagnose(tmp_path).of_role(Role.ROOT)
    assert (root.name, root.step, root.captures["module"]) == ("nan-in-backward", 34, "2.linear")


def test_bad_sample(tmp_path: Path) -> None:
    model = model_of()

    def change(step: int, x: Any, y: Any) -> tuple[Any, Any]:
        if step == 41:
            x[3, 2] = math.nan
        return x, y

    train(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.01), change=change)
    found = diagnose(tmp_path)
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.step) == ("nan-in-data", 42)
    assert any("the samples of step 42: 1312 to 1343" in note for note in root.notes)
    told = [fact.value for fact in found.environment if fact.name == "probe/sample_ids"]
    assert told[0].startswith("step 42: 1312, 1313, ") and all(text.startswith("step ") for text in told)


def test_a_loss_without_a_module_says_how_to_find_it(tmp_path: Path) -> None:
    """Nothing is watched between looks here, and no other rank is there to be compared with."""
    model = model_of()

    def change(step: int, x: Any, y: Any) -> tuple[Any, Any]:
        return (x * math.nan if step == 41 else x), y

    train(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.01), change=change, every=100, sentinel="off")
    found = diagnose(tmp_path)
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.step) == ("nan-loss", 42)
    assert any('sentinel="full"' in note and "samples of step 42: 1312 to 1343" in note for note in root.notes)
    assert "nan-in-data" not in {item.name for item in found.ruled_out}
    assert any("nan-in-data" in item.what and 'sentinel="full"' in item.how for item in found.missing_evidence)


@pytest.mark.parametrize("first", [0, 1])
def test_a_log_beside_the_probe_takes_nothing_of_what_it_tells(tmp_path: Path, first: int) -> None:
    """A log has the same onset, and its records stand before those of the probe; loops often count from 0."""
    model = model_of()

    def change(step: int, x: Any, y: Any) -> tuple[Any, Any]:
        return (x * math.nan if step >= 41 else x), y

    train(tmp_path / "probe", model, torch.optim.SGD(model.parameters(), lr=0.01), change=change, sentinel="off")
    losses = series(tmp_path / "probe")["probe/loss"]
    lines = [f"step {step - 1 + first}: loss {loss:.6f}" for step, loss in losses]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    root, *_ = diagnose(tmp_path).of_role(Role.ROOT)
    assert (root.name, root.step) == ("nan-loss", 41 + first)
    said = " ".join(root.notes)
    assert 'sentinel="full"' in said and "the samples of step 42: 1312 to 1343" in said
    assert ("its step 41 is update 42 of the probe" in said) == (first == 0)


def test_too_few_looks_are_told(tmp_path: Path) -> None:
    model = model_of()
    with torch.no_grad():
        model[2].bias.fill_(-100.0)
    train(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.01), steps=130, every=100)
    found = diagnose(tmp_path)
    assert found.of_role(Role.ROOT) == ()
    (item,) = found.missing_evidence
    assert "looked at the model 2 times" in item.what and "dead units (5 looks)" in item.what
    assert "over 90 % of the units of module 3" in item.what


def test_units_that_are_dead_from_the_start_do_not_rise(tmp_path: Path) -> None:
    model = model_of()
    with torch.no_grad():
        model[2].bias.fill_(-100.0)
    train(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.01))
    found = diagnose(tmp_path)
    (dead,) = [f for f in found.findings if f.name == "dead-units"]
    assert any("3: 100 % of its units are zero for the whole batch, in all 21 records" in note for note in dead.notes)
    assert not any("looked at the model" in item.what for item in found.missing_evidence)


def test_loop_that_raises_at_a_bad_loss(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), Divide(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with contextlib.suppress(ArithmeticError), Probe(model, optimizer, tmp_path, every=50) as probe:
        for step in range(80):
            model[1].by = 0.0 if step == 60 else 1.0
            x, y = batch(step)
            loss = nn.functional.mse_loss(model(x), y)
            if not torch.isfinite(loss):
                raise ArithmeticError("the loss is not finite")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            probe.step(loss)
    found = series(tmp_path)
    assert [step for step, _ in found["probe/nonfinite/output/1"]] == [61]
    assert "probe/last_step" not in found
    assert roots(tmp_path) == ["nan-in-forward"]


def test_a_guarded_step_is_no_failure(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), Divide(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Probe(model, optimizer, tmp_path, every=10) as probe:
        for step in range(80):
            model[1].by = 0.0 if step == 60 else 1.0
            x, y = batch(step)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            if torch.isfinite(loss):
                loss.backward()
                optimizer.step()
            probe.step(loss)
    assert [step for step, _ in series(tmp_path)["probe/nonfinite/output/1"]] == [61]
    assert roots(tmp_path) == []


def test_dead_units(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def after(step: int) -> None:
        if step == 60:
            with torch.no_grad():
                model[0].bias.fill_(-100.0)  # as one update that is far too large does

    train(tmp_path, model, optimizer, after=after, steps=120)
    names = {finding.name: finding for finding in diagnose(tmp_path).findings}
    assert names["dead-units"].role is Role.ROOT
    assert names["dead-units"].step == 65
    assert names["dead-units"].captures["module"] == "1"


def tanh_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def test_updates_too_large(tmp_path: Path) -> None:
    model = tanh_model()

    def after(step: int) -> None:
        with torch.no_grad():  # keeps the weights from outgrowing the updates
            for p in model.parameters():
                p.clamp_(-1, 1)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.0, 0.9))
    train(tmp_path, model, optimizer, steps=150, after=after)
    assert roots(tmp_path) == ["learning-rate-too-high"]


def test_large_updates_that_learn_are_fine(tmp_path: Path) -> None:
    model = tanh_model()
    train(tmp_path, model, torch.optim.Adam(model.parameters(), lr=0.1), steps=150)
    assert roots(tmp_path) == []


def test_updates_too_small(tmp_path: Path) -> None:
    model = model_of()
    train(tmp_path, model, torch.optim.Adam(model.parameters(), lr=1e-8), steps=100)
    assert roots(tmp_path) == ["learning-rate-too-low"]


def test_optimizer_of_another_model(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.01)
    train(tmp_path, model, optimizer, steps=60)
    assert roots(tmp_path) == ["weights-not-updated"]


def test_layer_whose_updates_are_rounded_away(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = {}

    def after(step: int) -> None:
        with torch.no_grad():
            for name, p in model[2].named_parameters():
                p.copy_(kept.setdefault(name, p.clone()))

    for name, p in model[2].named_parameters():
        kept[name] = p.detach().clone()
    # What rounding does, exactly: the update leaves the weights as they are.
    optimizer.register_step_post_hook(lambda *_: after(0))
    train(tmp_path, model, optimizer, steps=60)
    (root,) = diagnose(tmp_path).of_role(Role.ROOT)
    assert (root.name, root.captures["module"]) == ("layer-not-updated", "2")


def test_rate_is_not_that_of_the_schedule(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    other = torch.optim.SGD(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(other, 100)  # of an optimizer that does not step

    def after(step: int) -> None:
        other.step()
        scheduler.step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other, "step", lambda: None)
        train(tmp_path, model, optimizer, after=after, scheduler=scheduler)
    assert roots(tmp_path) == ["lr-not-as-scheduled"]


@pytest.mark.parametrize("kind", ["scheduler", "function"])
def test_rate_is_that_of_the_schedule(tmp_path: Path, kind: str) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / 20)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    given = scheduler if kind == "scheduler" else lambda step: 0.02 * factor(step)
    train(tmp_path, model, optimizer, after=lambda step: scheduler.step(), scheduler=given)
    assert series(tmp_path)["probe/scheduled_lr/group0"]
    assert roots(tmp_path) == []


def test_logged_rate_that_is_not_the_one_in_use(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    with SummaryWriter(str(tmp_path / "own")) as writer:

        def after(step: int) -> None:
            scheduler.step()
            writer.add_scalar("train/lr", 0.02, step + 1)

        train(tmp_path / "probe", model, optimizer, after=after)
    diagnosis = diagnose(tmp_path)
    assert diagnosis.of_role(Role.ROOT) == ()
    assert "logged-lr-stale" in [finding.name for finding in diagnosis.of_role(Role.CONTEXT)]


def test_histograms_of_a_dying_layer(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(40):
            writer.add_scalar("train/loss", 1.0 + 1.0 / (1 + step), step)
            alive = torch.relu(torch.randn(500))
            writer.add_histogram("activations/relu1", alive, step)
            writer.add_histogram("activations/relu2", torch.zeros(500) if step > 25 else alive, step)
            writer.add_histogram("gradients/relu2", torch.zeros(500), step)
            writer.add_histogram("weights/fc", torch.randn(500) * (1e-4 if step > 20 else 1.0), step)
            writer.add_histogram("weights/other", torch.randn(500), step)
    found = {f.name: f for f in diagnose(tmp_path).findings}
    assert (found["dead-units"].captures["module"], found["dead-units"].step) == ("activations/relu2", 26)
    assert found["distribution-collapsed"].step == 21
    assert "weights/fc" in found["distribution-collapsed"].notes[0]
    assert "weights/other" not in found["distribution-collapsed"].notes[0]


def test_resume_that_goes_back(tmp_path: Path) -> None:
    """Two files in one folder: the second goes on from before the end of the first, and replays the warm-up."""
    for start, steps in ((0, 60), (50, 60)):
        torch.manual_seed(start)
        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 30))
        train(tmp_path, model, optimizer, after=lambda _, s=scheduler: s.step(), steps=steps, start_step=start, every=1)
    assert len(list(tmp_path.iterdir())) == 2
    found = {finding.name: finding for finding in diagnose(tmp_path).findings}
    assert found["lr-schedule-reset-on-resume"].step == 51


@pytest.mark.parametrize(
    ("schedule", "rates", "found"),
    [
        ("linear", [1e-4] * 12, ["lr-not-as-scheduled"]),
        ("constant", [1e-4] * 12, []),
        ("linear", [1e-4 * (20 - n) / 20 for n in range(12)], []),
        ("linear", [1e-4] * 9, []),
    ],
)
def test_rate_that_stands_still(tmp_path: Path, schedule: str, rates: list[float], found: list[str]) -> None:
    """As HF Trainer writes it: its arguments as a text, the rate as a scalar."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "runs")) as writer:
        writer.add_text("args", json.dumps({"lr_scheduler_type": schedule, "max_steps": 400}, indent=2))
        for n, rate in enumerate(rates):
            writer.add_scalar("train/learning_rate", rate, 10 * n + 10)
            writer.add_scalar("train/loss", 2.0 - n / 20, 10 * n + 10)
    assert roots(tmp_path) == found


# --- ranks -----------------------------------------------------------------------------------------------------------


def ranks(
    folder: Path, *, samples: Callable[[int, int], Any], steps: tuple[int, int] = (40, 40), bad: int = -1
) -> None:
    """Two ranks one after the other, with the gradients of rank 0: what the files hold is what two processes write."""
    for rank in range(2):
        torch.manual_seed(0)
        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with Probe(model, optimizer, folder, every=5, rank=rank, data_parallel=2) as probe:
            for step in range(steps[rank]):
                x, y = batch(step)
                if rank == 1 and step == bad:
                    x[0] = math.inf
                if bad >= 0 and step > bad:  # the all-reduce brought it to every rank
                    with torch.no_grad():
                        model[0].weight.fill_(math.nan)
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                probe.step(loss, sample_ids=samples(rank, step))


def test_ranks_with_their_own_samples(tmp_path: Path) -> None:
    ranks(tmp_path, samples=lambda rank, step: [f"{rank}/{step}/{i}" for i in range(4)])
    assert roots(tmp_path) == []
    assert {p.parent.name for p in tmp_path.rglob("events*")} == {"rank0", "rank1"}


def test_ranks_with_the_same_samples(tmp_path: Path) -> None:
    ranks(tmp_path, samples=lambda rank, step: torch.arange(step * 4, step * 4 + 4))
    assert roots(tmp_path) == ["ranks-train-on-same-data"]


def test_ranks_with_different_numbers_of_steps(tmp_path: Path) -> None:
    ranks(tmp_path, samples=lambda rank, step: [rank, step], steps=(40, 37))
    assert roots(tmp_path) == ["uneven-inputs"]


def test_bad_sample_of_one_rank(tmp_path: Path) -> None:
    ranks(tmp_path, samples=lambda rank, step: [rank, step], bad=22)
    (root,) = diagnose(tmp_path).of_role(Role.ROOT)
    assert (root.name, root.ranks, root.step) == ("nan-in-data", (1,), 23)


# --- incidents, on numbers alone ---------------------------------------------------------------------------------------


def numbers(step: int, loss: float | None, outputs: dict[int, float], **rest: Any) -> StepNumbers:
    return StepNumbers(step, loss, outputs, rest.pop("gradients", {}), **rest)


def test_infinities_on_purpose_are_not_blamed() -> None:
    sentinel = Sentinel(["embed", "mask", "head"])
    assert sentinel.follow(numbers(1, 2.0, {0: 1.0, 1: -math.inf, 2: 1.0})) is None
    incident = sentinel.follow(numbers(2, math.nan, {0: 1.0, 1: -math.inf, 2: math.nan}))
    assert incident is not None
    assert incident.place == "output/head"
    # One incident a stretch; a loop that goes on in NaN is not told again.
    assert sentinel.follow(numbers(3, math.nan, {0: math.nan, 1: math.nan, 2: math.nan})) is None


def test_loss_alone_and_gradients() -> None:
    sentinel = Sentinel(["a", "b"])
    incident = sentinel.follow(numbers(1, math.inf, {0: 1.0, 1: 1.0}, gradients={"a": math.nan, "b": math.nan}))
    assert incident is not None
    assert incident.place == "loss"
    sentinel = Sentinel(["a", "b", "c"])
    incident = sentinel.follow(numbers(1, 2.0, {0: 1.0}, gradients={"a": math.nan, "b": math.nan, "c": 1.0}))
    assert incident is not None
    assert incident.place == "gradient/b"


def test_unfinished_step() -> None:
    sentinel = Sentinel(["a"])
    assert sentinel.follow(numbers(1, None, {0: 1.0}, finished=False)) is None
    incident = sentinel.follow(numbers(1, None, {0: math.nan}, finished=False))
    assert incident is not None
    assert incident.place == "output/a"


def test_metrics_of_the_probe_have_canonical_names(tmp_path: Path) -> None:
    model = model_of()
    train(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.01), steps=10)
    (path,) = tmp_path.iterdir()
    frame = tb.metrics(tb.read_events(path), Source("e", path, Kind.TENSORBOARD, 1, Identity()))
    assert {"loss", "grad_norm", "lr", "update_ratio"} <= set(frame["name"])


@pytest.mark.parametrize("where", [(3, 5), (0, 0), (299, 299)])
def test_edges_of_a_large_gradient_show_a_bad_value(tmp_path: Path, where: tuple[int, int]) -> None:
    """One bad element of the output's gradient, or of the input, of a layer whose gradient is not read as a whole."""
    model = nn.Sequential(nn.Linear(300, 300, bias=False), nn.Linear(300, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with Probe(model, optimizer, tmp_path, every=50) as probe:
        for step in range(30):
            x = torch.randn(16, 300)
            hidden = model[0](x)
            if step == 20:
                # Reaches the first layer alone, for the second is not in the way back.
                at = (torch.tensor(where[0] % 16), torch.tensor(where[1]))
                hidden.register_hook(lambda grad, at=at: grad.index_put(at, torch.tensor(math.nan)))
            loss = model[1](hidden).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            probe.step(loss)
    found = series(tmp_path)
    assert [step for step, _ in found["probe/nonfinite/gradient/0"]] == [21]
    assert next(step for step, value in found["probe/grad_norm"] if math.isnan(value)) == 21


# --- the budget ------------------------------------------------------------------------------------------------------


def test_plan_keeps_to_the_share() -> None:
    from forensics.probe.budget import Costs, plan

    outputs = dict.fromkeys(range(-1, 60), 20e-6)
    dear = plan(Costs(0.010, 30e-6, 0.020, outputs, 2e-3), 0.02, 100)
    assert (dear.gradients, dear.every) == (False, 400)  # 20 ms in 300 steps of 10 ms would be more than 0.7 % already
    assert 0 < len(dear.slots) < 10
    assert -1 in dear.slots
    cheap = plan(Costs(1.0, 30e-6, 0.020, outputs, 2e-3), 0.02, 100)
    assert (cheap.gradients, cheap.every, len(cheap.slots)) == (True, 100, 61)
    nothing = plan(Costs(1e-4, 30e-6, 0.020, outputs, 2e-3), 0.02, 100)
    assert nothing.slots == frozenset()


def test_little_is_watched_in_short_steps(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Budgeted(model, optimizer, tmp_path, budget=1e-9) as probe:
        for step in range(40):
            x, y = batch(step)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            probe.step(loss)
        assert not any(module._forward_hooks for module in model.modules())
    found = series(tmp_path)
    assert len(found["probe/loss"]) == 40
    assert [step for step, _ in found["probe/grad_norm"]] == [1, 2, 3]


def test_unwatched_stretch_is_named_by_a_later_step_or_the_weights() -> None:
    sentinel = Sentinel(["a", "b", "c"])
    assert sentinel.follow(numbers(5, math.nan, {}, full=False)) is None
    assert sentinel.unnamed == 5
    assert sentinel.inspect({"a": 1.0, "b": 1.0, "c": 1.0}) is None
    incident = sentinel.follow(numbers(7, math.nan, {0: 1.0, 1: math.nan, 2: math.nan}))
    assert incident is not None
    assert (incident.step, incident.place) == (7, "output/b")
    sentinel = Sentinel(["a", "b", "c"])
    sentinel.follow(numbers(5, math.nan, {}, full=False))
    incident = sentinel.inspect({"a": math.nan, "b": math.nan, "c": 1.0})
    assert incident is not None
    assert incident.place == "weights/b"
    sentinel = Sentinel(["a", "b", "c"])
    sentinel.follow(numbers(5, math.nan, {}, full=False))
    assert sentinel.inspect(dict.fromkeys("abc", math.nan)) is None  # of the forward pass, or clipped: not told


def test_modules_that_were_not_watched_are_counted() -> None:
    incident = Sentinel(list("abcde")).follow(numbers(3, math.nan, {0: 1.0, 3: math.nan}, full=False))
    assert incident is not None
    assert (incident.place, incident.unwatched) == ("output/d", 2)


def test_tensorboard_reads_the_file(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = model_of()
    train(tmp_path, model, torch.optim.SGD(model.parameters(), lr=0.01), steps=12)
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in read.Scalars("probe/loss")] == list(range(1, 13))
    assert read.Tags()["tensors"] == ["probe/sample_ids/text_summary"]


# --- weights that stand still ---------------------------------------------------------------------------------------


def test_a_layer_that_no_optimizer_holds(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    model[4] = nn.Linear(32, 1)
    train(tmp_path, model, optimizer)
    assert roots(tmp_path) == ["layer-not-updated"]
    written = series(tmp_path)
    assert {value for _, value in written["probe/not_held/4"]} == {1.0}
    assert "probe/not_held/0" not in written and "probe/weights_unchanged" not in written


def test_what_is_frozen_on_purpose_or_trained_by_another_optimizer_is_no_fault(tmp_path: Path) -> None:
    model = model_of()
    model[0].requires_grad_(False)
    train(tmp_path / "frozen", model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2))
    diagnosis = diagnose(tmp_path / "frozen")
    assert not diagnosis.of_role(Role.ROOT) and not any("holds" in m.what for m in diagnosis.missing_evidence)
    model = model_of()
    other = torch.optim.AdamW(model[0].parameters(), 1e-2)
    rest = [p for module in model[1:] for p in module.parameters()]
    train(tmp_path / "other", model, torch.optim.AdamW(rest, 1e-2), after=lambda step: other.step())
    diagnosis = diagnose(tmp_path / "other")
    assert not diagnosis.of_role(Role.ROOT) and any("holds" in m.what for m in diagnosis.missing_evidence)


def test_an_optimizer_that_never_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    monkeypatch.setattr(optimizer, "step", lambda: None)
    train(tmp_path, model, optimizer)
    assert roots(tmp_path) == ["weights-not-updated"]
    assert {value for _, value in series(tmp_path)["probe/optimizer_steps"]} == {0.0}


def test_a_rate_that_is_always_zero(tmp_path: Path) -> None:
    model = model_of()
    train(tmp_path / "zero", model, torch.optim.AdamW(model.parameters(), 0.0))
    assert roots(tmp_path / "zero") == ["weights-not-updated"]
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0, step - 10) / 100)
    train(tmp_path / "warm", model, optimizer, scheduler=warm, after=lambda step: warm.step())
    assert roots(tmp_path / "warm") == []


@pytest.mark.parametrize(("first", "step"), [(0, 60), (1, 61)])
def test_the_step_is_the_one_of_the_log(tmp_path: Path, first: int, step: int) -> None:
    model = model_of()
    printed: list[str] = []

    def change(n: int, x: Any, y: Any) -> tuple[Any, Any]:
        with torch.no_grad():
            printed.append(f"step {n + first} loss {nn.functional.mse_loss(model(x), y).item():.4f}")
        return (x * math.inf if n == 60 else x), y

    train(tmp_path / "probe", model, torch.optim.SGD(model.parameters(), 1e-2), steps=61, change=change)
    (tmp_path / "train.log").write_text("\n".join(printed[:60:10]) + "\n")
    found = diagnose(tmp_path).of_role(Role.ROOT)
    assert [(f.name, f.step) for f in found] == [("nan-in-data", step)]


def test_an_optimizer_that_finds_its_own_rate(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with Probe(model, optimizer, tmp_path, every=1) as probe:
        optimizer.param_groups[0]["lr"] = None
        probe.step(1.0)
    assert "probe/lr/group0" not in series(tmp_path)


# --- what a loop does with its model while it is watched -------------------------------------------------------------


def test_copies_and_saved_models_take_no_hook_along(tmp_path: Path) -> None:
    model = model_of()
    copies: list[Any] = []

    def keep(step: int) -> None:
        if step == 10:
            torch.save(model, tmp_path / "model.pt")
            copies.append(copy.deepcopy(model))
            copies.append(torch.load(tmp_path / "model.pt", weights_only=False))
        for other in copies:
            other(torch.full((4, 8), math.nan))  # with gradients: a hook of the probe would take it for the model

    train(tmp_path / "probe", model, torch.optim.SGD(model.parameters(), lr=0.01), steps=30, after=keep)
    found = series(tmp_path / "probe")
    assert [step for step, _ in found["probe/loss"]] == list(range(1, 31))
    assert not [name for name in found if "nonfinite" in name]
    x, _ = batch(0)
    assert not torch.equal(copies[0](x), model(x))  # trained on since
    assert torch.equal(copies[0](x), copies[1](x))


def test_a_saved_model_names_nothing_of_this_package(tmp_path: Path) -> None:
    model = model_of()
    with Probe(model, torch.optim.SGD(model.parameters(), lr=0.01), tmp_path, sentinel="full"):
        assert any(module._forward_hooks for module in model.modules())
        assert b"forensics" not in pickle.dumps(model)


def test_a_watched_model_goes_to_a_spawned_process(tmp_path: Path) -> None:
    model = model_of()
    with Probe(model, torch.optim.SGD(model.parameters(), lr=0.01), tmp_path, sentinel="full"):
        process = multiprocessing.get_context("spawn").Process(target=print, args=(model,))
        process.start()
        process.join(120)
    assert process.exitcode == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_graphs_and_transforms_of_a_watched_model_are_those_of_the_model(tmp_path: Path) -> None:
    model = model_of()
    x, _ = batch(0)
    parameters = dict(model.named_parameters())

    def one(row: Any) -> Any:
        return torch.func.functional_call(model, parameters, (row[None],))[0]

    bare = [str(torch.jit.trace(model, x).inlined_graph), torch.func.vmap(one)(x)]
    made: list[Any] = []

    def use(step: int) -> None:
        if step == 10:
            made.append(str(torch.jit.trace(model, x).inlined_graph))
            made.append(torch.func.vmap(one)(x))
            torch.func.vmap(torch.func.grad(lambda row: one(row).sum()))(x)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    train(tmp_path, model, optimizer, steps=20, after=use, sentinel="full")
    assert made[0].count("aten::") == bare[0].count("aten::")
    assert torch.equal(made[1], bare[1])
    assert [step for step, _ in series(tmp_path)["probe/loss"]] == list(range(1, 21))
