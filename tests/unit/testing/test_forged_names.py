"""Names that would lead out of the directory of the state."""

from __future__ import annotations

import pytest

from mustela import App, StreamsBuilder
from mustela.errors import UsageError


@pytest.mark.parametrize("name", ["../x", "..", ".", "a/b", "a\0b", "", "x" * 300, "a\nb", "~"])
def test_no_name_leads_out_of_the_directory(name: str) -> None:
    """Neither an application's nor a store's."""
    with pytest.raises(UsageError):
        assert App(name).settings
    orders = StreamsBuilder().stream("orders", key=str, value=str).group_by_key()
    with pytest.raises(UsageError):
        orders.count(store=name)
