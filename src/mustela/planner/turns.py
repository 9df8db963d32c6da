"""In which order the inputs of a step receive what comes of one record.

If a step reads a stream in two ways, a record reaches it twice. As in Kafka Streams, the record
goes to the step that was written first, and through all steps after that one, before it goes to the
next; what travels to the lane of another key arrives later than all that does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from mustela.topology.node import Node
from mustela.topology.routing import RepartitionNode

__all__ = ["first_turns", "made_by", "turns"]

_Input = tuple[str, int]
"""A step, and the number of its input."""


def turns(nodes: Sequence[Node]) -> dict[str, tuple[int, ...]]:
    """Return, for each step that a record reaches by several inputs, the turn of each input.

    Args:
        nodes: The steps in the order in which they were written.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> loud = words.map_values(str.upper, name="loud")
        >>> both = words.merge(loud, name="both")
        >>> turns(builder.build().nodes)
        {'both': (1, 0)}
    """
    found: dict[str, tuple[int, ...]] = {}
    by_name = {node.name: node for node in nodes}
    several = [node for node in nodes if _meets_itself(node, by_name)]
    if not several:
        return found
    for reached in _walks(nodes):
        for node in several:
            numbers = [reached.get((node.name, index), -1) for index in range(len(node.parents))]
            if node.name not in found and sum(number >= 0 for number in numbers) > 1:
                ranks = {number: rank for rank, number in enumerate(sorted(numbers))}
                found[node.name] = tuple(ranks[number] for number in numbers)
    return found


def first_turns(nodes: Sequence[Node]) -> dict[str, int]:
    """Return, for each step, when a record first reaches it; each source's steps separately.

    Args:
        nodes: The steps in the order in which they were written.
    """
    found: dict[str, int] = {}
    for reached in _walks(nodes):
        for (name, _), number in reached.items():
            found.setdefault(name, number)
    return found


def _walks(nodes: Sequence[Node]) -> Iterator[dict[_Input, int]]:
    """Yield, for each source, the inputs that its records reach, numbered in order."""
    children: dict[str, list[Node]] = {node.name: [] for node in nodes}
    for node in nodes:
        for parent in dict.fromkeys(node.parents):
            children[parent].append(node)
    moved = _moved(nodes)
    for source in nodes:
        if not source.parents:
            yield _reached(source.name, children, moved)


def _meets_itself(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Say whether one record, and not each row that a step has made of it, may arrive twice."""
    makers = {made_by(parent, nodes) for parent in node.parents}
    return len(makers) > 1 or (len(node.parents) > 1 and not nodes[makers.pop()].parents)


def made_by(name: str, nodes: Mapping[str, Node]) -> str:
    """Return the step that made these rows, before any filters and mappings."""
    node = nodes[name]
    while len(node.parents) == 1 and not node.stores and not node.changes_keys:
        node = nodes[node.parents[0]]
    return node.name


def _moved(nodes: Sequence[Node]) -> set[str]:
    """Return the steps whose records have a key that belongs to another lane."""
    moved: set[str] = set()
    for node in nodes:
        inherited = any(
            parent in moved and arrival is None
            for parent, arrival in zip(node.parents, node.arrivals, strict=False)
        )
        if node.changes_keys or inherited:
            moved.add(node.name)
    return moved


def _reached(
    source: str, children: Mapping[str, Sequence[Node]], moved: set[str]
) -> dict[_Input, int]:
    """Return the inputs that a source's record reaches, numbered in order."""
    numbers: dict[_Input, int] = {}
    travelling: deque[_Input] = deque()

    def inputs_of(name: str) -> Iterator[_Input]:
        for child in children[name]:
            for index, parent in enumerate(child.parents):
                place = (child.name, index)
                if parent != name or place in numbers:
                    continue
                if child.arrivals[index] is not None and (
                    name in moved or isinstance(child, RepartitionNode)
                ):
                    travelling.append(place)
                else:
                    yield place

    going = [inputs_of(source)]
    while going or travelling:
        if not going:
            place = travelling.popleft()
        elif (place := next(going[-1], None)) is None:  # pyright: ignore[reportAssignmentType]
            going.pop()
            continue
        if place not in numbers:
            numbers[place] = len(numbers)
            going.append(inputs_of(place[0]))
    return numbers
