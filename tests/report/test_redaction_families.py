"""Families of names, options and places that give a secret or a name away, and what only looks like them."""

from __future__ import annotations

import pytest

from forensics.report.html.context import HIDDEN, Context, without_keys
from forensics.report.redaction import Redactor
from forensics.report.redaction.letters import as_seen

GOES = [
    # settings by a word, a call, far apart
    ("setx /M MY_API_TOKEN qw9x", "setx /M MY_API_TOKEN secret-1"),
    ("$env:DB_PASSWORD = 'abc'", "$env:DB_PASSWORD = 'secret-1'"),
    ("npm config set //r/:_authToken=abc12345x", "npm config set //r/:_authToken=secret-1"),
    ("git config --global http.password hunter", "git config --global http.password secret-1"),
    ("os.environ.setdefault('MINIO_SECRET_KEY', 'ab')", "os.environ.setdefault('MINIO_SECRET_KEY', 'secret-1')"),
    ("  wandb_api_key ............ abcd", "  wandb_api_key ............ secret-1"),
    ("os.environ['HF_TOKEN'] = 'ab9'; cfg[\"password\"]=\"x 9\"", "os.environ['HF_TOKEN'] = 'secret-1'; cfg[\"passwo"
        "rd\"]=\"secret-2\""),
    ("%env HF_TOKEN ab9x; ENV DB_PASSWORD x9", "%env HF_TOKEN secret-1; ENV DB_PASSWORD secret-2"),
    ("fs.s3a.secret.key=x9 fs.azure.account.key.a7.dfs.core.windows.net=ab==", "fs.s3a.secret.key=secret-1 fs.azure."
        "account.key.a7.dfs.core.windows.net=secret-2"),
    ("wandb.login(key=\"abc9def\"); secret_id=s9", "wandb.login(key=\"secret-1\"); secret_id=secret-2"),
    ("gh secret set N --body x9; htpasswd -nb bob x9; openssl enc -k x9 -in a", "gh secret set N --body secret-1; ht"
        "passwd -nb bob secret-1; openssl enc -k secret-1 -in a"),
    # programs
    ("mysqldump -ualice7 -pA9 db", "mysqldump -ualice7 -pA9 db".replace("alice7", "user-1")),
    ("psql -h pg7 -U alice7 -p 5432 db", "psql -h host-1 -U user-1 -p 5432 db"),
    ("curl -u a7:b9 --proxy-user=c7:d9 x", "curl -u user-1:secret-1 --proxy-user=user-2:secret-2 x"),
    ("7z x -phunter9 a.7z", "7z x -psecret-1 a.7z"),
    ("ipmitool -H bmc7 -U adm7 -P pw9 sel list", "ipmitool -H host-1 -U user-1 -P secret-1 sel list"),
    ("lftp -u alice7,pw9 sftp", "lftp -u user-1,secret-1 sftp"),
    ("echo 'pw9' | sudo -S reboot", "echo 'secret-1' | sudo -S reboot"),
    ("ssh -p 22 -lalice7 zeta7 nvidia-smi", "ssh -p 22 -luser-1 host-1 nvidia-smi"),
    ("ssh -J bob@zeta1:2222,zeta2 zeta3", "ssh -J user-1@host-1:2222,host-2 host-3"),
    ("pdsh -w zeta[01-04] -l bob7 date; srun -w zeta7,zeta8 x", "pdsh -w nodes-1 -l user-1 date; srun -w host-1,host"
        "-2 x"),
    ("plink -pw pw9 bob7@zeta7", "plink -pw secret-1 user-1@host-1"),
    ("net use Z: \\\\filer7\\x pw9 /user:CORP\\bob7", "net use Z: \\\\host-1\\x secret-1 /user:CORP\\user-1"),
    ("runas /user:CORP\\bob7 cmd; msbuild /p:DbPassword=abc", "runas /user:CORP\\user-1 cmd; msbuild /p:DbPassword=s"
        "ecret-1"),
    ("PSCredential('CORP\\bob7', $pw)", "PSCredential('CORP\\user-1', $pw)"),
    ("WWW-Authenticate: NTLM oYG2MIGzAB", "WWW-Authenticate: NTLM secret-1"),
    ("hosts: zetaA/0*8+zetaB/0*8", "hosts: host-1/0*8+host-2/0*8"),
    ("LSB_HOSTS=\"zeta7 zeta8\" A=1", "LSB_HOSTS=\"host-1 host-2\" A=1"),
    ("Access denied for user 'bob7'@'zeta7'", "Access denied for user 'user-1'@'host-1'"),
    ("/p/scratch/cstdl/bobby/x /leonardo_work/IscrC_x/eveline/y", "/p/scratch/account-1/user-1/x /leonardo_work/acco"
        "unt-2/user-2/y"),
    ("S/N: C0123ABC9", "S/N: serial-1"),
    # headers, connection strings, cookies
    ("X-Auth-Key: abcd", "X-Auth-Key: secret-1"),
    ("authorization: AWS4-HMAC-SHA256 Credential=x9/20261127", "authorization: AWS4-HMAC-SHA256 secret-1"),
    ("mysql://u7:p/a@s#s@db7/x", "mysql://user-1:secret-1@host-1/x"),
    ("'session_id': 'a1b2c3d4e5'", "'session_id': 'secret-1'"),
    ("Data Source=sql7;Initial Catalog=x;User ID=alice7;Password={a;b9};", "Data Source=host-1;Initial Catalog=x;Use"
        "r ID=user-1;Password=secret-1;"),
    # lines above
    ("args:\n  - --hub-token\n  - tk9\n  - --lr\n  - '1'", "args:\n  - --hub-token\n  - secret-1\n  - --lr\n  - '1'"),
    ("data:\n  wandb: NGYx\n  x: Zm9v\ntype: Opaque", "data:\n  wandb: secret-1\n  x: secret-2\ntype: Opaque"),
    ("Authorization: Bearer\n  ab12cd34-xx", "Authorization: Bearer\n  secret-1"),
    # hosts
    ("<34>1 2026-11-28T09:12:44.003Z zeta7 trainer 4242 ID47 - x", "<34>1 2026-11-28T09:12:44.003Z host-1 trainer 42"
        "42 ID47 - x"),
    ("Nov 28 09:12:44 zeta sudo: bob7 : TTY=x", "Nov 28 09:12:44 host-1 sudo: user-1 : TTY=x"),
    ("zeta7,10.2.3.4 ssh-ed25519 x", "host-1,ip-1 ssh-ed25519 x"),
    ("exec_vnode = (zeta7:ncpus=64)+(zeta8:ncpus=64)", "exec_vnode = (host-1:ncpus=64)+(host-2:ncpus=64)"),
    ("LSB_HOSTS=zeta7 zeta8 zeta9", "LSB_HOSTS=host-1 host-2 host-3"),
    ("mpirun -np 8 -H zeta7:4,zeta8:4 x", "mpirun -np 8 -H host-1:4,host-2:4 x"),
    ("(host=zeta7)", "(host=host-1)"),
    ("License path: 27005@zmatlab:", "License path: 27005@host-1:"),
    ("export LM_LICENSE_FILE=27000@zlic1:27000@zlic2", "export LM_LICENSE_FILE=27000@host-1:27000@host-2"),
    (r"No such file or directory: '\\\\znas01\\datasets\\train.json'", r"No such file or directory: '\\\\host-1\\datasets\\train.json'"),
    (r"copy \\znas01\share\x", r"copy \\host-1\share\x"),
    ("Stale file handle: '/net/znas02/data/shard.tar'", "Stale file handle: '/net/host-1/data/shard.tar'"),
    ("Building remotely on zgpu-03 (linux a100) in workspace /x", "Building remotely on host-1 (linux a100) in workspace /x"),
    # links that open what they name to whoever has them
    ("https://www.dropbox.com/scl/fi/abcdefgh7/d.zip?rlkey=k7k7k7&dl=1",
     "https://host-1/scl/fi/secret-1/d.zip?rlkey=secret-2&dl=1"),
    ("https://zorg.sharepoint.com/:u:/s/ml/EaBcShare77?e=qq11", "https://host-1/:u:/s/ml/secret-1?e=qq11"),
    ("https://drive.google.com/file/d/1TnPqRsTuVw/view https://drive.google.com/uc?export=download&id=1TnPqRsTuV2",
     "https://drive.google.com/file/d/secret-1/view https://drive.google.com/uc?export=download&id=secret-2"),
    ("https://www.notion.so/zorg/Run-31-9f8e7d6c5b4a39281706f5e4d3c2b1a0", "https://host-1/account-1/Run-31-secret-1"),
    ("https://sctapi.ftqq.com/SCT998TkvAbCd.send https://api.day.app/Bark77ZzYy/t",
     "https://host-1/secret-1.send https://host-2/secret-2/t"),
    # homes by the name of the folder above, groups and users above code
    ("/nethome/bobby/x /storage/homefs/bobby /zhome/ab/c/bobby/x /nfs/nhome/live/bobby/x /itet-stor/bobby/net_scratch/x",
     "/nethome/user-1/x /storage/homefs/user-1 /zhome/ab/c/user-1/x /nfs/nhome/live/user-1/x /itet-stor/user-1/net_scratch/x"),
    ("/mnt/lustre/work/zgroup/bobby/x /gpfs/gibbs/project/zgroup/bobby/x /SAN/medic/zgroup/bobby/x",
     "/mnt/lustre/work/account-1/user-1/x /gpfs/gibbs/project/account-1/user-1/x /SAN/medic/account-1/user-1/x"),
    ('File "/vast7/projects/zgroup/bobby/exp7/train.py", line 9', 'File "/vast7/projects/account-1/user-1/exp7/train.py", line 9'),
    ("mount -t cifs //filer/share /mnt", "mount -t cifs //host-1/share /mnt"),
    ("zeta7   Sat Nov 28 09:12:44 2026  550.54.15", "host-1   Sat Nov 28 09:12:44 2026  550.54.15"),
    # people
    ("[0] NVIDIA H100 | 31'C,   0 % | 412 / 81559 MB | bob7(412M) eve:python/17(9M)",
     "[0] NVIDIA H100 | 31'C,   0 % | 412 / 81559 MB | user-1(412M) user-2:python/17(9M)"),
    ("/lustre/orion/gen150/scratch/bobby/x", "/lustre/orion/account-1/scratch/user-1/x"),
    ("/work/01234/bobby/x /ocean/projects/cis250/eveline/y", "/work/account-1/user-1/x /ocean/projects/account-2/use"
        "r-2/y"),
    ("Author: Quinn Z <q@z.example>", "Author: user-1 <email-1>"),
    # trackers outside of addresses
    ("Namespace(wandb_entity='zai', wandb_project='moe', wandb_run_name=None)",
     "Namespace(wandb_entity='account-1', wandb_project='project-1', wandb_run_name=None)"),
    ("  wandb_project ............ moe\n  wandb_exp_name ........... brave-7\n  wandb_entity .............\n  lr ....... 0.1",
     "  wandb_project ............ project-1\n  wandb_exp_name ........... run-1\n  wandb_entity .............\n  lr ....... 0.1"),
    ("permission denied to access zai/moe/p9q8r7s6; wandb agent --count 5 zai/moe/q1w2e3r4; wandb agent q1w2e3r4",
     "permission denied to access account-1/project-1/run-1; wandb agent --count 5 account-1/project-1/run-2; wandb agent run-2"),
    ("project 'zai/moe' not found; artifact 'zai/moe/corp:v3' not found; run.use_artifact('moe/corp:latest')",
     "project 'account-1/project-1' not found; artifact 'account-1/project-1/repo-1:v3' not found; run.use_artifact('project-1/repo-1:latest')"),
    ("api.run('zai/moe/p9q8r7s6'); wandb.Api().runs('zai/moe')", "api.run('account-1/project-1/run-1'); wandb.Api().runs('account-1/project-1')"),
    ("(wandb: Resuming run brave-lion-17)", "(wandb: Resuming run run-1)"),
    ("{'entityName': 'zai', 'projectName': 'moe'}", "{'entityName': 'account-1', 'projectName': 'project-1'}"),
    # users below groups
    ("/gpfsscratch/rech/abc/uxy12zz/x /net/home/plgrid/plgkow/x /net/scratch/people/plgkow",
     "/gpfsscratch/rech/account-1/user-1/x /net/home/plgrid/user-2/x /net/scratch/people/user-2"),
    ("/home/ra000012/u12345/x /users/PAS1234/bobby/x /work/z01/z01/eveline/x",
     "/home/account-1/user-1/x /users/account-2/user-2/x /work/account-3/account-3/user-3/x"),
    ("/proj/nobackup/hpc2n2024-1-2/bobby/x /pfs/work7/workspace/scratch/ab1234-exp7/x",
     "/proj/nobackup/account-1/user-1/x /pfs/work7/workspace/scratch/user-2-exp7/x"),
    ("/var/spool/mail/bobby, /var/spool/cron/bobby", "/var/spool/mail/user-1, /var/spool/cron/user-1"),
    # users right below shared file systems
    ("/lustre/bobby/llm/train.py, /mnt/nfs/bobby2/a/b.py, /glade/work/bobby3/llm/train.py",
     "/lustre/user-1/llm/train.py, /mnt/nfs/user-2/a/b.py, /glade/work/user-3/llm/train.py"),
    ("/project/zlabz/bobby/llm/train.py, /lustre/zlaby/bobby2/llm/train.py",
     "/project/account-1/user-1/llm/train.py, /lustre/account-2/user-2/llm/train.py"),
    ("--container-mounts=/fsx/data:/data,/fsx/bobby:/w", "--container-mounts=/fsx/data:/data,/fsx/user-1:/w"),
    # what launchers and the Hub say
    ("Uploading the following files to zhelix/dnaz: README.md", "Uploading the following files to account-1/repo-1: README.md"),
    ("was submitted from host <zlgn04> by user <bobby>", "was submitted from host <host-1> by user <user-1>"),
    ("at node (ID: 7c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b, IP: 10.1.2.3)", "at node (ID: uuid-1, IP: ip-1)"),
    ("Ray killed this worker (ID: b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6b5a49382716f)", "Ray killed this worker (ID: uuid-1)"),
    ("mpi/pmix_v4: _errhandler: zrack3n03 [2]: pmixp_client_v2.c:211: x", "mpi/pmix_v4: _errhandler: host-1 [2]: pmixp_client_v2.c:211: x"),
    ("docker://zhelix/trainz:latest docker://zhelix/trainz", "docker://account-1/repo-1:latest docker://account-1/repo-1"),
    ("https://registry-1.docker.io/v2/zhelix/trainz/manifests/v1", "https://registry-1.docker.io/v2/account-1/repo-1/manifests/v1"),
    # hosts
    ("runs/Apr11_08-00-00_zeta/events.out.tfevents.1700000000.zeta.4242.0",
     "runs/Apr11_08-00-00_host-1/events.out.tfevents.1700000000.host-1.4242.0"),
    ('TF_CONFIG={"cluster": {"worker": ["zeta:2222", "zeta2:2222"]}}', 'TF_CONFIG={"cluster": {"worker": ["host-1:2222", "host-2:2222"]}}'),
    ("/tmp/core-python-4242-zeta", "/tmp/core-python-4242-host-1"), ("SLURM_JOB_ACCOUNT       = zacct-7", "SLURM_JOB_ACCOUNT       = account-1"),
    ('from "Zoe Zett (work) <z@zeta.example>", "Zed, Ann" <a@zeta.example>', 'from "user-1 <email-1>", "user-2" <email-2>'),
    ("x509: certificate is valid for zreg, zreg2, not other", "x509: certificate is valid for host-1, host-2, not other"),
    ("srun: error: timeout, started 7 of 8 tasks on zgpu[17-18]", "srun: error: timeout, started 7 of 8 tasks on nodes-1"),
    ('"hosts": ["zeta", "theta9"]; nodes=(z-17, z-18)', '"hosts": ["host-1", "host-2"]; nodes=(host-3, host-4)'),
    ("Peer: beegfs-storage zstor3 [ID: 4]; in cluster <zcl>", "Peer: beegfs-storage host-2 [ID: 4]; in cluster <host-1>"),
    ("1562021004711, NVIDIA H100, 00000000:65:00.0", "serial-1, NVIDIA H100, 00000000:65:00.0"),
    ("The node kgz17_4242_0 left; LS_root/mounts/clusters/bobby7/code", "The node host-1_4242_0 left; LS_root/mounts/clusters/host-2/code"),
    (r"C:\Users\bobby\OneDrive - Zeta AG\x", r"C:\Users\user-1\OneDrive - account-1\x"),
    ("https://www.kaggle.com/code/bobby7/nb https://www.kaggle.com/competitions/x/data",
     "https://www.kaggle.com/code/account-1/repo-1 https://www.kaggle.com/competitions/x/data"),
    # services
    ("https://dev.azure.com/zorg/moe/_git/trainer git@ssh.dev.azure.com:v3/zorg/moe/trainer",
     "https://dev.azure.com/account-1/project-1/_git/repo-1 git@host-1:v3/account-1/project-1/repo-1"),
    ("oci://zdata@zns/mds", "oci://bucket-1@namespace-1/mds"),
    ("https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/ztrainer", "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/repo-1"),
    ("s3.container: zcont storage_account: zacc; cluster_name: zcl trainer.hosts=zeta",
     "s3.container: bucket-1 storage_account: bucket-2; cluster_name: host-2 trainer.hosts=host-1"),
    ('wandb.init(project="vex-yield", entity="vexorg")', 'wandb.init(project="project-1", entity="account-1")'),
    ("WandbLogger(project='vex_yield', name=x)", "WandbLogger(project='project-1', name=x)"),
    ("Connected to zeta7 as vexhjort.", "Connected to host-1 as user-1."),
    ("logging in as vex.hjort", "logging in as user-1"),
    ("user vex.hjort on host zeta7", "user user-1 on host host-1"),
    ("master spark://zeta-7:7077", "master spark://host-1:7077"),
    ("an error was encountered on zeta1409", "an error was encountered on host-1"),
    ("s3_bucket=zb1 bucket_name: zb2 bucket=corp-main", "s3_bucket=bucket-1 bucket_name: bucket-2 bucket=bucket-3"),
    ('{"s3_bucket": "vz-corpora", "storage_account": "vzstore"}', '{"s3_bucket": "bucket-1", "storage_account": "bucket-2"}'),
    ("{'data_bucket': 'vz-corpora'} gcs_bucket=\"vz-eval\"", "{'data_bucket': 'bucket-1'} gcs_bucket=\"bucket-2\""),
    ("coscmd config -a AKIDz8krbsJ5yKBZQpn74WFkmLPx3 -s x9 -b zbkt-1", "coscmd config -a secret-1 -s secret-2 -b bucket-1"),
    ("From: Zoë Ångström <z.a@zeta.example>, Li Na Q. Zed <l@zeta.example>", "From: user-1 <email-1>, user-2 <email-2>"),
]  # fmt: skip
STAYS = [
    "wandb_entity is not set; wandb_project: null; permission denied to access data/train or /data/x/y; sweep over lr/wd/bs",
    "artifact uploaded to outputs/model:v3; wandb agent started; entity recognition; the entity is not found; run a/b",
    "wandb: Run data is saved locally; wandb: Run history: loss; key 'x/y' not found in 'state_dict'",
    "/data/mds/shard.00042.mds /work/exp7/exp7/x.log /data/coco/coco2017/x.jpg",
    "/mnt/data/v1000/bs4096/x.pt /home/conda/envs/pt/x /opt/ws/build-1/x /data/imagenet/imagenet_1k/x",
    "core.python.4242.gz runs/Apr11_08-00-00 /x/Apr11_08-00-00_7/a megatron.core.models.gpt.3 core.12345 core dumped in 3.2 s",
    "nodes: [add, relu] nodes=[conv1, conv2] nodes: [add1, relu2] workers: [a, b] hosts=[h for h in x] servers=[3, 4]",
    "cluster_name: default, cluster_name: str, cluster_name=name, self.cluster_name = self.cluster.cluster_name trainer.hosts=[3] docker.container: x storage: local cluster names are given",
    'cfg = {"s3_bucket": bucket_name, "data_bucket": None}; cfg["s3_bucket"] = name; "s3_bucket": "none"',
    'project="" project=None, project="default"',
    "Connected to the server as expected. logging in as the user; the user code on host memory",
    "an error was encountered on gpu0, occurred on rank3, occurred on cuda",
    "bucket=25 bucket: small grad_bucket=full ddp.bucket=x1 bucket=all-reduce length_bucket: short",
    "The specified bucket does not exist; serial number is required; batch 1562021004711, 3 steps",
    "socket.gethostname() == name; host = socket.gethostname(); getpass.getuser()",
    "using the API key of the hub; using api key authentication; ngrok is off; b2 = 0.999 betas b2 0.9",
    "Vision Transformer <cls> and Multi Head <mask>",
    "/fast/imagenet/train/n01440764/x.JPEG and /raid/datasets/c4/en/shard_0001.jsonl",
    "/raid/llama-3.1-8b/checkpoints/step_100/model.pt, /fast/bert2/runs/1/model.pt, /raid/data/train/a.py",
    "/fsx/megatron/tools/run.py, /vast/vllm/engine/a.py, /nvme/cache/hub/x.bin, /fast/x.py",
    "/data/coco/tools/train.py /work/megatron/pretrain_gpt.py /project/src/main/train.py /mnt/data/imagenet/code/x.py",
    "/work/nanochat/scripts/x.py /lustre/bobby/shard.bin /data/pipelines/steps/a.py /fsx/bobby:/w",
    "docker://nvcr.io/nvidia/pytorch:24.01 docker://pytorch/pytorch:2.3 docker://ubuntu:22.04 Uploading the following files to a/b",
    "mpi/pmix_v4: _errhandler: Error handler invoked: status = -61; at node (ID: 3); from host <x>",
    "/opt/home-page/index.log",
    "dp.step.data.forward, sbp_loss, secret_santa_loss, rpa_conv, AAAA batteries",
    "pad_token_id:\n  desc: null\n  value: 0\nmax_tokens:\n  value: 256\ntokenizer:\n  value: gpt2",
    "cn = Conv2d, o = 3; cn=1,o=2",
    "kubelet, which runs pods; the project is not found; 3 pods running",
    "Node status is now: ready",
    "rank 3 on cuda:1, rank 0 on GPU 2, rank 5 on device 3, rank 2 on node-1, Rank 3 on resnet50 data, rank 7 on step12",
    "(host: CPU) (host: 3 of 4); ps -u; top -u 5",
    "PWD=/raid/data/train; cwd: /fast/checkpoints/x; DATA_DIR=/raid/imagenet/train",
    r"re.compile('\\\\d+\\\\w')",
    r"C:\\Users\\x\\net\\unet1.py".replace("Users", "data"),
    "/opt/models/net/unet1/train.py",
    r"\\.\pipe\x",
    "Building wheels on demand (flash-attn) in workspace; Building remotely (x)",
    "https://sqlalche.me/e/20/e3q8 notion.so/product api.day.app/push",
    "https://drive.google.com/drive/my-drive /net/scratch1/x/y",
    "/opt/homebrew/lib/x.py /data/smarthome/livingroom/a.jpg /cache/hf_home/hub/x.py",
    "/mnt/work/coco/trainset/images/x.json /mnt/work/llama/wikitext/raw/x.bin /mnt/work/megatron/megatron/core/x.py",
    "/workspace/work/zgroup/trainer7/exp/train.py /opt/work/zgroup/trainer7/exp/train.py /mnt/work/pytorch/torch/nn/x.py",
    "aws configure set region us-east-1; git config user.signingkey; config set precision bf16",
    "kwargs['token'] = token; os.environ['HF_TOKEN'] = get_token(); if x['password'] == 'y': d['sort_key'] = 'abc'",
    "ENV is set; ARG n_layers 12; %env CUDA_VISIBLE_DEVICES 0; ENV PATH /usr/bin; keys['a'] = 'b'",
    "remote modify failed; setx PATH C:\\tools; set_secret(name); putenv('LR', '0.1')",
    "self.register_buffer('token', x) parser.set_defaults(token='none')",
    "docker run -p 8080:80 --gpus all x; ssh: command not found; scp -l 1000 of the checkpoint; ssh is used by pdsh;"
    " runas is off; negotiate sessions1",
    "curl failed: http 403 -a; zip of x and y; 7z not found; http -p",
    "psql: error; mysql -p; mysql -u root -p db",
    "gcloud compute ssh --zone x; echo done | tee log",
    "  num_layers ............ 24\n  tokenizer_type ............ GPT2BPETokenizer",
    "session_id: 17 'sessionid': None cookie_cutter: template1x",
    "x-axis: step tokens-per-second: 12345 key: query token-count: 4096x",
    "https://pypi.org:443/simple/x http://localhost:6006/x?y=1 torch@2.5 x/y:z",
    "server=None; host=localhost host=node3 Server=train;lr=1",
    "data:\n  path: /x/y\n  name: c4\nmodel: gpt",
    "--lr\n0.001\n--num-tokens\n17",
    "/data/imagenet/train/n01440764/x.JPEG /lustre/proj/llama/configs/a /mnt/data1/wikitext/raw /gpfs/fs1/datasets/c"
    "4/en",
    "/work/llama2/configs/x /data/project/model_7b/weights/a /opt/project/checkpoint12/results /net/x",
    "P2P/CUMEM/read NVLS Ring 00 : 0 1 2 [0] 1/-1/-1->0->-1 SHM/direct/direct",
    "| resnet50(25M) | vit(86M) | acc",
    "node=relu_1 owner process 17 owner rank0: yes",
    "Running on the following workers: 8 of them; exec_time/0*64 x+y1/2",
    "full_name: model.layers.0 first_name_match display_name=loss",
    "epoch:x:1:2 model:0:1:loss:/a", "Connecting to the store on port 29500",
    "the password for the hub is required; the bucket size is 25 MB; gradient bucket 3 of 7",
    "未知错误：数据集＝训练 ошибка чтения файла ｍｏｄｅｌ x² ½ … α=0.1 Σx",
]  # fmt: skip


