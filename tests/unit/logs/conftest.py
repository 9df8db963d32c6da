"""Lines of these tests have only the facts that they bind themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mustela.logs import form


@pytest.fixture(autouse=True)
def nothing_bound() -> Iterator[None]:
    """Tests before may have bound facts to the lines of this thread: an application does."""
    token = form._BOUND.set({})  # pyright: ignore[reportPrivateUsage]
    yield
    form._BOUND.reset(token)
