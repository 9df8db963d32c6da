"""The nodes of a topology while it is being written: what the handles of one builder share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, TypedDict, cast

from mustela.api.errors import (
    BadOptionError,
    DuplicateNameError,
    DuplicateStoreError,
    SourceConflictError,
    StoreAccessError,
    StreamAndTableError,
    UnfinishedSplitError,
    UnknownStoreError,
)
from mustela.api.handlers import Handler
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name, path_name
from mustela.api.processor_wrapper import ProcessorWrapper
from mustela.dsl.renamed import check_renamed
from mustela.dsl.told_types import check_types
from mustela.errors import Origin
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.graph import TopologyGraph
from mustela.topology.node import Node
from mustela.topology.old_values import with_store
from mustela.topology.processor import ProcessorNode
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.transact import TransactApplyNode, check_transacted
from mustela.topology.update import UpdateNode
from mustela.topology.update_order import parents_first, with_sender

if TYPE_CHECKING:
    from mustela.dsl.handles import Handles

__all__ = ["AddedStore", "NodePlace", "Registry", "SourceLike"]

SourceLike = SourceNode | TableSourceNode


_WAYS_TO_READ = (
    *("name", "topics", "pattern", "key", "value"),
    *("auto_offset_reset", "timestamp_extractor", "watermark", "late", "store", "on_error"),
)


class AddedStore(NamedTuple):
    """A store that processors may use.

    Attributes:
        spec: The store.
        at: The line that made it.
        plain: Whether a window store shows values without their timestamps.
        writer: The only step that may write it; None if all that use it may.
    """

    spec: StoreSpec
    at: Origin | None
    plain: bool = False
    writer: str | None = None


class NodePlace(TypedDict):
    """The place of a node in the topology, and what happens to records that fail there."""

    name: str
    parents: tuple[str, ...]
    origin: Origin
    explicit_name: bool
    on_error: NotRequired[Handler | None]


class Registry:
    """All nodes so far, by name, with their stores and the topics they read.

    Args:
        make_handles: Makes the handles of this topology's streams and tables.
        wrapper: Wraps the suppliers of processors.
    """

    def __init__(
        self, make_handles: Callable[[Registry], Handles], wrapper: ProcessorWrapper | None = None
    ) -> None:
        self.handles = make_handles(self)
        self.wrapper = wrapper
        self._make_handles = make_handles
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, Node] = {}
        self._readers: dict[str, SourceLike] = {}
        self._unfinished: dict[str, Origin] = {}
        self._added: dict[str, AddedStore] = {}

    def place(
        self,
        verb: str,
        *,
        parents: tuple[str, ...],
        at: Origin,
        name: str | None = None,
        path: str | None = None,
        apart: str | None = None,
    ) -> NodePlace:
        """Choose the name of a step that is about to be added.

        Args:
            verb: The method's name, last part of a default name.
            parents: The nodes that the step reads.
            at: The user's line.
            name: The name that the user gave, if any.
            path: The beginning of a default name; the first parent's name if not given.
            apart: Distinguishes the step from siblings of the same verb, such as the name of its
                function; used only if the name would otherwise be taken.

        Raises:
            BadNameError: If the given name breaks the rule for names.
            DuplicateNameError: If the name is taken.
        """
        if name is not None:
            chosen = check_name(name, what="step", at=at)
        else:
            start = path or parents[0]
            chosen = path_name(start, verb)
            if chosen in self._nodes and apart is not None:
                chosen = path_name(start, verb, apart)
        if chosen in self._nodes:
            raise self._duplicate(chosen, verb, at, given=name is not None)
        return NodePlace(name=chosen, parents=parents, origin=at, explicit_name=name is not None)

    def part(
        self, place: NodePlace, what: str, *parents: str, joint: Literal[".", "-"] = "."
    ) -> NodePlace:
        """Choose the name of a step that is part of one that the user sees.

        Args:
            place: The place of the step that the user sees.
            what: What the part is, last in its name.
            parents: The nodes that the part reads.
            joint: The separator of the two in its name.

        Raises:
            DuplicateNameError: If the name is taken.
        """
        name = path_name(f"{place['name']}{joint}{what}")
        part = self.place(what, parents=parents, at=place["origin"], name=name)
        part["explicit_name"] = place["explicit_name"]
        part["on_error"] = place.get("on_error")
        return part

    def add(self, node: Node) -> None:
        """Add a node whose name came from `place`.

        Raises:
            BadOptionError: If settings of a store's changelog are not strings.
            DuplicateStoreError: If another node has a store of the same name.
        """
        self._claim_stores(node)
        assert node.name not in self._nodes, node.name
        self._nodes[node.name] = node
        wishes = zip(node.parents, node.asks_old, node.looks_up, strict=True)
        for parent, asks, looks in wishes:
            if asks or looks:
                self._keep_rows(self._nodes[parent])

    def add_store(self, spec: StoreSpec, at: Origin, *, plain: bool = False) -> AddedStore:
        """Add a store for processors; adding the same store again changes nothing.

        Raises:
            BadOptionError: If settings of its changelog are not strings.
            DuplicateStoreError: If another store has the name.
        """
        _check_changelog(spec, at)
        known = self.store(spec.name)
        if known is None:
            known = self._added[spec.name] = AddedStore(spec, at, plain=plain)
        elif known.spec != spec or known.plain != plain or spec.name not in self._added:
            raise _same_store(spec.name, known.at, at)
        return known

    def check_free(self, store: str, at: Origin) -> None:
        """Check that no store has a name yet.

        Raises:
            DuplicateStoreError: If one has.
        """
        known = self.store(store)
        if known is not None:
            raise _same_store(store, known.at, at)

    def store(self, name: str) -> AddedStore | None:
        """Return a store that was added, or that a table has; None if there is none."""
        if name in self._added:
            return self._added[name]
        owner = self._stores.get(name)
        if owner is None:
            return None
        spec = next(spec for spec in owner.stores if spec.name == name)
        return AddedStore(spec, owner.origin, plain=False)

    def stores_of(self, node: ProcessorNode) -> list[AddedStore]:
        """Return the stores that a processor uses."""
        return [self.store(spec.name) or AddedStore(spec, node.origin) for spec in node.connected]

    @property
    def store_names(self) -> list[str]:
        """The names of all stores."""
        return sorted({*self._added, *self._stores})

    def _claim_stores(self, node: Node) -> None:
        if isinstance(node, ProcessorNode | UpdateNode | TransactApplyNode):
            for store in node.stores:  # several processors may use one that was added before
                self._stores.setdefault(store.name, node)
            return
        for store in node.stores:
            _check_changelog(store, node.origin)
            if store.name in self._added:
                raise _same_store(store.name, self._added[store.name].at, node.origin)
            other = self._stores.setdefault(store.name, node)
            if other is not node:
                msg = f"two steps have a store named {store.name!r}"
                raise DuplicateStoreError(
                    msg,
                    evidence={"first": other.origin or other.name},
                    at=node.origin,
                    why="a store has one changelog, and one step that writes it",
                    fix='give one of them another name: store="..."',
                    fields={"store": store.name, "steps": (other.name, node.name)},
                )

    def add_update(self, spec: StoreSpec, sender: str, at: Origin) -> str:
        """Add a step that sends changes of a store; return the step that makes them."""
        for name, node in self._nodes.items():
            if isinstance(node, UpdateNode) and node.store.name == spec.name:
                self._nodes[name] = with_sender(node, sender)
                return name
        place = self.place("changes", parents=(sender,), at=at, path=spec.name)
        self.add(UpdateNode(**place, store=spec))
        return place["name"]

    def _keep_rows(self, node: Node) -> None:
        """Make a table able to give old values: add a store if it needs one."""
        if getattr(node, "store", None) is not None:
            return
        if node.passes_old:
            for parent in node.parents:
                self._keep_rows(self._nodes[parent])
            return
        if not hasattr(node, "store"):
            return
        kept = with_store(node, path_name(node.name, length_max=STORE_NAME_LENGTH_MAX))
        self._claim_stores(kept)
        self._nodes[node.name] = kept

    def add_source(self, node: SourceLike) -> SourceLike:
        """Add a source, or return the one that reads the same topics in the same way.

        Raises:
            StreamAndTableError: If one of the topics is read as a stream and as a table.
            SourceConflictError: If one of them is read in another way.
            DuplicateNameError: If the name is taken.
        """
        known = [other for other in self._readers.values() if _meet(other, node)]
        for other in known:
            renamed = node.explicit_name and other.name != node.name
            if renamed or _reading(other) != _reading(node):
                raise _source_conflict(other, node)
        if known:
            return known[0]
        if node.name in self._nodes:
            verb = "table" if isinstance(node, TableSourceNode) else "stream"
            raise self._duplicate(node.name, verb, node.origin, given=node.explicit_name)
        self.add(node)
        self._readers[node.name] = node
        return node

    def add_global_table(self, node: GlobalTableNode) -> GlobalTableNode:
        """Add a global table, or return the one with the same options.

        Raises:
            SourceConflictError: If the topic is already a global table with other options.
            DuplicateNameError: If the name is taken.
        """
        for other in self._nodes.values():
            if not isinstance(other, GlobalTableNode) or other.topic != node.topic:
                continue
            if replace(other, origin=node.origin, explicit_name=node.explicit_name) == node:
                return other
            msg = f"topic {node.topic!r} is a global table twice, in two different ways"
            raise SourceConflictError(
                msg,
                evidence={"first": other.origin or other.name},
                at=node.origin,
                why="each host keeps one copy of the topic",
                fix="use one handle for both, or give both calls the same options",
                fields={"topic": node.topic},
            )
        if node.name in self._nodes:
            raise self._duplicate(node.name, "global_table", node.origin, given=node.explicit_name)
        self.add(node)
        return node

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes so far, parents before children."""
        return parents_first(self._nodes)

    def copy(self) -> Registry:
        """Return a registry with the same nodes, to which more can be added."""
        twin = Registry(self._make_handles, self.wrapper)
        twin._nodes = dict(self._nodes)
        twin._stores = dict(self._stores)
        twin._readers = dict(self._readers)
        twin._unfinished = dict(self._unfinished)
        twin._added = dict(self._added)
        return twin

    def replace(self, node: Node) -> None:
        """Replace the node of the same name."""
        self._nodes[node.name] = node
        self._claim_stores(node)

    def make_read_only(self, store: str, *, writer: str) -> None:
        """Allow only one step to write a store that was added."""
        self._added[store] = self._added[store]._replace(writer=writer)

    def node(self, name: str) -> Node:
        """Return the node of that name."""
        return self._nodes[name]

    def begin(self, name: str, at: Origin) -> None:
        """Note that a step that is written in several calls has begun."""
        self._unfinished[name] = at

    def end(self, name: str) -> None:
        """Note that such a step has been completed."""
        del self._unfinished[name]

    def topology(self) -> TopologyGraph:
        """Return what was written so far.

        Raises:
            UnfinishedSplitError: If a split was begun and not ended.
            MissingSerdeError: If objects of a class must be stored whose serde is not known.
            UnknownStoreError: If a store that is read does not exist.
            StoreAccessError: If a store cannot be read by any key.
            SharedStoreError: If a store cannot be changed from other lanes, or by transactions.
        """
        for name, at in self._unfinished.items():
            msg = f"split {name!r} has no end"
            raise UnfinishedSplitError(
                msg,
                at=at,
                why="only its end says what happens to records that belong to no branch",
                fix="end it with .default_branch() or .no_default_branch()",
                fields={"name": name},
            )
        for node in self._nodes.values():
            self._check_reads(node)
        check_transacted(self._nodes.values())
        check_types(self._nodes.values())
        check_renamed(self._nodes.values())
        return TopologyGraph(self.nodes)

    def _check_reads(self, node: Node) -> None:
        """Check that the stores which a step reads by any key exist, and can be read."""
        for store in node.reads_any:
            owner = self._stores.get(store)
            if owner is not None:
                _check_readable(node, store, owner)
            else:
                msg = f"{node.name!r} reads store {store!r}, which no step has"
                raise UnknownStoreError(
                    msg,
                    evidence={"stores": ", ".join(sorted(self._stores)) or "none"},
                    at=node.origin,
                    fix=f'name the store that is meant: store="{store}" where it is made',
                    fields={"step": node.name, "store": store},
                )

    def _duplicate(
        self, name: str, verb: str, at: Origin | None, *, given: bool
    ) -> DuplicateNameError:
        other = self._nodes[name]
        method = verb.partition(".")[0]
        if given:
            why = "a name distinguishes one step, its store and its metrics from all others"
        else:
            why = (
                "a name comes from the step's place, never from a counter, so that state keeps its "
                "name when the program changes; these two are in the same place"
            )
        return DuplicateNameError(
            f"two steps are named {name!r}",
            evidence={"first": other.origin or other.name},
            at=at,
            why=why,
            fix=f'give one of them its own name: {method}(..., name="...")',
            fields={"name": name, "first": other.origin},
        )


