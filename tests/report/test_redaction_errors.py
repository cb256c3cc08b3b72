"""Names that errors of libraries and tables of tools give away, in every form that is shared; and what only looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.cli.analyze import _page
from forensics.cli.output import redacted, render
from forensics.engine.pipeline import Options, analyse_with_data
from forensics.report.redaction import Redactor
from forensics.signatures.schema import load_catalogue

HOSTS = [
    ("HTTPSConnectionPool(host='zproxy', port=3128): Max retries", "HTTPSConnectionPool(host='host-1', port=3128): Max retries"),
    ('connection to server at "zpg" (10.7.3.2), port 5432 failed', 'connection to server at "host-1" (ip-1), port 5432 failed'),
    ("Can't connect to MySQL server on 'zmysql' ([Errno 111]", "Can't connect to MySQL server on 'host-1' ([Errno 111]"),
    ("Unknown MySQL server host 'zmysql' (-2)", "Unknown MySQL server host 'host-1' (-2)"),
    ("zmongo1:27017: [Errno -2] Name or service not known, [<ServerDescription ('zmongo1', 27017) x>]",
     "host-1:27017: [Errno -2] Name or service not known, [<ServerDescription ('host-1', 27017) x>]"),
    ("<BrokerConnection host=zkaf1:9092 <connecting>", "<BrokerConnection host=host-1:9092 <connecting>"),
    ("DNS resolution failed for zetcd:2379: C-ares status is x qtype=A name=zetcd is_balancer=0",
     "DNS resolution failed for host-1:2379: C-ares status is x qtype=A name=host-1 is_balancer=0"),
    ("Call From znode12/10.7.1.2 to znn:8020 failed on connection exception", "Call From host-2/ip-1 to host-1:8020 failed on connection exception"),
    ("Failed to connect to master zmaster/10.7.1.9:7077", "Failed to connect to master host-1/ip-1:7077"),
    ("java.net.UnknownHostException: znn", "java.net.UnknownHostException: host-1"),
    ("Hostname mismatch, certificate is not valid for 'zminio'.", "Hostname mismatch, certificate is not valid for 'host-1'."),
    ("Server 'zsftp' not found in known_hosts", "Server 'host-1' not found in known_hosts"),
    ("Failed to resolve 'zes' ([Errno -2] Name or service not known)", "Failed to resolve 'host-1' ([Errno -2] Name or service not known)"),
    ('srun: error: Unable to resolve "znode": Unknown server error', 'srun: error: Unable to resolve "host-1": Unknown server error'),
    ("can't find address for host znode, check slurm.conf", "can't find address for host host-1, check slurm.conf"),
    ("curl: (6) Could not resolve host: zproxy", "curl: (6) Could not resolve host: host-1"),
    ("dial tcp: lookup zreg on 10.7.0.53:53: no such host", "dial tcp: lookup host-1 on ip-1:53: no such host"),
    ("RuntimeError: cannot reach host zml4", "RuntimeError: cannot reach host host-1"),
    ("lost connection to host zbox-7, giving up", "lost connection to host host-1, giving up"),
    ("cannot reach host memory of 8 GiB", "cannot reach host memory of 8 GiB"),
    ("rpc to zsched1:8786 timed out", "rpc to host-1:8786 timed out"),
    ("clickhouse+native://default:zck1@zch/db", "clickhouse+native://default:secret-1@host-1/db"),
    ("uname_result(system='Linux', node='zbox', release='5.15')", "uname_result(system='Linux', node='host-1', release='5.15')"),
    ("RUNPOD_POD_HOSTNAME=k9x2m1q8zt4b7c-64411aa3", "RUNPOD_POD_HOSTNAME=host-1"),
    ("ubuntu@192-222-52-117:~/llm$ torchrun", "ubuntu@host-1:~/llm$ torchrun"),
    ("zfiler:/export/home          10T  9.9T  100G  99% /home", "host-1:/export/home          10T  9.9T  100G  99% /home"),
    ("//zsmb/share on /mnt/s type cifs (rw,domain=ZCORP)", "//host-1/share on /mnt/s type cifs (rw,domain=account-1)"),
    ("10.7.1.2 znode12 znode12-ib0", "ip-1 host-1 host-2"),
    ("python 4412 TCP znode:41022->zother:29500 (ESTABLISHED)", "python 4412 TCP host-1:41022->host-2:29500 (ESTABLISHED)"),
    ("tcp 0 0 znode:ssh zws4:51020 ESTABLISHED", "tcp 0 0 host-2:ssh host-1:51020 ESTABLISHED"),
    ("logs in node_zgpu13/rank3.log", "logs in node_host-1/rank3.log"),
]  # fmt: skip
PEOPLE = [
    ('User "ztv" cannot list resource "pods" in API group "" in the namespace "team-z"',
     'User "user-1" cannot list resource "pods" in API group "" in the namespace "namespace-1"'),
    ('User "system:serviceaccount:team-z:ztrainer" cannot get', 'User "system:serviceaccount:namespace-1:user-1" cannot get'),
    ('access=WRITE, inode="/d":zadm:zgrp:drwxr-xr-x', 'access=WRITE, inode="/d":user-1:user-2:drwxr-xr-x'),
    ("systemd[1]: Started Session 41 of User ztv.", "systemd[1]: Started Session 41 of User user-1."),
    ("Disk quotas for usr ztv (uid 1007):", "Disk quotas for usr user-1 (uid 1007):"),
    ("Cluster: zhpc", "Cluster: host-1"),
    ("User/Group: ztv/zgrp", "User/Group: user-1/user-2"),
    ("Signed-off-by: Zed Okonkwo <lo@z.example>", "Signed-off-by: user-1 <email-1>"),
    ("commit 3f2a9bc (HEAD -> ztveit/fix-lr)", "commit 3f2a9bc (HEAD -> user-1/fix-lr)"),
    ("Launching a new cluster 'sky-4c1f-ztveit'.", "Launching a new cluster 'sky-4c1f-user-1'."),
    ("/pscratch/sd/z/ztveit/x /global/cfs/cdirs/m4242/ztveit/x", "/pscratch/sd/z/user-1/x /global/cfs/cdirs/account-1/user-1/x"),
    ("/home/groups/zpi/ztveit/x", "/home/groups/account-1/user-1/x"),
    ("/scratch/zpi_root/zpi0/ztveit/x", "/scratch/account-1/account-1/user-1/x"),
    ("/lus/eagle/projects/ProteinFM/ztveit/x", "/lus/eagle/projects/account-1/user-1/x"),
    ("/expanse/lustre/scratch/ztveit/temp_project/x", "/expanse/lustre/scratch/user-1/temp_project/x"),
    ("/iopsstor/scratch/cscs/ztveit/x", "/iopsstor/scratch/cscs/user-1/x"),
    ("/network/scratch/z/zed.veit/x", "/network/scratch/z/user-1/x"),
    ("/groups/gcb50243/ztveit/x /dss/dsshome1/0C/zb42bux/x", "/groups/account-1/user-1/x /dss/dsshome1/0C/user-2/x"),
    ("/cephfs/volumes/hpc_data_usr/k1234567/x /ptmp/ztveit/x", "/cephfs/volumes/hpc_data_usr/user-2/x /ptmp/user-1/x"),
    ("/fsx/ztveit/miniconda3/bin/python", "/fsx/user-1/miniconda3/bin/python"),
]  # fmt: skip
SERVICES = [
    ("pull access denied for zteam/zllm, repository does not exist", "pull access denied for account-1/repo-1, repository does not exist"),
    ("remote: Repository zteam/zmodel not found.", "remote: Repository account-1/repo-1 not found."),
    ("in organization org-AbCdEfZorv12 on tokens. Project: proj_xYzZorv77", "in organization account-1 on tokens. Project: account-2"),
    ("AZUREML_ARM_WORKSPACE_NAME=ws-z CLOUD_ML_PROJECT_ID=839211445577", "AZUREML_ARM_WORKSPACE_NAME=project-1 CLOUD_ML_PROJECT_ID=project-2"),
    ("https://modal.com/apps/ztv/main/ap-Qx7Zk2Lm9Pp1", "https://modal.com/apps/account-1/main/run-1"),
    ("HFConfig(repo='zteam/zllm')", "HFConfig(repo='account-1/repo-1')"),
]  # fmt: skip
SECRETS = [
    (r"send: b'POST /v1 HTTP/1.1\r\nHost: zapi\r\nAuthorization: Token ztok88\r\nOcp-Apim-Subscription-Key: zocp55\r\n'",
     r"send: b'POST /v1 HTTP/1.1\r\nHost: host-1\r\nAuthorization: Token secret-1\r\nOcp-Apim-Subscription-Key: secret-2\r\n'"),
    ("NRAK-ZORV77ABCDEFGHIJKLMNOPQRSTU pul-0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d", "secret-1 secret-2"),
    ("SSHPASS=sp77x", "SSHPASS=secret-1"),
    ("'Type': 'SecureString', 'Value': 'plain-7781'", "'Type': 'SecureString', 'Value': 'secret-1'"),
    ("vastai set api-key 3f8e9a0b1c2d3e4f5a6b7c8d9e0f1a2b", "vastai set api-key secret-1"),
    ("train.py +secrets.hf=zhf88", "train.py +secrets.hf=secret-1"),
    ("Passwort: zpw88 mot de passe : zpw77 \u5bc6\u7801\uff1azpw66", "Passwort: secret-1 mot de passe : secret-2 \u5bc6\u7801\uff1asecret-3"),
    ("hf_token\n  Input should be a valid string [type=string_type, input_value=b'ztok99', input_type=bytes]",
     "hf_token\n  Input should be a valid string [type=string_type, input_value=b'secret-1', input_type=bytes]"),
    ("ipdb> p os.environ['HF_TOKEN']\n'ztok88plain'", "ipdb> p os.environ['HF_TOKEN']\n'secret-1'"),
]  # fmt: skip
TABLES = [
    ("JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME\n"
     "88123   ztveitan RUN gpu_h100   zlogin      16*znode:16*zother  train_llm  Nov 28 09:00",
     "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME\n"
     "88123   user-1 RUN gpu_h100   host-1      16*host-2:16*host-3  train_llm  Nov 28 09:00"),
    ("Job id            Name             User              Time Use S Queue\n"
     "----------------  ---------------- ----------------  -------- - -----\n"
     "88123.zpbs        train_llm        ztveit            12:00:01 R gpuq",
     "Job id            Name             User              Time Use S Queue\n"
     "----------------  ---------------- ----------------  -------- - -----\n"
     "88123.host-1        train_llm        user-1            12:00:01 R gpuq"),
    ("USER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n"
     "ztveit   pts/0    zws4             08:01    1:00   0.2s   0.1s vim train.py\n"
     "Traceback (most recent call last):\nvalue    of       loss  is nan at step 3 of 9",
     "USER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n"
     "user-1   pts/0    host-1             08:01    1:00   0.2s   0.1s vim train.py\n"
     "Traceback (most recent call last):\nvalue    of       loss  is nan at step 3 of 9"),
    ("COMMAND   PID     USER   FD   TYPE DEVICE SIZE/OFF NODE NAME\npython   4413   ztveit  mem    CHR  195,0          /dev/nvidia0 x",
     "COMMAND   PID     USER   FD   TYPE DEVICE SIZE/OFF NODE NAME\npython   4413   user-1  mem    CHR  195,0          /dev/nvidia0 x"),
]  # fmt: skip
STAY = [
    "Ranks 0-2 timed out, rank 3 is silent. Its last line (log.3:29) and stderr.17:400: KeyError",
    "recall@10.mean 0.41 acc@top1.val 0.71 mAP@0.5:0.95 0.33 NDCG@10.test=0.31 hit@k.dev=0.8 pass@1: 0.31",
    "gan.G.net loaded, actor.net, critic.local",
    "Hostname mismatch; hostname verification failed; Lost connection to MySQL server at 'reading initial packet'",
    "could not resolve dependency torch; failed to resolve 'optimizer'; no such host memory; cannot find node",
    "connection timed out at train.py:188 layer1:64 conv2:1024 eth0:1234 rank3:17 step-10:20",
    "('layer1', 256) ('conv2', 64) to 3/4 of runs/10.1 results/12",
    "proj_out proj_weight org-mode up_proj_7 user cannot read; in the namespace of std; User 'x' prefers",
    "On branch feature/x (HEAD -> main) refs/heads/fix/y origin/dev/z Cluster: the nodes of rack",
    "/opt/conda/.config /scratch/s/3 /usr/share/m/x /groups /fsx/checkpoints/x /fsx/data/.cache node_rank0/ node_0/ host_a/",
    "token Input should be; input_value=3; secrets.py=1 module.secrets; parola",
    "from_pretrained('state-spaces/mamba-2.8b') load_dataset('cerebras/SlimPajama-627B')",
    r"a\r\nloss 3.0\r\nstep 4",
    "USER wrote FROM here\nthis is no table at all",
    "tcp 0 0 10 x; TCP timeout: y; 3.14 pi; 12.loss  x",
]


def shown(text: str) -> str:
    redactor = Redactor()
    return redactor.again(redactor.redact(text))


@pytest.mark.parametrize(("text", "expected"), HOSTS + PEOPLE + SERVICES + SECRETS)
def test_it_goes(text: str, expected: str) -> None:
    assert shown(text) == expected
    assert shown(expected) == expected


@pytest.mark.parametrize(("text", "expected"), TABLES)
def test_what_a_head_of_a_table_names_goes(text: str, expected: str) -> None:
    assert "\n".join(Redactor().lines(text.split("\n"))) == expected


@pytest.mark.parametrize("text", STAY)
def test_it_stays(text: str) -> None:
    assert shown(text) == text
    assert "\n".join(Redactor().lines(text.split("\n"))) == text


@pytest.mark.parametrize("name", ["theta", "delta", "long", "main"])
def test_a_word_is_replaced_where_a_host_or_a_user_stands_only(name: str) -> None:
    text = shown(f"ztv@{name}:~$ run {name} 0.3, /home/{name}/x and {name} again")
    assert text.startswith("user-") and f"@{name}" not in text.replace("main", "-")
    assert f"run {name} 0.3" in text and f"{name} again" in text and f"/home/{name}" not in text


def test_no_form_that_is_shared_names_them(tmp_path: Path) -> None:
    said = ["HTTPConnectionPool(host='zproxy', port=3128): Max retries", "Failed to connect to master zmaster/10.7.1.9:7077",
            'User "ztveit" cannot list resource "pods" in the namespace "team-zorv"', "pull access denied for zteam/zllm"]  # fmt: skip
    table = "USER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\nzother   pts/0    zws4             08:01    1:00   0.2s   0.1s vim\n"
    steps = "".join(f"2026-11-28 09:10:{n:02d} INFO step {n} loss {3 - n / 100:.3f}\n" for n in range(12))
    frame = 'Traceback (most recent call last):\n  File "/srv/zother-code/train.py", line 91, in main\n    run()\n'
    (tmp_path / "rank0.log").write_text(steps + table + frame + f"RuntimeError: {'; '.join(said)}\n")
    catalogue = load_catalogue()
    found = analyse_with_data((str(tmp_path),), Options(threads=1), catalogue)
    forms = {form: render(redacted(found, form, True, ()), form, catalogue, to_file=True)
             for form in ("markdown", "github", "junit", "sarif", "terminal", "json")}  # fmt: skip
    forms["html"] = _page(found, True, ())
    for form, text in forms.items():
        for name in ("zproxy", "zmaster", "ztveit", "team-zorv", "zteam", "zllm", "zother", "zws4", "10.7.1.9"):
            assert name not in text, (form, name)
    assert "zproxy" in render(found.diagnosis, "markdown", catalogue, to_file=True)
