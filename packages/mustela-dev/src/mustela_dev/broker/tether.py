"""A program that becomes the broker: it settles which process the broker belongs to, then runs it.

It is run as a script, with the standard library only, because code between fork and exec in a
program with threads may hang.

    tether.py tie PARENT COMMAND...     the command dies with the process PARENT
    tether.py detach LOG COMMAND...     the command belongs to nobody; prints its process id
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PRIVATE = 0o600


def tie(parent: int, command: list[str]) -> None:
    """Become ``command``, which is killed when the process ``parent`` ends."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        # The parent ended before it could be watched.
        sys.exit(1)
    os.execv(command[0], command)


def detach(log: str, command: list[str]) -> None:
    """Start ``command`` in a new session, as a process that no other has to reap."""
    child = os.fork()
    if child:
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        return
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.execv(command[0], command)


if __name__ == "__main__":
    how, whose = sys.argv[1:3]
    if how == "tie":
        tie(int(whose), sys.argv[3:])
    else:
        detach(whose, sys.argv[3:])
