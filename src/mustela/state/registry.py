"""The open environments of a process, each opened once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mustela.processes import boot_id
from mustela.state.faults import StateNotReadyError
from mustela.state.interfaces import EnvironmentSpec
from mustela.state.kinds.indexing import digest_of
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions

__all__ = ["EnvironmentRegistry"]

_Place = tuple[str, str, int]
"""Application, stage and key group, which name a directory; see `environment_path`."""


class EnvironmentRegistry:
    """Opens environments and keeps them open; a process has one registry.

    Workers are forked from a daemon, so a registry that finds itself in a different process than
    the one that filled it starts empty, with the same settings.

    Args:
        state_dir: The directory of state, on local disk or tmpfs.
        options: How LMDB is used.
        boot: The id of the machine's boot; default: read from the kernel.
        open_max: How many environments are kept open; idle ones above it are closed, oldest
            first.

    Example:
        >>> import tempfile
        >>> from mustela.state.interfaces import Committed, StoreSpec, Token
        >>> spec = EnvironmentSpec(application_id="app", stage="1f", group=0, groups=1,
        ...                        stores=(StoreSpec(name="counts"),))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     registry = EnvironmentRegistry(Path(place) / "state")
        ...     environment = registry.get(spec)
        ...     token = Token(1, 1, 0)
        ...     environment.write_pending(token, Committed(), {"counts": [(b"a", b"1")]})
        ...     view = environment.snapshot(Committed(token=token))
        ...     print(view.get("counts", b"a"))
        ...     registry.close_all(clean=True)
        b'1'
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        options: LmdbOptions | None = None,
        boot: str | None = None,
        open_max: int = 256,
    ) -> None:
        self._state_dir = state_dir
        self._options = options or LmdbOptions()
        self._boot = boot_id() if boot is None else boot
        self._open_max = open_max
        self._pid = os.getpid()
        self._open: dict[_Place, LmdbEnvironment] = {}

    @property
    def state_dir(self) -> Path:
        """The directory of state."""
        return self._state_dir

    def get(self, spec: EnvironmentSpec) -> LmdbEnvironment:
        """Return the environment of ``spec``, the same object every time.

        Raises:
            StateNotReadyError: If its path is open under another specification.
        """
        known = self._mine()
        place = spec.application_id, spec.stage, spec.group
        found = known.pop(place, None)
        if found is None:
            self._make_room(known)
            found = LmdbEnvironment(self._state_dir, spec, boot=self._boot, options=self._options)
        known[place] = found
        if found.spec is not spec and _layout(found.spec) != _layout(spec):
            msg = f"{found.path} is open under another specification"
            raise StateNotReadyError(msg, fix="close it first", fields={"path": str(found.path)})
        return found

    def opened(self) -> Iterable[LmdbEnvironment]:
        """Return the environments of this process."""
        return self._mine().values()

    def close_all(self, *, clean: bool) -> None:
        """Close every environment of this process; ``clean`` marks them as synced."""
        known = self._mine()
        while known:
            _, environment = known.popitem()
            environment.close(clean=clean)

    def _mine(self) -> dict[_Place, LmdbEnvironment]:
        if self._pid != os.getpid():
            for environment in self._open.values():
                environment.close(clean=False)
            self._open = {}
            self._pid = os.getpid()
        return self._open

    def _make_room(self, known: dict[_Place, LmdbEnvironment]) -> None:
        for place in list(known):
            if len(known) < self._open_max:
                return
            if not known[place].busy:
                known.pop(place).close(clean=False)


def _layout(spec: EnvironmentSpec) -> tuple[object, ...]:
    stores = tuple((store.name, store.format_version, digest_of(store)) for store in spec.stores)
    owner = (spec.application_id, spec.cluster_id, spec.life, dict(spec.changelog_ids))
    return *owner, spec.stage, spec.group, spec.groups, stores
