"""What verbs return: the types that stand between two steps of a topology."""

from __future__ import annotations

from mustela.dsl.cogroup import (
    CogroupedKStream as CogroupedKStream,
    SessionWindowedCogroupedKStream as SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream as TimeWindowedCogroupedKStream,
)
from mustela.dsl.globalktable import (
    GlobalKTable as GlobalKTable,
)
from mustela.dsl.grouped import (
    KGroupedStream as KGroupedStream,
)
from mustela.dsl.grouped_table import (
    KGroupedTable as KGroupedTable,
)
from mustela.dsl.kstream import (
    KStream as KStream,
)
from mustela.dsl.ktable import (
    KTable as KTable,
)
from mustela.dsl.processed import (
    ProcessedKStream as ProcessedKStream,
)
from mustela.dsl.routing import (
    BranchedKStream as BranchedKStream,
)
from mustela.dsl.transacted import (
    TransactedKStream as TransactedKStream,
)
from mustela.dsl.windowed import (
    SessionWindowedKStream as SessionWindowedKStream,
    TimeWindowedKStream as TimeWindowedKStream,
)
