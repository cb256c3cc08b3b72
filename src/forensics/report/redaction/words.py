"""Words that are no names: accounts that everybody has, public places, and what training logs are full of."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

# Accounts that say nothing about a person.
COMMON_USERS = frozenset(
    "user users group groups root runner ubuntu ec2-user centos debian fedora rocky almalinux jovyan admin app "
    "administrator default public shared all me nobody work workspace none null true false git ssh appuser "
    "nonroot mpiuser slurm ray docker container vscode coder vagrant azureuser opc sagemaker-user jenkins "
    "gitlab-runner github actions postgres mysql guest test anonymous www-data daemon systemd kubernetes node "
    "conda miniconda opt usr pdsh sky people plgrid rech".split()
)

# A user or an account of such a name is replaced in paths and beside `user=`, and not wherever the word stands: the
# words are those of logs, code and English prose that are also met as names of accounts.
ORDINARY = frozenset(
    "ai art april august base batch bench bert bill bin bob build cache chase check checkpoint checkpoints "
    "christian ckpt class cloud cluster code compute config core cuda data dataset datasets dean deep "
    "deepspeed demo dev device dist drew engine error eval exp experiment experiments faith file files forward "
    "frank fsdp full gene gloo gpt gpu grace grad grant guy hand hope home host hydra image info input jack "
    "job jobs june lab lance lane large lib lightning linear llama local log login logs loss main mark max may "
    "megatron meta mini mistral ml mode model models module multi nccl net network nick nlp nemo node norm "
    "norman object open optim optimizer output page pat path phi pipeline process prod program project "
    "projects python pytorch qwen rank ray recipe red release remote research rich rob robin rose run runs "
    "sample saved scale script scripts server service session skip small some source spark src stage star "
    "state step steps storage store sue summer swift system task team temp tensor tensorboard time tmp token "
    "tokens tom tool tools torch torchrun train trainer training transformer transformers user val valid "
    "validation version vision wandb weight weights will world zero".split()
)

# Folders that lie beside those of users, on disks where each has their own.
FOLDERS = frozenset(
    "configs conf results outputs output notebooks docs tests apps etc venv env envs launch shared common utils "
    "misc sources containers images repos software modules jobs slurm sbatch weights wandb runs tmp scratch home "
    "build dist lib bin src code datasets dataset data models model checkpoints checkpoint ckpts ckpt logs log "
    "experiments exps artifacts traces profiles dumps cache caches hub huggingface hf_cache hf_home torch_cache "
    "triton_cache tensorboard tb_logs slurm_tmpdir public group all users projects project local train eval "
    "workspace imagenet".split()
)

# How a turn of a chat begins, where `user:` says whose it is: greetings, questions, and what a model is asked to do.
TURNS = frozenset(
    "a about above add analyze analyse and answer are as ask assume based be can classify compare complete compute "
    "calculate consider continue convert correct could create define describe did does draft edit evaluate explain "
    "extract fill find fix for from generate give given good great have hello help here hey hi how i i'd i'm "
    "identify if imagine implement improve in is it let let's list make many me more name need no now ok okay on "
    "paraphrase please predict prove provide question read rephrase rewrite say select should show simplify solve "
    "sorry sort suggest summarise summarize tell thank thanks that the there these they think this to translate use "
    "using was we were what what's when where which who whose why with would write yes you your".split()
)

# The same holds of names of optimizers, models, libraries and GPUs, which are also called after people; machines are
# named so as well, and of those such a name does go.
PROGRAMS = frozenset(
    # optimizers and schedules
    "adam adamw adamax adagrad adadelta adafactor adabelief nadam radam rmsprop sgd lamb lars lion muon "
    "shampoo soap sophia ranger prodigy galore apollo came momentum nesterov cosine warmup plateau polynomial "
    "constant rprop lbfgs "
    # models and their families
    "albert roberta gemma bart deberta electra camembert longformer bigbird reformer pegasus marian falcon "
    "gemini claude alpaca vicuna koala dolly bloom mamba jamba mixtral zephyr orca yi olmo pythia opt palm "
    "chinchilla gopher bard titan nova cohere command granite starcoder codellama deepseek baichuan chatglm "
    "whisper wav2vec hubert clip blip flamingo llava resnet resnext densenet inception mobilenet efficientnet "
    "swin vit deit beit dino mae unet vgg alexnet lenet yolo detr sam diffusion stable flux imagen dalle gan "
    "vae elmo ernie luke fred flan xlnet rwkv retro switch sparse dense graphcast perceiver lora qlora dora "
    "adapter elsa otter sky galactica nemotron hermes molmo pixtral "
    # libraries and services
    "accelerate apex aim catalyst colossal comet composer dask fabric fairseq fire flash flax flower gradio "
    "hopper horovod ignite jax jasper keras kubeflow lancedb luigi marlin maxtext metaflow mosaic neptune "
    "numpy omegaconf optax optuna orbax pandas peft petastorm pillow polars prefect pydantic pyro ruby scipy "
    "skypilot slurm sphinx streaming tensorflow timm torchtune triton trax trl tune unsloth vllm xformers zarr "
    "ampere blackwell turing volta ada pascal kepler maxwell lovelace rubin".split()
)

# Words of logs that are also names of machines and people: such a name is replaced where a host or a user stands, and
# not wherever the word does.
TERMS = frozenset(
    # letters of formulas
    "alpha beta gamma delta epsilon eta theta iota kappa lambda rho sigma tau phi chi psi omega "
    # words of metrics, of schedules and of what programs do
    "long short wide deep high low fast slow early late young old new warm cold hot dark light bright page "
    "pages case cases key keys lock ring head heads tail body power energy force speed rate rates range "
    "ranges value values point points line lines list lists table tables chain tree trees root leaf branch "
    "path paths link links group groups order index label labels total mean median mode average sum product "
    "ratio factor factors bias gate gates cell cells unit units block blocks stack pool queue shard shards "
    "rack vector matrix array scalar string number float double half quarter single triple first second third "
    "last next best worst better real true false left right minor major primary secondary backup spare extra "
    "samples signal noise peak pulse wave phase shift drift trend focus attention hidden update sync async "
    "lead worker workers manager agent agents policy reward action actions critic actor teacher student "
    "reader writer parser sender receiver client north south east west day night hour minute week month year".split()
)

# What stands behind `Host:`, `Node:` and `Master:` where it is no name of a machine: states, systems, parts of machines
# and of clusters, and words that sentences go on with.
NO_HOSTS = frozenset(
    "cpu cpus gpus npu xpu tpu hpu mps dram ram memory mem disk cuda rocm hip devices pinned pageable numa socket "
    "linux windows darwin macos freebsd ubuntu debian centos rhel rocky alpine android x86 amd64 arm64 arm "
    "aarch64 wsl up down ok ready failed failing fail failure lost alive dead missing crashed crash hung healthy "
    "unhealthy idle busy offline online started starting stopped running waiting pending done finished error "
    "errors timeout timed connected disconnected connection available unavailable unreachable reachable reboot "
    "rebooted rebooting draining drained drain alloc allocated mixed maint reserved exclusive active inactive "
    "enabled disabled auto default any all some other others both each every this that these those the a an is "
    "was are were be been has have had will would can could should must may might not no yes on off true false "
    "none null nil unknown n/a nan inf self only same local remote localhost loopback internal external public "
    "private primary secondary replica standby leader follower root leaf parent child children kind type name "
    "names address addr addresses port ports id ids rank ranks index number count total size list lists info "
    "details status state role roles version process processes threads thread to from of for in at by with as and "
    "or but if when while because after before during per via over under mismatch verification resolution lookup "
    "validation check checking match matches nginx uvicorn gunicorn apache envoy istio werkzeug cloudflare "
    "tornado aiohttp jetty tomcat iis caddy traefik haproxy simplehttp bearer basic http https ssh tcp udp grpc "
    "mpi nccl gloo ucc ucx slurm pbs lsf kubernetes k8s docker ray dask spark hadoop unspecified specified given "
    "required optional empty above below here there str int bool float bytes hostname host node args cfg config "
    "obj value values msg os platform parsed url notebook cli jupyter dashboard console terminal api side system "
    "startup".split()
)

# What hosts are called after what they serve, as compose files call them: the words are those of the programs.
SERVICES = frozenset(
    "redis mysql mariadb postgres postgresql mongo mongodb etcd kafka zookeeper minio vault consul nats rabbitmq "
    "memcached elasticsearch opensearch influxdb prometheus grafana loki clickhouse cassandra neo4j milvus qdrant "
    "weaviate mlflow wandb tensorboard nginx proxy cache queue broker database db api web app registry registrar "
    "internet cloud".split()
)

# Whose names in an address say where to read more, and not whose run it was. Suffixes.
PUBLIC_HOSTS = frozenset(
    "pytorch.org tensorflow.org python.org pypi.org pythonhosted.org anaconda.org anaconda.com conda.io "
    "numpy.org scipy.org github.com githubusercontent.com github.io githubassets.com gitlab.com bitbucket.org "
    "huggingface.co hf.co wandb.ai wandb.me comet.com comet.ml neptune.ai mlflow.org clear.ml nvidia.com "
    "nvcr.io amd.com intel.com deepspeed.ai lightning.ai readthedocs.io readthedocs.org ray.io anyscale.com "
    "kubernetes.io k8s.io x-k8s.io kubeflow.org volcano.sh docker.com "
    "docker.io ghcr.io quay.io gcr.io pkg.dev google.com googleapis.com youtube.com "
    "microsoft.com azure.com windows.net amazon.com amazonaws.com aws.dev cloudflare.com openai.com "
    "anthropic.com stackoverflow.com stackexchange.com wikipedia.org arxiv.org doi.org kaggle.com slack.com "
    "discord.com discord.gg medium.com apache.org mozilla.org w3.org ietf.org opensource.org gnu.org "
    "kernel.org debian.org ubuntu.com redhat.com fedoraproject.org schedmd.com open-mpi.org mpich.org "
    "openucx.org llvm.org openmp.org facebook.com fb.me meta.com x.com twitter.com apple.com jetbrains.com "
    "rust-lang.org golang.org nodejs.org npmjs.com unidata.ucar.edu json.org yaml.org swagger.io "
    "letsencrypt.org sentry.io grafana.com prometheus.io modelscope.cn paddlepaddle.org.cn mmcv.io "
    "openmmlab.com modal.com swanlab.cn swanlab.com swanlab.dev eleuther.ai ai.meta.com vllm.ai unsloth.ai "
    "sqlalche.me example.com example.org example.net".split()
)

# Publishers of code and models that everybody uses: their repositories say what ran, and not who ran it.
PUBLIC_OWNERS = frozenset(
    owner.lower()
    for owner in (
        "pytorch huggingface NVIDIA NVIDIA-NeMo microsoft deepspeedai Lightning-AI PyTorchLightning google "
        "google-research google-deepmind tensorflow jax-ml ray-project vllm-project facebook facebookresearch "
        "meta-pytorch meta-llama openai Dao-AILab EleutherAI bigscience bigcode mistralai Qwen QwenLM "
        "deepseek-ai THUDM zai-org baichuan-inc internlm open-mmlab unslothai hiyouga OpenRLHF volcengine "
        "allenai stabilityai tiiuae mosaicml databricks kubeflow kubernetes wandb mlflow apache numpy scipy "
        "pandas-dev pola-rs python cython conda-forge anaconda bitsandbytes-foundation TimDettmers intel ROCm "
        "AMD apple aws openucx linux-rdma Mellanox SchedMD open-mpi axolotl-ai-cloud OpenAccess-AI-Collective "
        "karpathy lucidrains rwightman ultralytics HuggingFaceH4 HuggingFaceTB HuggingFaceFW "
        "state-spaces 01-ai cerebras Skywork teknium NousResearch lmsys Salesforce TinyLlama CohereForAI CohereLabs "
        "upstage openbmb OpenGVLab intfloat Snowflake cardiffnlp roneneldan togethercomputer LLM360 jinaai nomic-ai "
        "coqui laion "
        "sentence-transformers distilbert FacebookAI BAAI nvidia ibm-granite xai-org moonshotai llava-hf timm "
        "gpt2 bert-base docs blog papers models datasets spaces settings login join organizations collections "
        "tasks learn course api oauth pricing enterprise new search posts chat welcome"
    ).split()
)


@lru_cache(maxsize=1)
def _story_words() -> frozenset[str]:
    """Words of logs, of explanations and of English prose: `story_words.txt`, all that is in four or more of the
    sample logs, signatures, pages of the documentation and modules, besides the lists above.
    """
    text = files(__package__).joinpath("story_words.txt").read_text("utf-8")
    return frozenset(text.split()) | PROGRAMS | FOLDERS | TURNS | COMMON_USERS


def of_story(name: str) -> bool:
    """Whether a name is a word of logs, code, programs or prose."""
    return name.lower() in _story_words()
