"""A Triton matrix product whose tiles are too large for any multiprocessor's shared memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, c, n, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, TILE)
    at = rows[:, None] * n + rows[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.empty_like(a)
    kernel[(1,)](a, b, c, a.shape[1], TILE=512)
    return c
