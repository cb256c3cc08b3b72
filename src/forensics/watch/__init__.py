"""`forensics watch`: follows the files of a live run and tells what is going wrong when it begins.

files       which files there are, grew, were rotated or emptied
logs        the new lines of a log;  structured: the new records of other files
memory      what was read so far, bounded, as the pipeline's RunData
watcher     one look: read what is new, explain it, tell what is news
rhythm, pace, disk   what only watching shows: silence, ranks left behind, throughput, room on the disk
news, ledger, show   what is told, what was told already, and how
handover    the command of --exec
command     the loop between options and outputs
"""
