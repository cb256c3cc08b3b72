"""Ranks as people read them: `0-3, 7`. The one writer of such lists; `parsers.prefixes.rank_list` reads them."""

from __future__ import annotations

from collections.abc import Iterable

SHORT = 12  # ranges of a list in a sentence or a cell of a report


def rank_ranges(
    ranks: Iterable[int], *, limit: int | None = None, separator: str = ", ", pair: str | None = None
) -> str:
    """Numbers as ranges, sorted and each once: (0, 1, 2, 3, 7) -> "0-3, 7"; of none "".

    limit: after so many ranges an ellipsis and how many numbers there are in all. separator: between ranges. pair:
    between two neighbours, which read faster as a pair than as a range; the separator where it is not given.
    """
    runs: list[list[int]] = []
    numbers = sorted(set(ranks))
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = []
    for first, last in runs[:limit]:
        between = (separator if pair is None else pair) if last == first + 1 else "-"
        texts.append(f"{first}" if first == last else f"{first}{between}{last}")
    if limit is not None and len(runs) > limit:
        texts.append(f"… ({len(numbers):,} in all)")
    return separator.join(texts)