def _check_changelog(store: StoreSpec, at: Origin | None) -> None:
    """Check the options of a store's changelog, which may have escaped type checkers.

    Raises:
        BadOptionError: If `logged` is not a bool, or a setting of the topic is not a string.
    """
    logged = cast("object", store.logged)
    if not isinstance(logged, bool):
        msg = f"store {store.name!r} cannot have logged={logged!r}"
        raise BadOptionError(
            msg,
            at=at,
            fix="write True or False",
            fields={"store": store.name, "option": "logged"},
        )
    for setting, value in cast("Mapping[object, object]", store.topic_config).items():
        if not isinstance(setting, str) or not isinstance(value, str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            msg = f"the changelog of store {store.name!r} cannot have {setting!r}: {value!r}"
            raise BadOptionError(
                msg,
                at=at,
                why="settings of a topic are strings",
                fix=f'write "{setting}": "{text}"',
                fields={"store": store.name, "option": "topic_config"},
            )


def _same_store(name: str, first: Origin | None, second: Origin | None) -> DuplicateStoreError:
    return DuplicateStoreError(
        f"there are two stores named {name!r}",
        evidence={"first": first},
        at=second,
        why="a store has one name, one kind and one changelog",
        fix="give one of them another name, or use one store builder for both",
        fields={"store": name},
    )


def _meet(first: SourceLike, second: SourceLike) -> bool:
    """Say whether two sources read a topic in common, as far as that is known so far."""
    patterns = getattr(first, "pattern", None), getattr(second, "pattern", None)
    if patterns[0] is not None and patterns[0] == patterns[1]:
        return True
    if any(second.matches(topic) for topic in first.topics):
        return True
    return any(first.matches(topic) for topic in second.topics)


def _reading(node: SourceLike) -> SourceLike:
    """Return the essentials of how a source reads: no line, no name, and no order of topics."""
    if isinstance(node, SourceNode):
        node = replace(node, topics=tuple(sorted(node.topics)))
    return replace(node, name="", origin=None, explicit_name=False)


def _source_conflict(first: SourceLike, second: SourceLike) -> SourceConflictError:
    shared = [topic for topic in first.topics if second.matches(topic)]
    shared += [topic for topic in second.topics if first.matches(topic)]
    pattern: Any = getattr(first, "pattern", None)
    topic = shared[0] if shared else pattern.pattern
    fields = {"topic": topic}
    if type(first) is not type(second):
        return StreamAndTableError(
            f"topic {topic!r} is read as a stream and as a table",
            evidence={"first": first.origin or first.name},
            at=second.origin,
            why="a topic has one reader in an application: its records are read once",
            fix="read it as a table, and use table.to_stream() where a stream is needed",
            fields=fields,
        )
    one, other = (replace(_reading(node), name=node.name) for node in (first, second))
    differences = [
        name for name in _WAYS_TO_READ if getattr(one, name, None) != getattr(other, name, None)
    ]
    return SourceConflictError(
        f"topic {topic!r} is read twice, in two different ways",
        evidence={"first": first.origin or first.name, "differ": ", ".join(differences)},
        at=second.origin,
        why="a topic has one reader in an application: its records are read and decoded once",
        fix="use one handle for both, or give both calls the same options"
        if "pattern" not in differences
        else "make the pattern not match it, or read all of them by the pattern",
        fields={**fields, "differences": tuple(differences)},
    )


def _check_readable(node: Node, store: str, owner: Node) -> None:
    """Check that a store has rows of its own that any reader understands.

    Raises:
        StoreAccessError: If it is a copy of a topic, or only its step knows its content.
    """
    spec = next(spec for spec in owner.stores if spec.name == store)
    if isinstance(owner, GlobalTableNode):
        what = "it is a global table, and only joins look up copies of its topic"
        fix = f"join the stream with it, or read topic {owner.topic!r} with table() instead"
    elif spec.traits.store is None:
        what = f"only {owner.name!r} knows what its {spec.kind} store holds"
        fix = "read another store"
    else:
        return
    msg = f"{node.name!r} cannot read store {store!r} by any key"
    raise StoreAccessError(
        msg, at=node.origin, why=what, fix=fix, fields={"step": node.name, "store": store}
    )
