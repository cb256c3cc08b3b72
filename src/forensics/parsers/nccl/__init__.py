"""NCCL's own output: its lines, its warnings, its trace of calls, its status service."""
