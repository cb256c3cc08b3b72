from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import ALL, diagnosis, finding

from forensics.model import Coverage, Evidence, Fact, Kind, Source, Status
from forensics.report import jsonreport
from forensics.report.redaction import RedactionError, Redactor, redact_diagnosis, told_by

HEX40 = "0123456789abcdef" * 2 + "01234567"
HOSTS = ("dgx17", "node-7", "10.1.2.3")

REDACTED = [
    ("key AKIA" + "Q" * 16 + ".", "key secret-1."),
    ("AIza" + "a1" * 17 + "b", "secret-1"),
    ("ghp_" + "a1" * 18, "secret-1"),
    ("glpat-" + "a1" * 10, "secret-1"),
    ("hf_" + "aB3" * 11, "secret-1"),
    ("sk-proj-" + "a1" * 12, "secret-1"),
    ("sk-ant-api03-" + "x" * 20, "secret-1"),
    ("xoxb-" + "1" * 12 + "-abc", "secret-1"),
    (f"wandb: using key {HEX40}", "wandb: using key secret-1"),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.abc", "secret-1"),
    ("a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", "a secret-1 b"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNza", "secret-1"),
    ("Authorization: Bearer abc.def", "Authorization: Bearer secret-1"),
    ("-H 'Authorization: Basic dXNlcjpw'", "-H 'Authorization: Basic secret-1'"),
    ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/services/secret-1"),
    ("postgres://bob:hun@ter2@db/x", "postgres://user-1:secret-1@host-2/x"),
    ("https://tok123@github.com/o/r", "https://secret-1@github.com/account-1/repo-1"),
    ("password=hunter2 next", "password=secret-1 next"),
    ("PASSWORD=123456", "PASSWORD=secret-1"),
    ('{"password": "a\\"b c", "x": 1}', '{"password": "secret-1", "x": 1}'),
    (r'"{\"api_key\": \"zzz yyy\"}"', r'"{\"api_key\": \"secret-1\"}"'),
    ("HF_TOKEN=abc WANDB_API_KEY=q", "HF_TOKEN=secret-1 WANDB_API_KEY=secret-2"),
    ("--api-key zzz --token t0k", "--api-key secret-1 --token secret-2"),
    ("https://b.example/x?sig=abc%2F&se=1", "https://host-2/x?sig=secret-1&se=1"),
    ("from alice@mail.example", "from email-1"),
    ("/home/alice/x.py /scratch/alice/y alice", "/home/user-1/x.py /scratch/user-1/y user-1"),
    (r"C:\Users\bob\x C:\\Users\\bob\\y", r"C:\Users\user-1\x C:\\Users\\user-1\\y"),
    ("/Users/carol.", "/Users/user-1."),
    ("bob@dgx99:~$ ls", "user-1@host-2:~$ ls"),
    ("10.0.0.7:29500 10.0.0.8<0> 10.0.0.7.log", "ip-2:29500 ip-3<0> ip-2.log"),
    ("connect to 10.1.2.3", "connect to ip-1"),
    ("[4]veth3a1:fe80::b8:6cff:fe52:abe2%veth3a1<0>", "[4]veth3a1:ip-2%veth3a1<0>"),
    ("::ffff:10.0.0.7", "::ffff:ip-2"),
    ("00:1a:2b:3c:4d:5e", "mac-1"),
    ("dgx17 DGX17 logs/dgx17/a.log trace_dgx17_rank3", "host-1 host-1 logs/host-1/a.log trace_host-1_rank3"),
    ("dgx17.corp.lan", "host-1"),
    ("dgx18:4242:4300 [0] NCCL INFO dgx18", "host-2:4242:4300 [0] NCCL INFO host-2"),
    ("tb/events.out.tfevents.1700000000.dgx18.42.0", "tb/events.out.tfevents.1700000000.host-2.42.0"),
    ("srun: error: dgx18: task 3: Killed", "srun: error: host-2: task 3: Killed"),
    ("ip-10-0-0-12.ec2.internal ip-10-0-0-12", "host-2 host-2"),
    ("worker-3.job-of-alice.ns.svc.cluster.local:29500", "worker-3:29500"),
    ("s3://my-bucket/a gs://other", "s3://bucket-1/a gs://bucket-2"),
    ("abfss://c@acct.dfs.core.windows.net/p", "abfss://bucket-1@bucket-2.dfs.core.windows.net/p"),
    ('{"host": "dgx18", "loss/bob@dgx18": 1}', '{"host": "host-2", "loss/user-1@host-2": 1}'),
    ("Successfully assigned ns7/llm-a1 to x", "Successfully assigned namespace-1/host-2 to host-3"),
    ("Node ID: 9d41f7c2a8b3e6d5049e1c7fb2a86d30f5e9c4b7a1d80362", "Node ID: uuid-1"),
    ("smtp_pass: lZBfriW db_pass=x9", "smtp_pass: secret-1 db_pass=secret-2"),
    ("{'db_pass': 'abc', 'redis_pass': 'x y'}", "{'db_pass': 'secret-1', 'redis_pass': 'secret-2'}"),
    ("--db-pass hunter --lr 3", "--db-pass secret-1 --lr 3"),
    ("smtpPass: hunter", "smtpPass: secret-1"),
    ("  pass: hunter", "  pass: secret-1"),
    ("user=bob pass=hunter", "user=user-1 pass=secret-1"),
    ("signing_key=abcdefgh, secret key: Zz9yyyy8", "signing_key=secret-1, secret key: secret-2"),
    ("Basic dXNlcjpwYXNzd29yZA==", "Basic secret-1"),
    ("secrets: {wandb: abc123xyz9, n: 3}", "secrets: {wandb: secret-1, n: 3}"),
    ("the password is abcD123.", "the password is secret-1."),
    ("password='correct horse battery'", "password='secret-1'"),
    ("mysql -pA1b2 mysql -pC3d4", "mysql -psecret-1 mysql -psecret-2"),
]

KEPT = [
    f"commit {HEX40}",
    "pad_token=<pad> eos_token='</s>' max_tokens=4096 token: 17 num_token=123",
    "Unexpected token: foo",
    "api_key=None password: *** HF_TOKEN=$HF_TOKEN token=<your token>",
    "pwd=/data/x",
    "127.0.0.1:29500 0.0.0.0 [::1]:29500 :: [::ffff:127.0.0.1]:29500",
    "Client(address, auth_key=process.current_process().auth_key)",
    "q=s.q(x); a=q@x.transpose(1,2)",
    "NCCL version 2.27.5.1",
    "nvidia-nccl-cu12==2.27.5.1 nvidia_cudnn_cu12-9.1.0.70-py3 libnccl.so.2.27.5.1 cudnn: 9.1.0.70",
    "at::native::add c10d::ProcessGroup std::__cxx11::basic_string a::b",
    "busId 0000:3b:00.0 12:34:56 2026-11-27T20:49:24",
    "run-20-11-27-20-49-24",
    "threading.local google.protobuf.internal.decoder ~/.local/lib",
    "node-7 failed, worker-0 waits on localhost",
    "/home/user/x.py /root/x",
    "Nov 27 20:49:24 INFO trainer: ok",
    "git@github.com:pytorch/pytorch.git https://github.com/huggingface/transformers/issues/1",
    "loss=1.5 sig=0.5 rank 3 step 412 tokens/s: 1234",
    "@staticmethod torch.cuda.OutOfMemoryError",
    "user@1000.service killed, by-pod/input, algo-1 exited",
    'run_name=null WANDB_PROJECT=huggingface {"host": "localhost"}',
    "node_id: 3 job id: deadbeef",
    "forward_pass: 12 n_pass=ab first_pass=x num_passes: 3 pass_rate: 0.9 FORWARD_PASS=12",
    "Forward pass: 12.5ms Backward pass: fused kernels",
    "INFO pass: starting PASS: test_foo1 pass = True",
    "eval/my_pass: 0.93 pass@1: 0.4 pass: 1/3",
    "graph_pass = make_pass(graph) some_pass = passes[0]",
    "post_grad_custom_post_pass=my_function else: pass",
    "password is required; basic authentication failed; Basic settings1",
    "JobName=train.py JobName=python3.11 run_name=run.sbatch",
]


@pytest.mark.parametrize(("text", "redacted"), REDACTED)
def test_it_is_taken_out(text: str, redacted: str) -> None:
    redactor = Redactor(HOSTS)
    assert redactor.redact(text) == redacted
    assert redactor.redact(redacted) == redacted


@pytest.mark.parametrize("text", KEPT)
def test_the_story_stays(text: str) -> None:
    assert Redactor(HOSTS).redact(text) == text


def test_the_same_thing_gets_the_same_stand_in() -> None:
    redactor = Redactor()
    assert redactor.redact("10.0.0.7 10.0.0.8") == "ip-1 ip-2"
    assert redactor.redact("10.0.0.8 /home/alice") == "ip-2 /home/user-1"
    assert Redactor().redact("10.0.0.8") == "ip-1"


def test_a_host_that_is_called_like_a_stand_in_shares_it_with_nobody() -> None:
    redactor = Redactor(["host-1", "dgx17"])
    assert redactor.redact("host-1 dgx17") == "host-1 host-2"


PIECES = st.sampled_from([text for text, _ in REDACTED] + KEPT + [" ", "\n", "=", ":", "@", "/", "host-1", "secret-1"])


@settings(deadline=None)
@given(st.lists(PIECES | st.text(st.characters(codec=None, exclude_categories=()), max_size=20), max_size=6))
def test_it_is_idempotent_and_never_raises(pieces: list[str]) -> None:
    redactor = Redactor(HOSTS)
    once = redactor.redact("".join(pieces))
    assert redactor.redact(once) == once


@pytest.mark.parametrize(
    "piece", ["a", "a.", "1.", ":", "a@", "token=", "eyJ-", 'token="', "-----BEGIN A-----", "aa:", "//"]
)
def test_no_text_takes_long(piece: str) -> None:
    start = time.perf_counter()
    Redactor(HOSTS).redact(piece * (40_000 // len(piece)))
    assert time.perf_counter() - start < 3


def test_every_string_of_a_diagnosis_that_a_log_can_reach() -> None:
    leak = "dgx17 10.1.2.3 /home/alice/x password=hunter2"
    original = diagnosis(
        finding(
            node="dgx17", why=leak, notes=(leak,), evidence=(Evidence(leak, 1, 2, leak),), fix=(leak,), title=leak,
            captures={"host": "dgx18", "token": "abc123xyz", "path": leak, "user": "bob"}, time_source=leak,
        ),
        finding(id="f2", name="dgx17", explained_by="f1"),
        summary="dgx18 failed; " + leak,
        run={"path": "/home/alice/run"},
        coverage=(Coverage("logs/dgx19/a.log", "log", 1, Status.SKIPPED, leak, 0, "dgx19"),),
    )  # fmt: skip
    redacted = redact_diagnosis(original)
    document = jsonreport.to_dict(redacted)
    text = str({**document, "findings": document["findings"][:1]})
    for secret in ("dgx", "10.1.2.3", "alice", "hunter2", "abc123xyz", "bob"):
        assert secret not in text
    assert redacted.findings[0].node == "host-1"
    assert redacted.summary.startswith(f"{redacted.findings[0].captures['host']} failed; host-1 ")
    assert redacted.findings[1].name == "dgx17"
    assert redact_diagnosis(redacted) == redacted


@pytest.mark.parametrize("name", ALL)
def test_ranks_steps_and_slugs_stay(name: str) -> None:
    for before, after in zip(ALL[name].findings, redact_diagnosis(ALL[name]).findings, strict=True):
        assert (before.id, before.name, before.ranks, before.step, before.time is None) == (
            after.id, after.name, after.ranks, after.step, after.time is None,
        )  # fmt: skip


def test_a_node_that_is_no_name_is_redacted_as_text() -> None:
    redacted = redact_diagnosis(diagnosis(finding(node="(at 10.9.8.7, password=hunter2)"), finding(node="x")))
    assert [f.node for f in redacted.findings] == ["(at ip-1, password=secret-1)", "host-1"]


def test_facts_of_the_environment_are_redacted_and_versions_stay() -> None:
    told = (
        Fact("cudnn.version", "8.9.2.26", "collect_env.txt", 17),
        Fact("accelerate.main_process_ip", "10.20.30.40", "/home/jdoe/accelerate.yaml", 3),
        Fact("config.smtp_pass", "one two three", "a.yaml", 2),
        Fact("config.nodes.0", "zeta-17", "a.yaml", 4),
        Fact("config.layers.0", "conv-17", "a.yaml", 4),
        Fact("config.hub", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", "a.yaml", 1),
    )
    shown = redact_diagnosis(diagnosis(environment=told)).environment
    assert [f.name for f in shown] == [f.name for f in told]
    assert shown[0].value == "8.9.2.26"
    assert "10.20" not in shown[1].value and "jdoe" not in shown[1].source
    assert shown[2].value == "secret-2"
    assert [fact.value for fact in shown[3:5]] == ["host-1", "conv-17"]
    assert "hf_Ab" not in shown[5].value


def test_a_user_can_add_patterns() -> None:
    redactor = Redactor(patterns=[r"zebra-\w+", r"customer=(\S+)"])
    assert redactor.redact("zebra-7 of customer=acme, zebra-7") == "private-1 of customer=private-2 private-1"


@pytest.mark.parametrize("pattern", ["(", "a*", "x" * 5000])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(RedactionError):
        Redactor(patterns=[pattern])


def test_a_pattern_that_takes_too_long_lets_nothing_out() -> None:
    with pytest.raises(RedactionError, match="takes more than"):
        Redactor(patterns=[r"(a|a)+b(?<!x)$|(?:(a+)+)+c"]).redact("a" * 60 + "!")


def test_what_one_place_gives_away_is_gone_everywhere() -> None:
    made = diagnosis(
        finding(why="zeta-secret-bucket is full, says qkowalski"), summary="s3://zeta-secret-bucket/x /home/qkowalski/y"
    )
    assert redact_diagnosis(made).findings[0].why == "bucket-1 is full, says user-1"


def test_a_user_called_like_a_word_does_not_empty_the_report() -> None:
    assert (
        Redactor().redact("/home/train/x.py: train loss, /data/train/y")
        == "/home/user-1/x.py: train loss, /data/user-1/y"
    )


def test_what_is_learnt_is_replaced_and_there_is_an_end_to_it() -> None:
    redactor = Redactor()
    redactor.learn(["srun: error: zebra07: task 3: Killed", "/home/qkowalski/x"])
    redactor.learn(" ".join(f"/home/user{n}x{m}/" for m in range(200)) for n in range(100))
    assert len(redactor.memory.stand_ins) < 2300
    assert redactor.redact("ckpt-qkowalski slurm-zebra07-42.out") == "ckpt-user-1 slurm-host-1-42.out"


@pytest.mark.parametrize(
    "name", ["aws_secret_access_key = ", "AWS_SECRET_ACCESS_KEY=", "secret_key: ", "db_pass=", "--db-pass "]
)
def test_a_secret_that_one_line_of_a_log_names_is_gone_from_all(name: str, tmp_path: Path) -> None:
    value = "Zq3Lx8Vw2Kp7Tn5Rb9Yc"
    log = tmp_path / "train.log"
    log.write_text(f"start {name}{value}\nuploading with {value}\n")
    lines = told_by([Source("train.log", log, Kind.LOG, log.stat().st_size)])
    redactor = Redactor()
    redactor.learn(lines)
    assert redactor.again(redactor.redact(f"uploading with {value}")) == "uploading with secret-1"