@pytest.mark.parametrize(("text", "redacted"), GOES)
def test_it_goes(text: str, redacted: str) -> None:
    redactor = Redactor()
    assert redactor.again(redactor.redact(text)) == redacted
    assert redactor.redact(redacted) == redacted


@pytest.mark.parametrize("text", STAYS)
def test_it_stays(text: str) -> None:
    assert Redactor().redact(text) == text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("p\u0430ssword=abc \u0444\u0430\u0439\u043b", "p\u0430ssword=secret-1 \u0444\u0430\u0439\u043b"),
        ("\uff34\uff2f\uff2b\uff25\uff2e \uff41\uff50\uff49\uff3f\uff4b\uff45\uff59\uff1dabc \u2026",
         "\uff34\uff2f\uff2b\uff25\uff2e \uff41\uff50\uff49\uff3f\uff4b\uff45\uff59\uff1dsecret-1 \u2026"),
        ("/ho\u200bme/jd\u200boe/x", "/ho\u200bme/user-1/x"),
        ("lk@zeta\u2024example.example", "email-1"),
    ],
)  # fmt: skip
def test_letters_that_look_like_others_hide_nothing_and_the_rest_stays_as_written(text: str, redacted: str) -> None:
    redactor = Redactor()
    assert redactor.again(redactor.redact(text)) == redacted
    assert redactor.redact(redacted) == redacted


