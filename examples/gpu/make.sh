#!/bin/bash
# Make the GPU captures: bash make.sh OUT. Needs one GPU, torch with CUDA, transformers and cupy; about four minutes.
# Each run has a time limit of its own, so that one that hangs costs nothing but itself.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
export PYTHONUNBUFFERED=1 TORCH_NCCL_TRACE_BUFFER_SIZE=2000 HF_HUB_OFFLINE=1

capture() { # NAME LIMIT COMMAND...: one run folder with its output and exit status
  local name=$1 limit=$2
  shift 2
  mkdir -p "$work/$name"
  (cd "$work/$name" && CAPTURE=$work/$name timeout -k 5 "$limit" "$@" >train.log 2>&1; echo $? >exit_status)
  echo "$name: exit $(cat "$work/$name/exit_status"), $(wc -c <"$work/$name/train.log") bytes"
}
plain() { local name=$1 limit=$2 run=$3; shift 3; capture "$name" "$limit" env "$@" python3 "$here/faults.py" "$run"; }
ranks() { # NAME LIMIT RUN RANKS [VAR=value...]
  local name=$1 limit=$2 run=$3 n=$4
  shift 4
  capture "$name" "$limit" env "$@" torchrun --standalone --nproc-per-node "$n" "$here/faults.py" "$run"
}

pack() { rm -rf "$work"/*/out; tar -C "$work" -czf "$out/captures.tar.gz" .; }

capture machine 60 bash -c 'nvidia-smi >nvidia-smi.txt; nvidia-smi -q >nvidia-smi-q.txt; nvidia-smi topo -m >topology.txt
  python3 -m torch.utils.collect_env >collect_env.txt; dmesg >dmesg.txt; true'
ranks nccl-info 60 ddp 1 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,ENV,NET
ranks fr-on-request 60 fr-on-request 1 NCCL_DEBUG=WARN
ranks watchdog-timeout 80 watchdog-timeout 1 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=3000 \
  TORCH_FR_DUMP_TEMP_FILE="$work/watchdog-timeout/nccl_trace_rank_"
ranks duplicate-gpu 60 ddp 2 SHARE_ONE_GPU=1 NCCL_DEBUG=WARN
ranks duplicate-gpu-silent 60 ddp 2 SHARE_ONE_GPU=1
ranks wrong-device 60 ddp 2
ranks nccl-version 60 ddp 1 NCCL_DEBUG=VERSION
ranks nccl-info-file 60 ddp 1 NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p.log
ranks nccl-no-interface 60 ddp 1 NCCL_DEBUG=WARN NCCL_SOCKET_IFNAME=absent0
ranks nccl-net-ib-absent 60 ddp 1 NCCL_DEBUG=INFO NCCL_NET=IB
pack
plain cuda-oom 60 cuda-oom
plain cublas-full 60 cublas-full
plain cudnn-full 60 cudnn-full
pack
{
  plain device-assert 90 device-assert &
  plain device-assert-blocking 90 device-assert CUDA_LAUNCH_BLOCKING=1 &
  plain illegal-access 90 illegal-access &
  plain illegal-access-blocking 90 illegal-access CUDA_LAUNCH_BLOCKING=1 &
  plain misaligned 90 misaligned &
  plain launch-failure 90 launch-failure &
  plain scaler-collapse 90 scaler-collapse &
  plain bf16-healthy 90 bf16-healthy &
  wait
  plain hf-bf16-healthy 90 hf-bf16-healthy &
  plain hf-fp16-diverges 90 hf-fp16-diverges &
  plain flash-fp32 90 flash-fp32 &
  plain no-gpu 90 no-gpu CUDA_VISIBLE_DEVICES= &
  plain fork-cuda 90 fork-cuda &
  wait
}
dmesg >"$work/machine/dmesg-after.txt" 2>&1
pack
