"""The values in the rows of a store of any kind, so that they can be rewritten."""

from __future__ import annotations

from collections.abc import Callable

from mustela.state.interfaces import StoreSpec

__all__ = ["with_values"]


def with_values(spec: StoreSpec, key: bytes, row: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a row with other values in it; rows without values are unchanged.

    Args:
        spec: The store; the rows of its kind stay as long as they can be read.
        key: The row's key.
        row: The row, as it is stored and logged.
        change: Returns the new bytes of a value.

    Example:
        >>> spec = StoreSpec(name="totals", kind="key_value")
        >>> with_values(spec, b"a", b"17", lambda value: value + b".00")
        b'17.00'
    """
    values = spec.traits.values
    assert values is not None, spec.kind
    return values(spec, key, row, change)
