"""Names and secrets that their surroundings give away, as programs print them, and what only looks like them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from samples import diagnosis, finding

from forensics.engine.pipeline import Options, analyse_with_data
from forensics.model import Fact, Kind, Source
from forensics.report import html
from forensics.report.redaction import Redactor, redact_diagnosis, told
from forensics.report.redaction.told_lines import told_by

NAME_AND_VALUE = [
    ("- name: DB_PASSWORD\n  value: correcthorse", "- name: DB_PASSWORD\n  value: secret-1"),
    ("{'name': 'DB_PASSWORD', 'value': 'tr-9x'}", "{'name': 'DB_PASSWORD', 'value': 'secret-1'}"),
    ('{"name":"MINIO_SECRET_KEY","value":"mAq8"},{"name":"LR","value":"0.1"}',
     '{"name":"MINIO_SECRET_KEY","value":"secret-1"},{"name":"LR","value":"0.1"}'),
    ("[rank0]: - name: HF_TOKEN\n[rank0]:   value: zz99yy88", "[rank0]: - name: HF_TOKEN\n[rank0]:   value: secret-1"),
    ("['t.py', '--api-key', 'qq11', '--password', 'plainword', '--lr', '0.1']",
     "['t.py', '--api-key', 'secret-1', '--password', 'secret-2', '--lr', '0.1']"),
    ('["--wandb-key",\n "abc"]', '["--wandb-key",\n "secret-1"]'),
    ("('password', 'two words')", "('password', 'secret-1')"),
    ("<password>x1</password><apiKey>k2</apiKey>", "<password>secret-1</password><apiKey>secret-2</apiKey>"),
    ("| hf_token | abc |\n| db_password | x y |", "| hf_token | secret-1 |\n| db_password | secret-2 |"),
    ("|param|value|\n|-|-|\n|hf_token|abc|\n|lr|0.1|", "|param|value|\n|-|-|\n|hf_token|secret-1|\n|lr|0.1|"),
    ("\u2502 api_key     \u2502 rk99 \u2502", "\u2502 api_key     \u2502 secret-1 \u2502"),
    ("api_key:\n  sk_zzz99", "api_key:\n  secret-1"),
    ("{'wandb': {'key': 'abcdKEY99', 'project': 'x'}}", "{'wandb': {'key': 'secret-1', 'project': 'x'}}"),
    ("wandb:\n  entity: null\n  key: abcdKEY99", "wandb:\n  entity: null\n  key: secret-1"),
]  # fmt: skip
KEYS = [
    ("wandb_key=abcd --wandb-key efgh hf_key='x y'", "wandb_key=secret-1 --wandb-key secret-2 hf_key='secret-3'"),
    ("config.wandb.key=abcd hparam.api.key: efgh", "config.wandb.key=secret-1 hparam.api.key: secret-2"),
    ("routing_key: R02ABCDEF0123456789AB", "routing_key: secret-1"),
    ("setenv DB_PASSWORD x\nset -gx GITLAB_TOKEN 'y z'", "setenv DB_PASSWORD secret-1\nset -gx GITLAB_TOKEN 'secret-2'"),
    ("environ({b'AZURE_STORAGE_KEY': b'bHVj'})", "environ({b'AZURE_STORAGE_KEY': b'secret-1'})"),
    ("password=p@ss,w0rd;x9&y lr=1", "password=secret-1 lr=1"),
    ("server=h;password=abc;Pooling=true", "server=host-1;password=secret-1;Pooling=true"),
    ("docker run --env SECRET_SAUCE=tomato -it train", "docker run --env SECRET_SAUCE=secret-1 -it train"),
    ("HOME=/home/mk1\0API_TOKEN=k82h\0PATH=/usr/bin", "HOME=/home/user-1\0API_TOKEN=secret-1\0PATH=/usr/bin"),
    ('Authorization: Digest username="vv", realm="x", nonce="dcd9", response="66ae"',
     'Authorization: Digest username="user-1", realm="x", nonce="secret-1", response="secret-2"'),
    ("cb=https%3A%2F%2Fapi.corp7.example%2Fcb%3Ftoken%3Dabcd1234%26x%3D1",
     "cb=https%3A%2F%2Fhost-1%2Fcb%3Ftoken%3Dsecret-1%26x%3D1"),
]  # fmt: skip
HOSTS = [
    ("recvValue failed on SocketImpl(fd=77, addr=[zeta9]:51744, remote=[zeta1]:29500): x",
     "recvValue failed on SocketImpl(fd=77, addr=[host-1]:51744, remote=[host-2]:29500): x"),
    ("SocketImpl(fd=<n>, addr=[zeta<n>]:<n>, remote=[zeta<n>]:<n>)", "SocketImpl(fd=<n>, addr=[host-1<n>]:<n>, remote=[host-1<n>]:<n>)"),
    ("The node 'zeta9.prod_4242_0' has failed to send a keep-alive heartbeat",
     "The node 'host-1_4242_0' has failed to send a keep-alive heartbeat"),
    ("NCCL WARN Call to connect to zeta9<42001> failed", "NCCL WARN Call to connect to host-1<42001> failed"),
    ("[zeta:0:4242 - 1] NCCL WARN x", "[host-1:0:4242 - 1] NCCL WARN x"),
    ("[1732740564.123456] [zeta:4242 :0]  ib_mlx5_log.c:177 UCX  ERROR x",
     "[1732740564.123456] [host-1:4242 :0]  ib_mlx5_log.c:177 UCX  ERROR x"),
    ("  Remote host:   zeta", "  Remote host:   host-1"),
    ("[mpiexec@zeta7] a\n[proxy:0:1@zeta8] b", "[mpiexec@host-1] a\n[proxy:0:1@host-2] b"),
    ("zeta: [2026-11-27 20:49:24,123] [INFO] [launch.py:1:main] x", "host-1: [2026-11-27 20:49:24,123] [INFO] [launch.py:1:main] x"),
    ("cmd = pdsh -S -f 1024 -w zeta1,zeta2 export A=1", "cmd = pdsh -S -f 1024 -w host-1,host-2 export A=1"),
    ("WORLD INFO DICT: {'zeta1': [0, 1], 'zeta2': [0]}", "WORLD INFO DICT: {'host-1': [0, 1], 'host-2': [0]}"),
    ("deepspeed --include zeta1:0,1@zeta2:2 t.py", "deepspeed --include host-1:0,1@host-2:2 t.py"),
    ("due to node failure: zeta043; reason", "due to node failure: host-1; reason"),
    ("slurmd: error: Node zeta077: Low RealMemory", "slurmd: error: Node host-1: Low RealMemory"),
    ("srun: error: zeta17,zeta18: tasks 0-1: Killed", "srun: error: host-1,host-2: tasks 0-1: Killed"),
    ("executed on host(s) <8*zeta01>, in queue <gpu>", "executed on host(s) <8*host-1>, in queue <gpu>"),
    ("lw-worker-3   0/1   OOMKilled   0   5m   10.2.3.4   zeta-k8s-7",
     "job-1-worker-3   0/1   OOMKilled   0   5m   ip-1   host-1"),
    ('X{gpu="3",Hostname="zeta1"} 79', 'X{gpu="3",Hostname="host-1"} 79'),
    ("vault.zetacorp.io: no; n3-a.hpc.zeta.cn down; a07.uni-zeta.de; b07.zeta.cluster",
     "host-1: no; host-2 down; host-3; host-4"),
]  # fmt: skip
PEOPLE = [
    ("/home/users/lchang/y /gpfs/home/s/sjones7/w /scratch/gpfs/kwil/o", "/home/users/user-3/y /gpfs/home/s/user-1/w /scratch/gpfs/user-2/o"),
    ("/p/home/jusers/stein2/x /n/home07/pfis/c", "/p/home/jusers/user-1/x /n/home07/user-2/c"),
    ("/afs/cell.example/user/f/fbian/w", "/afs/cell.example/user/f/user-1/w"),
    ("/project/def-smith/smithj/x", "/project/account-1/user-1/x"),
    (r"C:\Users\Maria Lopez\AppData", r"C:\Users\user-1\AppData"),
    ("path=%2Fhome%2Fkm10%2Fx", "path=%2Fhome%2Fuser-1%2Fx"),
    ("-rw-r--r-- 1 jbrown mlteam 12G Nov 27 20:49 ckpt.pt", "-rw-r--r-- 1 user-1 user-2 12G Nov 27 20:49 ckpt.pt"),
    ("drwxr-xr-x km3/labz 0 2026-11-27 20:49 ckpt/", "drwxr-xr-x user-1/user-2 0 2026-11-27 20:49 ckpt/"),
    ("akumar7    4242 99.0  1.2 1234 567 ?  Rl 10:00 5:00 python t.py", "user-1    4242 99.0  1.2 1234 567 ?  Rl 10:00 5:00 python t.py"),
    ("Accepted publickey for km2 from 10.20.30.70", "Accepted publickey for user-1 from ip-1"),
    ("CRON[123]: (km14) CMD (python t.py)", "CRON[123]: (user-1) CMD (python t.py)"),
]  # fmt: skip
SERVICES = [
    ("OSError: zlabs/s-7b is not a local folder and", "OSError: account-1/repo-1 is not a local folder and"),
    ("Dataset 'zlabs/priv' doesn't exist on the Hub", "Dataset 'account-1/repo-1' doesn't exist on the Hub"),
    ("from_pretrained('zlabs/s-9b')", "from_pretrained('account-1/repo-1')"),
    ("--model_name_or_path zlabs/s-8b --dataset_name zlabs/d", "--model_name_or_path account-1/repo-1 --dataset_name account-1/repo-2"),
    ("['--model_name_or_path', 'zlabs/s-8b']", "['--model_name_or_path', 'account-1/repo-1']"),
    ("https://storage.googleapis.com/storage/v1/b/zbkt-7/o/x", "https://storage.googleapis.com/storage/v1/b/bucket-1/o/x"),
    (f"zllm-worker-0_ml-x_pytorch-{'0a' * 32}.log:3", f"job-1-worker-0_namespace-1_pytorch-{'0a' * 32}.log:3"),
    ("in pod zllm-worker-0_ml-x(3f2b8c1d-7a64-4e19-9b05-d2c6e8f01a37)", "in pod job-1-worker-0_namespace-1(uuid-1)"),
    ("/pod3f2b8c1d-7a64-4e19-9b05-d2c6e8f01a39 pvc-3f2b8c1d-7a64-4e19-9b05-d2c6e8f01a39", "/poduuid-1 pvc-uuid-1"),
    ("https://swanlab.cn/@zuser/zproj/runs/abc123", "https://swanlab.cn/@account-1/project-1/runs/run-1"),
    ("https://scale.neptune.ai/zws/zproj/-/run/", "https://scale.neptune.ai/account-1/project-1/-/run/"),
    ("guid 0x506b4b0300abcd99 remoteGidsfe80::ba59:9f03:a8:e1c2", "guid guid-1 remoteGidsip-1"),
]  # fmt: skip
# One variable in all the ways in which an environment is printed; `N` and `v` are put in.
FORMS = [
    "N=v", "export N='v'", 'declare -x N="v"', "N: v", '  N: "v"', '{"A": "1", "N": "v"}', '{"A":"1","N":"v"}',
    r'"{\"A\": \"1\", \"N\": \"v\"}"', "{'A': '1', 'N': 'v'}", "environ({b'A': b'1', b'N': b'v'})", "('N', 'v')",
    "os.environ['N'] = 'v'", "- name: N\n  value: v", '{"name":"N","value":"v"}', "setenv N v", "ENV N v",
    "['A=1', 'N=v']", "| N | v |", "docker run -e N=v x", "A=1\0N=v\0B=2",
]  # fmt: skip
VARIABLES = [
    ("SLURM_JOB_ACCOUNT", "proj_zeta", "account-1"), ("SBATCH_ACCOUNT", "proj_zeta", "account-1"),
    ("WANDB_ENTITY", "zeta-ai", "account-1"), ("COMET_WORKSPACE", "zeta-ai", "account-1"),
    ("POD_NAMESPACE", "team-zeta", "namespace-1"), ("MY_POD_NAME", "zllm-w-3", "host-1"),
    ("NODE_NAME", "zgke-a3-7f2c", "host-1"), ("MASTER_ADDR", "zeta", "host-1"), ("SGE_O_HOST", "zlogin2", "host-1"),
    ("SLURM_CLUSTER_NAME", "zetacl", "host-1"), ("SLURM_CONF_SERVER", "zeta:6817", "host-1:6817"),
    ("SLURM_WORKING_CLUSTER", "zetacl:zctl1:6817:9728:109", "host-1:host-2:6817:9728:109"),
    ("RAY_ADDRESS", "zeta:6379", "host-1:6379"), ("HOROVOD_HOSTS", "zeta1:4,zeta2:4", "host-1:4,host-2:4"),
    ("S3_BUCKET", "zckpts", "bucket-1"), ("BUCKET_NAME", "zckpts", "bucket-1"),
    ("AZURE_STORAGE_ACCOUNT", "zacc", "bucket-1"), ("MLFLOW_RUN_ID", "9b2f7c1e4a6d8035b7e1c9f2a4d60815", "run-1"),
    ("CLEARML_TASK_ID", "9b2f7c1e4a6d8035b7e1c9f2a4d60815", "run-1"), ("WANDB_PROJECT", "zmoe", "project-1"),
    ("NEPTUNE_PROJECT", "zeta/moe", "account-1/project-1"), ("NB_USER", "zkowal", "user-1"),
    ("GITHUB_REPOSITORY", "zeta/moe", "account-1/repo-1"), ("MAIL", "/var/spool/mail/zkowal", "/var/spool/mail/user-1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "redacted"), VARIABLES)
def test_a_variable_goes_in_all_forms_of_an_environment(name: str, value: str, redacted: str) -> None:
    for form in FORMS:
        text, expected = (re.sub(r"\bv\b", v, re.sub(r"\bN\b", name, form)) for v in (value, redacted))
        redactor = Redactor()
        assert redactor.again(redactor.redact(text)) == expected
        assert redactor.redact(expected) == expected


@pytest.mark.parametrize(("text", "redacted"), NAME_AND_VALUE + KEYS + HOSTS + PEOPLE + SERVICES)
def test_it_goes(text: str, redacted: str) -> None:
    redactor = Redactor()
    assert redactor.again(redactor.redact(text)) == redacted
    assert redactor.redact(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "sort_key=len cache_key=abc12345 primary_key: id input_key=x9y8z7w6v dict_key=loss image_key: image_0",
        "num_key_value_heads=8 past_key_values=None key_padding_mask=None monitor_key=val_loss_1",
        "| token | count |\n| password | required |\n| key | str |",
        "- name: lr\n  value: 0.1\n- name: token_count\n  value: 12",
        "('key', 'value') ('token_ids', 'attention_mask') ['--num-tokens', '17', '--pad-token', '<pad>']",
        "r'local|logout|popd|pwd|read|readonly|set|shift|'",
        "api_key:\n  required: true\npassword:\nTraceback (most recent call last):",
        "self.ai = torch.io; import scipy.io; model.layers.0.de; h1.train.py; lib-7.so foo-1.x.sh",
        "v2.1.0.dev cfg.net-1.io = 3 os.path.to google.protobuf.internal train-2.py:88 a.md",
        "for node in graph.nodes: --exclude GLOB -w 4 error: Node failure std::vector<128> to Vec<16>",
        "{'loss': [0, 1], 'acc': [2]} addr=[::]:29500 remote=[localhost]:29500 [rank0:0:0]",
        "/home/conda/envs/train /project/src/train.py /project/llama2/configs/x https://pypi.org/project/typing-extensions/",
        "Permission -rw-r--r-- and r--r--r-- of the file",
        "--model_name_or_path outputs/checkpoint-500 --dataset_name ./data/train from_pretrained('meta-llama/L-8B')",
        "loss 2.3 | ppl 4 | tokens 8192 | key 1",
        "NODE_NAME: not set, POD_NAMESPACE is required, MASTER_ADDR=None WANDB_ENTITY: unset HOST=localhost",
        "S3_BUCKET = config.bucket; HOST = get_host(); os.environ['MASTER_ADDR'] = addr; BUCKET_NAME: str = name",
        "for name in ('MASTER_ADDR', 'MASTER_PORT', 'WANDB_ENTITY'): NODE_NAME == other",
        "HOST=x86_64-conda-linux-gnu RAY_ADDRESS=auto NUM_NODES=4 N_CLUSTERS=8 DDP_BUCKET=full GRAD_BUCKET: small",
        "FAULT_ADDR=deadbeef NET_ADDRESS: unknown CLUSTER: kmeans PROJECT: moe",
        "WANDB_ENTITY=$ENTITY POD_NAMESPACE=${NS} AZURE_STORAGE_ACCOUNT=<account> MASTER_ADDR=$(hostname)",
    ],
)
def test_it_stays(text: str) -> None:
    assert Redactor().redact(text) == text


def test_a_setting_that_another_one_names() -> None:
    facts = (
        Fact("config.env.0.name", "DB_PASSWORD", "config.yaml"),
        Fact("config.env.0.value", "plainword", "config.yaml"),
        Fact("config.env.1.name", "LR_NAME", "config.yaml"),
        Fact("config.env.1.value", "linear", "config.yaml"),
        Fact("config.args.0", "--password", "config.yaml"),
        Fact("config.args.1", "horse", "config.yaml"),
        Fact("config.args.2", "--steps", "config.yaml"),
        Fact("config.args.3", "horses", "config.yaml"),
    )
    redacted = redact_diagnosis(diagnosis(finding(), environment=facts))
    values = [fact.value for fact in redacted.environment]
    assert values == ["DB_PASSWORD", "secret-1", "LR_NAME", "linear", "--password", "secret-2", "--steps", "horses"]


def test_what_settings_name_is_learnt_from_files(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("env:\n- name: DB_PASSWORD\n  value: tr-ub4dor\n")
    (tmp_path / "rank0.log").write_text("step 1 loss 2.0\nRuntimeError: connection with tr-ub4dor refused\n")
    found = analyse_with_data([str(tmp_path)], Options(threads=1))
    told_lines = told(found.data)
    assert any(line.startswith("DB_PASSWORD=tr-") for line in told_lines)
    redactor = Redactor()
    redactor.learn(told_lines)
    assert redactor.again("connection with tr-ub4dor refused") == "connection with secret-1 refused"


def _learnt(text: str, folder: Path, name: str = "job.log") -> Redactor:
    (folder / name).write_text(text)
    redactor = Redactor()
    redactor.learn(told_by([Source(name, folder / name, Kind.LOG, (folder / name).stat().st_size)]))
    return redactor


def test_who_ran_it_is_learnt_from_the_file_of_a_tracker(tmp_path: Path) -> None:
    redactor = _learnt("run_name: fine-crab-9\nstatus: 3\nuser_id: zkvolesia\n", tmp_path, "meta.yaml")
    assert redactor.again("no such file: ckpt-zkvolesia/3") == "no such file: ckpt-user-1/3"


def test_hosts_that_a_script_lists_a_line_each_are_learnt(tmp_path: Path) -> None:
    listed = "This job runs on the following processors:\nzgw021\nzgw022\nstep 1 loss 2.0\nzgw023\n"
    redactor = _learnt(listed, tmp_path)
    assert redactor.again("zgw021 zgw022 zgw023") == "host-1 host-2 zgw023"
    prose = _learnt("We run on the following nodes: all\nzgw021\n", tmp_path)
    assert prose.again("zgw021") == "zgw021"


def test_a_captured_line_is_read_from_its_beginning() -> None:
    line = "zeta: [2026-11-27 20:49:24,123] [ERROR] [launch.py:1:x] killed"
    redacted = redact_diagnosis(diagnosis(finding(captures={"message": line})))
    assert redacted.findings[0].captures["message"] == line.replace("zeta", "host-1")


@pytest.mark.parametrize("word", ["adam", "lion", "albert", "roberta", "gemma"])
def test_a_user_called_like_a_program_keeps_the_word(word: str) -> None:
    redactor = Redactor()
    text = (
        f"/home/{word}/x Optimizer: {word} site-packages/torch/optim/{word}.py /opt/torch/optim/{word}/x /data/{word}/x"
    )
    expected = text.replace(f"/home/{word}", "/home/user-1").replace(f"/data/{word}", "/data/user-1")
    assert redactor.redact(text) == expected


def test_a_host_called_like_a_program_goes() -> None:
    assert Redactor().redact("srun: error: titan: task 3: Killed") == "srun: error: host-1: task 3: Killed"


def test_lines_around_evidence_are_read_together_and_without_colours(tmp_path: Path) -> None:
    log = tmp_path / "rank0.log"
    log.write_text(
        "step 1 loss 2.0\nTraceback (most recent call last):\n"
        '  File "/opt/train.py", line 1, in <module>\n    main()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
        "of which 1.5 GiB is free.\n"
        "- name: DB_PASSWORD\n  value: correcthorse\n\x1b[36mpassword\x1b[0m=\x1b[35mstaple9x\x1b[0m\n"
    )
    found = analyse_with_data([str(tmp_path)], Options(threads=1))
    material = html.gather(found.diagnosis, found.data)
    assert "correcthorse" in html.render(material)
    page = html.render(html.redact(material))
    assert "DB_PASSWORD" in page
    assert "correcthorse" not in page
    assert "staple9x" not in page


@pytest.mark.parametrize(
    "text",
    [
        "/tmp/nccl_trace_rank_7",
        "run/dumps/nccl_trace_rank_0",
        "/root/ray_results/mnist",
        "/app/ray_train/loop.py",
        "/logs/nccl_debug.log",
        "/work/nccl_tests/",
    ],
)
def test_names_that_nccl_and_ray_give_to_files_are_no_users(text: str) -> None:
    assert "user-" not in Redactor().redact(text)


def test_a_temporary_folder_of_rays_bears_its_user() -> None:
    assert Redactor().redact("/tmp/ray_mkessler/session") == "/tmp/ray_user-1/session"


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("httpx HTTP Request: POST https://vexoai.openai.azure.com/openai/deployments", "https://host-1/"),
        ("cannot reach https://vexoai.cognitiveservices.azure.com/api", "https://host-1/"),
        ("cannot reach https://vexai.services.ai.azure.com/api", "https://host-1/"),
        ("cannot reach https://vexsearch.search.windows.net/api", "https://host-1/"),
        ("no route to vexreg.azurecr.io now", "host-1"),
        ("no route to vexes.us-east-1.aws.found.io now", "host-1"),
        ("no route to vexapp.modal.run now", "host-1"),
        ("no route to vexq.supabase.co now", "host-1"),
        ("cannot reach https://vexsa.blob.core.windows.net/api", "https://bucket-1.blob.core.windows.net/"),
    ],
)
def test_hosts_that_a_customer_rents_of_a_cloud_go(text: str, stays: str) -> None:
    redacted = Redactor().redact(text)
    assert "vex" not in redacted
    assert stays in redacted


@pytest.mark.parametrize(
    "host", ["management.azure.com", "portal.azure.com", "login.windows.net", "openai.azure.com", "huggingface.co"]
)
def test_sites_of_clouds_stay(host: str) -> None:
    assert host in Redactor().redact(f"HTTP Request: GET https://{host}/x")


def test_a_bucket_that_a_caller_may_not_read_goes() -> None:
    said = "caller does not have storage.objects.get access to "
    assert Redactor().redact(f"{said}corpus-a/shards/0.tar") == f"{said}bucket-1/shards/0.tar"
    bare = f"{said}the Google Cloud Storage object. Permission denied"
    assert Redactor().redact(bare) == bare
    named = f"{said}the Google Cloud Storage bucket corpus-a."
    assert Redactor().redact(named) == f"{said}the Google Cloud Storage bucket bucket-1."


def test_the_message_of_an_exception_called_like_a_key_is_no_secret() -> None:
    said = "comet_ml.exceptions.InvalidAPIKey: The given API key 'secret-1' is invalid"
    assert Redactor().redact(said.replace("secret-1", "Kd83hGs7PlAntQz91LmXw2VbT")) == said
    assert Redactor().redact("InvalidAPIKey: Kd83hGs7PlAntQz91 is not known") == "InvalidAPIKey: secret-1 is not known"
    assert Redactor().redact("APIKey: Thegiven one") == "APIKey: secret-1 one"
    bare = "COMET ERROR: The given API key Kd83hGs7PlAntQz91LmXw2VbT is invalid"
    assert "secret-1 is invalid" in Redactor().redact(bare)


@pytest.mark.parametrize("head", ["[loop.py:88]", "[engine_v2.py:2671]", "[reducer.cpp:3]"])
def test_a_file_of_source_at_the_head_of_a_line_is_no_host(head: str) -> None:
    """Open MPI puts a host and a pid there."""
    assert Redactor().redact(f"{head} step 3") == f"{head} step 3"
    assert Redactor().redact("[qx7.cs.una.py:88] step 3") == "[host-1:88] step 3"


@pytest.mark.parametrize(
    "text",
    [
        "   mlx5_core 0000:3b:00.0: Port 1 link down",
        "LustreError: 11-0: vega-OST0012-osc-ffff: operation ost_write to node 127.0.0.1@o2ib failed: rc = -107",
        "LNet: Added LNI 127.0.0.1@tcp1 [8/256/0/180]",
        "Last login: Mon Mar  2 09:01:11 2026",
        "Signing key: ssh-rsa is the default, and rejoining by ssh-ed25519 works too",
    ],
)
def test_ports_targets_and_networks_are_no_hosts(text: str) -> None:
    assert Redactor().redact(text) == text


def test_a_service_behind_a_password_gives_its_name_to_no_variable() -> None:
    redactor = Redactor()
    shown = redactor.redact("REDIS_URL=redis://:Kx9mmQ2u@redis:6379/0")
    assert shown == "REDIS_URL=redis://:secret-1@host-1:6379/0"
    assert redactor.redact("waiting for redis, see REDIS_URL") == "waiting for redis, see REDIS_URL"
    redactor.redact("HOSTNAME=vexlark9 vexlark.corp.internal alice@zephyrine:~$ ls")
    assert redactor.redact("ZEPHYRINE_URL is unset on zephyrine").startswith("ZEPHYRINE_URL is unset on host-")


def test_rows_of_sinfo_go_also_where_a_host_is_a_word() -> None:
    row = "vexlark        1    gpu*        drain "
    assert Redactor().redact(row) == row.replace("vexlark", "host-1")
