"""The catalogue as a whole: what it must cover, how entries are found, and that its pages are up to date."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from forensics.engine.detectors import REGISTRY
from forensics.engine.scan import scan_span
from forensics.model import Kind, Role, Source
from forensics.parsers.logs import read_log
from forensics.report import catalogue_pages
from forensics.signatures import index, search
from forensics.signatures.check import Bench, alarms
from forensics.signatures.schema import load_catalogue
from forensics.sources.rules import RULES

ROOT = Path(__file__).parent.parent
CATALOGUE = load_catalogue()
BENCH = Bench(CATALOGUE)

# Families of failures and how many there are: language models, vision, diffusion, reinforcement learning,
# vision-language, checkpoints, distributed, precision, optimisation, data pipeline.
FAMILIES = {"L": 10, "V": 7, "DF": 7, "R": 6, "X": 5, "C": 18, "D": 23, "P": 19, "O": 26, "DP": 15}
# Memory, throughput, what any job meets, several nodes: families of which some numbers alone are failures of training.
OTHER = {
    "M": (1, 5, 9, 10, 12, 13, 16),
    "T": (4, 5, 6, 7, 8),
    "U": (2, 3, 6, 7, 8, 9, 10, 11, 21, 24, 25, 28, 33, 34, 35, 36),
    "MN": (1, 2, 3, 4, 5),
}
CODES = [
    *(f"{letters}{n}" for letters, count in FAMILIES.items() for n in range(1, count + 1)),
    *(f"{letters}{n}" for letters, numbers in OTHER.items() for n in numbers),
]
LABELS = """
    collective-timeout collective-desync collective-op-mismatch collective-shape-mismatch collective-dtype-mismatch
    rank-conditional-collective uneven-inputs subgroup-order-mismatch p2p-mismatch straggler-rank rank0-side-work
    monitored-barrier-timeout teardown-hang rank-exited-early gradients-inconsistent-between-ranks
    model-mismatch-across-ranks nccl-network-timeout ib-link-flap nic-failure ib-local-protection-error
    nccl-wrong-network-interface nccl-no-socket-interface nccl-connect-failed nccl-bootstrap-failed nccl-remote-error
    nccl-system-error nccl-unhandled-cuda-error nccl-env-mismatch nccl-version-mismatch nccl-shm-failure
    nccl-invalid-usage duplicate-gpu wrong-device-assignment duplicate-rank-launch nvls-failure cuda-oom cudnn-oom
    cublas-alloc-failed nccl-cuda-oom oom-on-checkpoint-save gpu-shared-with-other-process host-oom host-oom-cgroup
    host-oom-ray-monitor cpu-allocation-failed sigkill-unknown-sender shm-exhausted fd-exhausted
    thread-limit-exhausted grad-scaler-collapse loss-scale-stall gradscaler-no-inf-checks nan-loss nan-gradients
    nan-in-backward nan-in-data nan-loss-all-labels-masked loss-divergence loss-spike value-loss-explosion
    kl-divergence-explosion policy-collapse rl-no-learning-signal kl-negative gpu-fell-off-bus pcie-link-failure
    gpu-ecc-uncorrectable nvlink-fatal-error gpu-kernel-exception gpu-ctx-switch-timeout gpu-pmu-halt
    gsp-firmware-crash gpu-hardware cuda-illegal-memory-access device-side-assert no-kernel-image
    fabric-manager-not-ready cpu-fallback driver-too-old cudnn-library-mismatch dataloader-worker-exception
    dataloader-worker-killed dataloader-worker-segfault dataloader-unpicklable-object collate-shape-mismatch
    batchnorm-single-sample checkpoint-corrupt checkpoint-write-failed disk-full storage-io-error
    checkpoint-weights-only-load state-dict-key-mismatch state-dict-prefix-module state-dict-prefix-orig-mod
    checkpoint-topology-mismatch resume-weights-not-restored lr-schedule-reset-on-resume epoch-restart-on-resume
    ddp-unused-parameters ddp-marked-ready-twice detached-graph lora-target-modules-not-found loss-target-shape
    target-out-of-range address-in-use rendezvous-timeout store-timeout python-exception rank-segfault rank-sigabrt
    external-sigterm preempted session-closed scheduler-time-limit ray-worker-died insufficient-evidence
