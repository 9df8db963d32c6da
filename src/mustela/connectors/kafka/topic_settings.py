"""The settings of topics: what they are, and how they are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType as _AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry as _ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource as _ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
)

__all__ = ["TopicSettings"]

T = TypeVar("T")


class TopicSettings:
    """The part of an admin client that is about settings of topics."""

    _timeout: float

    @property
    def _admin(self) -> Any:
        raise NotImplementedError

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics, the broker's defaults among them."""
        resources = [_ConfigResource("topic", name) for name in sorted(set(topics))]
        if not resources:
            return {}
        futures = self._call(
            "ask for topic settings",
            lambda: self._admin.describe_configs(resources, request_timeout=self._timeout),
        )
        found: dict[str, dict[str, str]] = {}
        for resource, future in futures.items():
            name = str(resource.name)
            try:
                entries = future.result(self._timeout)
            except (KafkaException, TimeoutError) as raised:
                raise self._fault(raised, f"ask for the settings of '{name}'") from raised
            found[name] = {key: str(entry.value) for key, entry in entries.items()}
        return found

    def configure(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Change settings of topics; all others stay.

        Args:
            wanted: By topic, the new values.

        Raises:
            EnvironmentFault: If the broker refuses.
        """
        if not wanted:
            return
        resources = [
            _ConfigResource(
                "topic",
                topic,
                incremental_configs=[
                    _ConfigEntry(name, value, incremental_operation=_AlterConfigOpType.SET)
                    for name, value in values.items()
                ],
            )
            for topic, values in wanted.items()
        ]
        futures = self._call(
            "change topic settings",
            lambda: self._admin.incremental_alter_configs(resources, request_timeout=self._timeout),
        )
        for resource, future in futures.items():
            try:
                future.result(self._timeout)
            except (KafkaException, TimeoutError) as raised:
                what = f"change the settings of '{resource.name}'"
                raise self._fault(raised, what) from raised

    def _call(self, doing: str, ask: Callable[[], T]) -> T:
        raise NotImplementedError

    def _fault(self, raised: KafkaException | KafkaError | TimeoutError, doing: str) -> Exception:
        raise NotImplementedError
