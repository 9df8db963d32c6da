"""mustela-dev: what is needed to develop with Mustela, but not in production.

`DevelopmentBroker` is a real Kafka broker for tests, `RunningApp` an application that runs on it.
The commands ``mustela broker``, ``mustela demo`` and Kafka's own tools are found by the library
through entry points.
"""

from mustela_dev.broker.jars import JarRequest, JarSettings
from mustela_dev.broker.process import BrokerOptions, DevelopmentBroker
from mustela_dev.testing.running import RunningApp

__all__ = ["BrokerOptions", "DevelopmentBroker", "JarRequest", "JarSettings", "RunningApp"]