""".split()

# Stable signatures of trouble whose words stand in logs of healthy runs, and the only runs where they may: what the
# run survived, what a model wrote about crashes, and a kernel log of another day.
TALKED_ABOUT = {
    "real-torch-caught-exceptions": {"allocation-size-implausible", "layer-shape-mismatch"},
    "hf4-generations-about-crashes": {
        "cuda-illegal-memory-access", "cuda-oom", "disk-full", "rank-segfault", "sigkill-unknown-sender",
    },
    "hf4-oom-find-batch-size": {"cuda-oom"},
    "lightning-batch-size-finder": {"cuda-oom"},
    "predictions-and-readme": {"cuda-oom", "disk-full", "rank-segfault", "sigkill-unknown-sender"},
    "samples-text-files": {"cuda-oom", "disk-full", "rank-segfault", "sigkill-unknown-sender"},
    "object-store-retries": {"dataloader-worker-exception"},
    "startup-noise-then-two-steps": {"no-gpu-visible"},
    "dmesg-unrelated-before-run": {"rank-segfault"},
    "checkpoint-fallback-older": {"checkpoint-corrupt"},
    "broken-pipe-in-viewer-running": {"session-closed"},
}  # fmt: skip
SLUG_IN_CODE = re.compile(r"`([a-z][a-z0-9]*(?:-[a-z0-9]+)+)`")
NODE = re.compile(r"[a-z]+-[a-z]*[0-9]+")
HEALTHY = [
    *sorted((ROOT / "tests" / "cases" / "healthy").iterdir()),
    *sorted((ROOT / "sample_logs").glob("healthy*")),
]


def test_every_code_is_covered() -> None:
    assert len(CODES) == 169
    covered = index.codes(CATALOGUE)
    assert [code for code in CODES if code not in covered] == []


def test_every_label_is_a_signature() -> None:
    assert [name for name in LABELS if name not in CATALOGUE] == []


def test_no_slug_is_given_twice() -> None:
    """The second of two built-in files of one slug would silently replace the first."""
    files = Counter(path.stem for path in (ROOT / "src/forensics/signatures").glob("*/*.toml"))
    assert [name for name, count in files.items() if count > 1] == []


def test_detectors_exist_and_are_used() -> None:
    named = {r.detector for s in CATALOGUE.values() for r in s.evidence if r.detector is not None}
    assert named >= set(REGISTRY)


def test_knowledge_says_what_to_do() -> None:
    """What no log shows must at least say how it can be seen, and be pointed to."""
    knowledge = [s for s in CATALOGUE.values() if s.area == "knowledge"]
    assert knowledge
    for signature in knowledge:
        assert signature.codes and signature.fix and signature.confirm, signature.name
    pointed = {name for s in CATALOGUE.values() for name in s.see_also}
    assert [s.name for s in knowledge if s.name not in pointed] == []


def test_trouble_comes_with_something_to_do() -> None:
    assert [s.name for s in CATALOGUE.values() if s.kind in ("cause", "symptom") and not s.fix] == []


def test_every_entry_says_in_which_versions_it_holds() -> None:
    """Releases by the name of their program, or "any", with what differs in some of them behind it."""
    said = {name: s.versions or "" for name, s in CATALOGUE.items()}
    form = re.compile(r"any(?:; \S.*\S)?|(?!(?:[Aa]ny|[Aa]ll|[Ee]very)\b)(?=.*[A-Za-z]{2}).*\S")
    assert {name: text for name, text in said.items() if not form.fullmatch(text)} == {}


def test_the_index_is_about_signatures() -> None:
    known = index.load_index()
    for code, names in known.order.items():
        assert all(code in CATALOGUE[name].codes for name in names), code
    for alias, name in known.aliases.items():
        assert name in CATALOGUE and alias not in CATALOGUE, alias
    for code, names in (*known.several.items(), *known.further.items()):
        assert names and set(names) <= set(CATALOGUE), code
    assert not set(known.further) & set(index.codes(CATALOGUE))


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("DP15", ["shm-exhausted", "fd-exhausted"]),
        ("dp15", ["shm-exhausted", "fd-exhausted"]),
        ("P12", ["loss-divergence", "loss-spike"]),
        ("U11", ["gpu-busy", "gpu-shared-with-other-process"]),
        ("mn4", ["mtu-mismatch"]),
        ("cuda-oom", ["cuda-oom"]),
        ("CUDA_OOM", ["cuda-oom"]),
        ("too-many-open-files", ["fd-exhausted"]),
        ("too many open files", ["fd-exhausted"]),
        ("DP-15", ["shm-exhausted", "fd-exhausted"]),
        ("dp 15", ["shm-exhausted", "fd-exhausted"]),
        ("dp_15", ["shm-exhausted", "fd-exhausted"]),
        ("HW2", ["gpu-fell-off-bus"]),
        ("hw-2", ["gpu-fell-off-bus"]),
        ("SYS9", ["rank-segfault", "rank-sigabrt", "rank-sigbus", "rank-sigill"]),
        ("exitcode -7", ["rank-sigbus"]),
        ("exitcode  : -7 (pid: 311)", ["rank-sigbus"]),
        ("exited with code 135", ["rank-sigbus"]),
        ("-4", ["rank-sigill"]),
        ("130", ["keyboard-interrupt"]),
        ("gradient explosion", ["exploding-gradients"]),
        ("exitcode 7", []),
        ("-77", []),
        ("HW99", []),
        ("no-such-thing", []),
        ("", []),
    ],
)
def test_entries_are_found(wanted: str, names: list[str]) -> None:
    found = [s.name for s in index.find(CATALOGUE, wanted)]
    assert found[: len(names)] == names if names else found == []


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("shared memory full", "shm-exhausted"),
        ("the loss is NaN", "nan-loss"),
        ("memory leak", "host-oom"),
        ("illegal memory", "cuda-illegal-memory-access"),
        ("corrupted checkpoints", "checkpoint-corrupt"),
        ("learning rate", None),
        ("out of memory", None),
        ("oom", None),
        ("qqqq memory", None),
        ("the of", None),
        ("", None),
    ],
)
def test_words_mean_an_entry_or_several(words: str, name: str | None) -> None:
    meant = search.best(search.search(CATALOGUE, words))
    assert (meant.name if meant is not None else None) == name


def test_words_find_what_an_abbreviation_stands_for() -> None:
    for words, names in (
        ("oom", {"cuda-oom", "host-oom"}),
        ("learning rate", {"learning-rate-too-low", "logged-lr-stale"}),
    ):
        found = [m.signature.name for m in search.search(CATALOGUE, words)]
        assert names <= set(found) and len(found) <= search.MOST
    assert search.search(CATALOGUE, "out of memory") == search.search(CATALOGUE, "OOM")


def test_codes_are_in_the_order_of_their_numbers() -> None:
    codes = [code for code in index.codes(CATALOGUE) if code in CODES]
    assert codes.index("D2") < codes.index("D10") < codes.index("DF1")


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("shm-exhasted", "shm-exhausted"),
        ("cudaoom", "cuda-oom"),
        ("too many open", "fd-exhausted"),
        ("memory leak", "host-oom"),
        ("D99", "D9"),
    ],
)
def test_mistyped_names_have_a_suggestion(wanted: str, name: str) -> None:
    assert index.find(CATALOGUE, wanted) == ()
    assert name in index.near_names(CATALOGUE, wanted)


def test_stable_signatures_are_silent_on_healthy_logs() -> None:
    """Lines of healthy runs that a stable sign of trouble takes for its own: none but in the runs that are named."""
    seen: dict[str, set[str]] = {}
    for run in HEALTHY:
        for file in (run / "input").rglob("*"):
            size = file.stat().st_size
            if not file.is_file() or not size or b"\0" in file.read_bytes()[:4096]:
                continue
            source = Source(file.name, file, Kind.LOG, size)
            scan = scan_span(BENCH.matcher.database, file, 0, size)
            for o in read_log(source, scan, BENCH.matcher, reference=1.7e9).observations:
                signature = CATALOGUE[o.signature]
                if signature.status == "stable" and signature.kind in ("cause", "symptom"):
                    seen.setdefault(run.name, set()).add(signature.name)
    assert {run: names - TALKED_ABOUT.get(run, set()) for run, names in seen.items()} == {run: set() for run in seen}


def test_alarms_are_told_from_context(tmp_path: Path) -> None:
    good, caught, bad = tmp_path / "good", tmp_path / "caught", tmp_path / "bad"
    lines = [f"step {n} loss: {2 - n / 50:.3f}\n" for n in range(60)]
    steps, later = "".join(lines[:30]), "".join(lines[30:])
    for folder, text in (
        (good, steps),
        (caught, f"{steps}WARNING: batch skipped: torch.OutOfMemoryError: CUDA out of memory.\n{later}"),
        (bad, f"{steps}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"),
    ):
        (folder / "input").mkdir(parents=True)
        (folder / "input" / "train.log").write_text(text)
    found = alarms(BENCH, tmp_path)
    assert [(a.run, a.signature, a.file, a.line, a.role) for a in found] == [
        ("bad", "cuda-oom", "train.log", 31, Role.ROOT.value)
    ]


def test_pages_are_up_to_date() -> None:
    """`forensics signatures docs docs/catalogue` makes them."""
    assert catalogue_pages.stale(CATALOGUE, ROOT / "docs" / "catalogue") == []


def test_slugs_that_the_documentation_names_exist() -> None:
    """What stands in code and looks like a slug is one, or a word of the program's own (`no-store`), or a node."""
    sources = [file for kind in ("py", "js", "html") for file in (ROOT / "src").rglob(f"*.{kind}")]
    own = "\n".join(file.read_text("utf-8") for file in sources)
    examples = {"node-b", "dp-15"}
    wrong = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for name in SLUG_IN_CODE.findall(page.read_text("utf-8"))
        if name not in CATALOGUE and name not in own and name not in examples and not NODE.fullmatch(name)
    }
    assert wrong == set()


