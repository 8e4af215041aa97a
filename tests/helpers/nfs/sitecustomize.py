"""Gives every process that finds this the locks of an NFS client, in place of those of a disk.

Linux asks the server of an NFS folder for a record lock on the whole file where a program asks for flock(2); of what
a program can see of these locks, the strictest is here: they are of the process, so that to close the file once more
lets them go, and whoever wants one to itself must have opened the file for writing.
"""

import fcntl

fcntl.flock = fcntl.lockf