def test_a_name_that_is_known_is_found_in_other_letters() -> None:
    redactor = Redactor()
    redactor.redact("/home/qkowalski/x")
    assert redactor.again("ckpt-qk\u043ewalski") == "ckpt-user-1"


def test_a_text_as_seen_is_changed_once() -> None:
    assert as_seen("plain", str.upper) == "PLAIN"
    assert as_seen("\u0430b \u0436", lambda text: text.replace("ab", "x")) == "x \u0436"


BODY = [
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
    "QyNTUxOQAAACBzephABCDEFGHIJKLMNOP1234567",
    "AbCd",
]


def _shown(above: list[str], lines: list[str], below: list[str]) -> list[str]:
    numbered = tuple((number, text, number == 1) for number, text in enumerate(lines, 1))
    context = Context("a.log", 1, numbered, tuple(above), tuple(below))
    return [text for _, text, _ in without_keys(context).lines]


@pytest.mark.parametrize("prefix", ["", "[rank0]: 09:12 DEBUG key: "])
@pytest.mark.parametrize("known", ["head", "end", "both"])
def test_lines_of_a_key_whose_ends_are_not_shown(prefix: str, known: str) -> None:
    head = [prefix + "-----BEGIN OPENSSH PRIVATE KEY-----"] if known != "end" else ["step 1 loss 2.0"]
    end = (
        [prefix + "-----END OPENSSH PRIVATE KEY-----", "step 3 loss"]
        if known != "head"
        else ["step 3 loss 1.9 at 10:00"]
    )
    body = [prefix + line for line in (BODY if known != "head" else BODY[:2])]
    assert set(_shown(head, body, end)) == {HIDDEN}
    assert _shown([*head, *body, *end], ["step 4 loss 1.8"], []) == ["step 4 loss 1.8"]