def test_the_page_on_code_names_the_entry_of_each_check() -> None:
    rows = re.findall(r"^\| (\w+) \| ([a-z0-9-]+) \|", (ROOT / "docs" / "sources.md").read_text("utf-8"), re.M)
    assert {check: entry for check, entry in rows if check in RULES} == {c: r.signature for c, r in RULES.items()}


def test_links_of_pages_lead_somewhere() -> None:
    import re

    made = catalogue_pages.pages(CATALOGUE)
    anchors = set()
    for name, text in made.items():
        for heading in re.findall(r"^## (.*)$", text, re.M):
            anchors.add((name, re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")))
    for name, text in made.items():
        for page, anchor in re.findall(r"\]\(([a-z]*\.md)?#([^)]*)\)", text):
            assert (page or name, anchor) in anchors, anchor


def test_pages_are_written_and_left_over_ones_go(tmp_path: Path) -> None:
    some = {name: CATALOGUE[name] for name in ("cuda-oom", "initial-loss-off")}
    assert catalogue_pages.write(some, tmp_path) == 3
    (tmp_path / "own.md").write_text("mine\n")
    fewer = {"cuda-oom": CATALOGUE["cuda-oom"]}
    assert catalogue_pages.stale(fewer, tmp_path) == ["index.md", "knowledge.md", "own.md"]
    catalogue_pages.write(fewer, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["index.md", "memory.md", "own.md"]
