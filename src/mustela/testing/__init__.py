"""The test driver: the same tasks and operators without Spark and without a broker.

Owns: TopologyTestDriver, test topics, the manual clock, crash and fault injection.
Entry: driver.py (TopologyTestDriver).
May import: runtime and every room below it.
Must not: import spark, open a socket or start a process.
"""

from __future__ import annotations

from mustela.testing.driver import (
    TopologyTestDriver as TopologyTestDriver,
)
from mustela.testing.mock_context import (
    CapturedForward as CapturedForward,
    CapturedPunctuator as CapturedPunctuator,
    CapturedRequest as CapturedRequest,
    MockFixedKeyProcessorContext as MockFixedKeyProcessorContext,
    MockProcessorContext as MockProcessorContext,
)
from mustela.testing.safe import (
    assert_topology_safe as assert_topology_safe,
)
