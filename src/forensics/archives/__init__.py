"""Compressed files and archives, unpacked into a temporary folder under limits that hostile input cannot pass.

Members are read as streams and stored under numbers, so that no name of theirs ever becomes a path on this machine.
Tar headers and the list of a zip's members are read one entry at a time: the lists themselves can be made huge, which
the standard library would hold in memory.
"""

from forensics.archives.formats import format_of, is_torch_zip, plain_name, without_compression
from forensics.archives.limits import MARK, Limits, Member, Stop, Unpacked
from forensics.archives.unpacker import Unpacker
from forensics.archives.zips import ZipEnd, ZipEntry, zip_end, zip_entries

__all__ = [
    "MARK",
    "Limits",
    "Member",
    "Stop",
    "Unpacked",
    "Unpacker",
    "ZipEnd",
    "ZipEntry",
    "format_of",
    "is_torch_zip",
    "plain_name",
    "without_compression",
    "zip_end",
    "zip_entries",
]