@pytest.mark.parametrize(
    "line",
    [
        "experiments/configs/llama3/pretrain/stage2/default", "model/transformer/layers/attention/selfattention/dens"
            "e/weight",
        "TransformerEngineBaseModuleForwardBackwardCheckpointWrapperLayer12", "data0/shard0001/part0002/block00003/c"
            "hunk000004",
        "_orig_mod/module/decoder/layers/11/mlp/experts/local_experts/3/linear_fc1/weight",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "projects/zeph-ml-prod-4412/locations/us-central1/endpoints/778899",
    ],
)  # fmt: skip
def test_long_words_that_are_no_key_are_shown(line: str) -> None:
    assert _shown([], ["x", line], []) == ["x", line]


def test_a_line_of_base64_alone_is_hidden() -> None:
    assert _shown([], ["x", "MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY5PuoAoG"], []) == ["x", HIDDEN]


def test_lines_that_are_not_shown_tell_what_those_shown_are() -> None:
    redactor = Redactor()
    assert redactor.lines(["      tk-9", "      --lr"], ["    Command:", "      --hub-token"]) == (
        "      secret-1",
        "      --lr",
    )
    assert redactor.lines(["  wandb: NGYx"], ["data:"], ["type: Opaque"])[0].startswith("  wandb: secret-")
