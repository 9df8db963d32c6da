"""mustela-dev: tools to develop with Mustela, not needed in production.

`DevelopmentBroker` is a real Kafka broker for tests, `RunningApp` an application that runs on it.
The commands ``mustela broker``, ``mustela demo`` and Kafka's own tools are found by the library
through entry points. `RunningApp` is fetched when it is first asked for: the commands' help needs
nothing of what an application needs.
"""

from typing import TYPE_CHECKING

from mustela_dev.broker.jars import JarRequest, JarSettings
from mustela_dev.broker.process import BrokerOptions, DevelopmentBroker

if TYPE_CHECKING:
    from mustela_dev.testing.running import RunningApp

__all__ = ["BrokerOptions", "DevelopmentBroker", "JarRequest", "JarSettings", "RunningApp"]


def __getattr__(name: str) -> object:
    if name == "RunningApp":
        from mustela_dev.testing.running import RunningApp

        return RunningApp
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
