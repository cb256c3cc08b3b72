"""Words with a number behind them that stand where hosts do, and are what a program, a model or a file counts."""

from __future__ import annotations

# `gpu01` is a host as often as not; `gpu0` is a device. Models and precisions are called so on every cluster.
NUMBERED = (
    r"(?i:(?:gpus?|[cnx]pu|dev(?:ice)?)[-_.]?\d(?!\d)"
    r"|(?:rank|task|step|part|seed|run|job|boot|proc|local\w{0,12}|(?:re)?try|trial|attempt|epoch|version|iter\w{0,8}|std(?:out|err)"
    r"|bsz?|batch|mb|microbatch|chunk|lr|wd|dim|seq|ctx|layer|head|len|expert|stage|phase|fold|shard|exp|xid|log|old"
    r"|prev\w{0,8}|cuda|[tdpce]p|loss|acc|top|adam\w{0,3}|mlp|llama|qwen|gpt|bert|fp|u?int)s?[-_.]?\d"
    r"|(?:bf?16|f(?:16|32|64)|tf32)(?![\w-])"
    r"|v[-_.]?\d+(?![\w-])"
    r"|(?:gb?[23]00|[ahb][2348]00|[ahbv]100|a[1346]0g?|l40s?|l4|h20|t4|mi\d{3}x?|rtx\w{0,8})(?![\w-]))"
)
# What is counted inside one process or host: no host beside a rank, though machines are called `worker-1` as well.
WITHIN = r"(?i:(?:worker|thread|main|pid)[-_.]?\d)"
