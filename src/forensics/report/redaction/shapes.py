"""Parts that many patterns have in common."""

from __future__ import annotations

# Between a name and its value: `=` or `:`, and quotes as JSON has them, also escaped as in JSON within JSON.
IS = r"\\?[\"']?\s?[=:]\s?\\?[\"']?"
# The same in the list of arguments that Megatron prints.
DOTS = r"[ \t]\.{3,80}[ \t]"
# An owner, project, repository or run as services name them: none allows more than 128 characters.
NAME = r"([\w.-]{1,128})"
HOST = r"[\w.-]{1,253}"  # RFC 1035, 2.3.4
# Between an option and its value: on a command line, or in a list of arguments as Python prints it.
TO = r"(?:[= ]|\\?[\"']\s?,\s?\\?[\"'])"
