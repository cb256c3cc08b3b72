"""Where two runs part: settings, metrics, collectives, messages and the order of their data.

    sides       a run directory -> its diagnosis and data (the pipeline's)
    settings    facts that differ
    curves      the metrics table -> one curve a metric and rank
    noise       how much a curve varies by itself
    partings    the first step at which two curves lie further apart than that
    calls       collectives that differ
    messages    signatures and warnings that only one of them has
    order       ids of samples, where they are logged
    comparison  all of it together
    redacted    the same without names, hosts, addresses and secrets

Nothing here judges which of the differences is the cause: the diagnosis of each run stands beside them.
"""
