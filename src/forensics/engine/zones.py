"""By how much clocks of time zones differ (IANA's zones in use, summer time among them)."""

from __future__ import annotations

STEP = 900.0  # seconds: offsets are multiples of it
SPAN = 26 * 3600.0  # seconds between the two zones that lie farthest apart
AHEAD = 14 * 3600.0  # seconds by which the farthest zone is ahead of UTC (Kiribati's)
EAST = (*range(1, 15), 3.5, 4.5, 5.5, 5.75, 6.5, 8.75, 9.5, 10.5, 12.75, 13.75)  # hours ahead of UTC
OFFSETS = (0, *EAST, *range(-12, 0), -9.5, -3.5, -2.5)  # all of them, in hours
