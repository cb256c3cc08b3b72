"""Checkpoints: whether they are whole, what they hold, and (asked for) whether their values are finite.

Nothing is ever unpickled: pickles are followed opcode by opcode (`opcodes`), and no class of theirs is looked up.
`survey` is what the pipeline calls; it is imported only where a run has checkpoints.
"""
