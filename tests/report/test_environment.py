"""What a report says of the machine and the packages that a run had."""

from __future__ import annotations

from samples import diagnosis, finding

from forensics.model import Fact
from forensics.report import html, markdown
from forensics.report.environment import beyond, gist
from forensics.report.html.material import Material
from forensics.report.plots.model import Pictures


def facts(*given: tuple[str, str]) -> tuple[Fact, ...]:
    return tuple(Fact(name, value, "env.txt", line) for line, (name, value) in enumerate(given, 1))


def test_devices_and_versions_make_one_row_the_best_name_of_each_first() -> None:
    known = facts(
        ("args.lr", "0.1"), ("python.version", "3.11.9 (main, Apr  6 2026) [GCC 11.4.0]"), ("nccl.version", "2.20.5"),
        ("cuda.version", "12.2"), ("torch.cuda", "12.4"), ("torch.version", "2.4.1+cu124"), ("gpu.count", "8"),
        ("gpu.name", "NVIDIA H100 80GB HBM3"), ("transformers.version", "null"),
    )  # fmt: skip
    assert gist(known) == "8 × NVIDIA H100 80GB HBM3, torch 2.4.1+cu124, CUDA 12.4, NCCL 2.20.5, Python 3.11.9"


def test_what_differs_within_a_run_is_shown_and_what_is_no_version_is_not() -> None:
    assert gist(facts(("torch.version", "2.4.1"), ("torch.version", "2.3.0"))) == "torch 2.4.1 / 2.3.0"
    many = facts(*(("nccl.version", f"2.{n}.0") for n in range(5)))
    assert gist(many) == "NCCL 2.0.0 / 2.1.0 / 2.2.0 and 2 more"
    both = facts(("gpu.name", "A100"), ("gpu.name", "H100"), ("gpu.count", "8"))
    assert gist(both) == "A100 / H100"  # eight of which is not known
    assert gist(facts(("torch.version", "unknown"), ("args.seed", "1"))) == ""


def test_what_the_row_leaves_out_is_beyond_it() -> None:
    one = (("torch.cuda", "12.4"), ("cuda.version", "12.4"), ("gpu.name", "A100"), ("gpu.count", "8"))
    assert not beyond(facts(*one))
    assert beyond(facts(*one, ("cuda.version", "11.8")))  # PyTorch was built for another
    assert beyond(facts(*one, ("gpu.count", "4")))  # of which neither is in the row
    assert beyond(facts(("gpu.count", "8")))
    assert beyond(facts(*(("nccl.version", f"2.{n}.0") for n in range(4))))
    assert beyond(facts(*one, ("torch.version", "unknown")))


def test_reports_have_the_row_and_a_table_only_of_what_it_does_not_say() -> None:
    bare = diagnosis(finding())
    few = diagnosis(finding(), environment=facts(("nccl.version", "2.20.5")))
    more = diagnosis(finding(), environment=facts(("nccl.version", "2.20.5"), ("nccl.env.NCCL_ALGO", "Ring")))
    assert "environment" not in markdown.render(bare).lower()
    assert "| environment | `NCCL 2.20.5` |" in markdown.render(few) and "Environment" not in markdown.render(few)
    text = markdown.render(more)
    assert "| environment | `NCCL 2.20.5` |" in text and "<summary>Environment and settings (2)</summary>" in text
    page = html.render(Material(more, Pictures(), {}))
    assert '<p class="run">NCCL 2.20.5</p>' in page and "nccl.env.NCCL_ALGO" in page
