"""What to say where a stream or a table is asked for a step that it does not have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from mustela.dsl.origin import user_origin
from mustela.topology.errors import NoSuchStepError

__all__ = ["no_such_step"]


def no_such_step(kind: type, kinds: Iterable[type], handle: str, step: str) -> NoSuchStepError:
    """Return the error for a step that a handle lacks, with the way to what was meant.

    Args:
        kind: Class of the handle.
        kinds: The classes of all handles.
        handle: Name of the handle.
        step: The attribute that was asked for.
    """
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", step).lower()
    having = {other.__name__ for other in kinds if hasattr(other, snake)}
    why = fix = None
    if kind.__name__ in having:
        fix = f"write {snake}"
    elif kind.__name__ == "GlobalKTable" and having & {"KTable", "KStream"}:
        why = "a global table is there to be looked up: its changes start nothing"
        fix = "read the topic with table() or stream() instead, or join a stream with this table"
    elif kind.__name__ == "KTable" and "KStream" in having:
        why = "a table has rows; records are what its stream of changes has"
        fix = f"table.to_stream().{snake}(...)"
    elif kind.__name__ == "KStream" and "KTable" in having:
        why = "a stream has records and no rows"
        fix = f"stream.to_table(...).{snake}(...), or aggregate it first"
    elif close := difflib.get_close_matches(
        snake, [name for part in kind.__mro__ for name in vars(part) if name[0] != "_"], n=1
    ):
        fix = f"did you mean {close[0]}?"
    return NoSuchStepError(
        f"{kind.__name__} {handle!r} has no {step!r}",
        at=user_origin(),
        why=why,
        fix=fix,
        fields={"step": handle, "asked": step},
    )
