"""The parent of the workers while nothing is asked of it: a few megabytes, and the same process.

Run as a script without Python's site packages, by `mustela.spark.forks`, with the number of the
listening socket, its path, and what to become when somebody connects. What it does not import it
does not keep in memory.
"""

import os
import select
import signal
import sys

_NUMBER_BYTES = 4


def end(path: str, code: int) -> None:
    """End with all workers.

    Args:
        path: The socket that Spark connects to, which is deleted.
        code: The exit code.
    """
    if os.path.exists(path):
        os.unlink(path)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(0, signal.SIGHUP)
    os._exit(code)


def end_worker(path: str) -> None:
    """End the worker whose number waits in the standard input; end with all if Spark has closed it.

    Args:
        path: As for `end`.
    """
    said = b""
    while len(said) < _NUMBER_BYTES:
        more = os.read(0, _NUMBER_BYTES - len(said))
        if not more:
            end(path, 0)
        said += more
    try:
        os.kill(int.from_bytes(said, "big"), signal.SIGKILL)
    except ProcessLookupError:
        return


def end_when_told(path: str) -> None:
    """End with all workers when this process is told to end.

    Args:
        path: As for `end`.
    """

    def told(_signal: int, _frame: object) -> None:
        end(path, 1)

    signal.signal(signal.SIGTERM, told)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def become(command: list[str]) -> None:
    """Run another program in this process; who tells it to end is heard as soon as it listens.

    Args:
        command: The program and its arguments.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.execv(command[0], command)


def main(listening: int, path: str, back: list[str]) -> None:
    """Wait, and become the parent again as soon as somebody connects."""
    end_when_told(path)
    poller = select.poll()
    for number in (0, listening):
        poller.register(number, select.POLLIN)
    while True:
        ready = [number for number, _ in poller.poll()]
        if 0 in ready:
            end_worker(path)
        elif ready:
            become(back)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
