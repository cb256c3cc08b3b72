"""Compressed files and archives, unpacked into a temporary folder under limits that hostile input cannot pass.

Members are read as streams and stored under numbers, so that no name of theirs ever becomes a path on this machine.
Tar headers and the list of a zip's members are read one entry at a time: the lists themselves can be made huge, which
the standard library would hold in memory. JSON that holds a text (`records`, `slurm`, `pyspy`) becomes it the same way.
"""
