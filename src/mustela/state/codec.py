"""Bytes as an LMDB environment holds them.

- A value is four bytes of XXH32 over key and value, then the value.
- LMDB takes keys of 1 to 511 bytes. Any other key is *odd*: it is stored in a separate database,
under its first 400 bytes and a 16-byte hash of the whole, and the whole key is next to the value.
The hash is not cryptographic, so one stored key may hold several odd keys.
- A pending is one msgpack value, led by its XXH64: for each store a list of keys and a list of
  values. A large one is stored in pieces (lmdb_pendings.py).
- The meta value is msgpack too, led by its XXH64. So is, beside it, how a store's values are
  compressed (packing.py), under ``packed:`` and the store's name.
- A small environment that is closed is one file of rows (lmdb_flat.py): a name of the format, an
  XXH64, then zlib's form of one msgpack value with the stored keys and values of each table.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import msgspec
from xxhash import xxh32_digest, xxh64_digest, xxh128_digest

from mustela.state.interfaces import STATE_FORMAT, Changes, Condition, EnvironmentSpec, Token
from mustela.state.kinds.indexing import digest_of
from mustela.state.protocol import Standing

__all__ = [
    "CHECK_BYTES",
    "FLAT_FILE",
    "KEY_BYTES_MAX",
    "META_KEY",
    "PACKED_PREFIX",
    "TOKEN_BYTES",
    "Layer",
    "Meta",
    "Packed",
    "Tables",
    "decode_bucket",
    "decode_meta",
    "decode_packed",
    "decode_pending",
    "decode_tables",
    "digests",
    "encode_bucket",
    "encode_meta",
    "encode_packed",
    "encode_pending",
    "encode_tables",
    "is_odd",
    "packed_key",
    "seal",
    "stored_key",
    "token_key",
    "unseal",
]

KEY_BYTES_MAX = 511
CHECK_BYTES = 4
BLOB_CHECK_BYTES = 8
ODD_PREFIX = 400
META_KEY = b"meta"
PACKED_PREFIX = b"packed:"
FLAT_FILE = "rows.flat"
_FLAT_MAGIC = b"mustela rows 1\n"
_FLAT_LEVEL = 1
_EMPTY_KEY = b"\x00"
_TOKEN = struct.Struct(">QQQ")
TOKEN_BYTES = _TOKEN.size

Layer = dict[str, dict[bytes, bytes | None]]
"""A decoded pending: by store, keys in order with their new values."""


Tables = dict[str, tuple[list[bytes], list[bytes]]]
"""All of an environment: by table, keys in order with their stored values.

The table with the description is named ''.
"""


class Meta(msgspec.Struct):
    """The description of an environment."""

    format: int
    application_id: str
    cluster_id: str
    stage: str
    group: int
    groups: int
    stores: dict[str, int]
    boot_id: str
    clean: bool
    token: tuple[int, int, int] | None = None
    incarnation: int = 0
    positions: dict[str, int] = {}
    partial: bool = False
    time_ms: int = 0
    life: str = ""
    changelog_ids: dict[str, str] = {}
    indexes: dict[str, str] = {}
    folding: tuple[int, int, int] | None = None

    @classmethod
    def fresh(cls, spec: EnvironmentSpec, boot_id: str) -> Meta:
        """Return the meta of a new environment."""
        return cls(
            format=STATE_FORMAT,
            application_id=spec.application_id,
            cluster_id=spec.cluster_id,
            stage=spec.stage,
            group=spec.group,
            groups=spec.groups,
            stores={store.name: store.format_version for store in spec.stores},
            boot_id=boot_id,
            clean=False,
            life=spec.life,
            changelog_ids=dict(spec.changelog_ids),
            indexes=digests(spec),
        )

    def belongs_to(self, spec: EnvironmentSpec) -> bool:
        """Return whether this is the state that ``spec`` describes."""
        wanted = Meta.fresh(spec, self.boot_id)
        names = ("format", "application_id", "cluster_id", "stage", "group", "groups", "stores")
        same = all(getattr(self, name) == getattr(wanted, name) for name in names)
        return same and self._lives_in(spec)

    def judged(self, spec: EnvironmentSpec, boot: str) -> Condition | None:
        """Return why nothing of this state may be used, or None.

        Args:
            spec: The wanted state.
            boot: Names the running boot.
        """
        if not self.belongs_to(spec):
            return Condition.FOREIGN
        return None if self.clean or self.is_of(boot) else Condition.DAMAGED

    def is_of(self, boot: str) -> bool:
        """Return whether a boot wrote last; one without a name matches any other."""
        return bool(boot) and self.boot_id == boot

    def use(self, boot: str) -> None:
        """Mark the files as in use."""
        self.boot_id, self.clean = boot, False

    def let_go(self, boot: str) -> bool:
        """Mark everything as written; return whether that changed, and this boot may say so."""
        if self.clean or not self.is_of(boot):
            return False
        self.clean = True
        return True

    def _lives_in(self, spec: EnvironmentSpec) -> bool:
        """Return whether this state belongs to the life and the changelogs in ``spec``."""
        if not self.life and spec.adopts_unnamed:
            return True
        known = self.changelog_ids
        same = all(known.get(store, "") == topic for store, topic in spec.changelog_ids.items())
        return same and self.life == spec.life

    def take_name(self, spec: EnvironmentSpec) -> None:
        """Assign this state to the life in ``spec``."""
        self.life, self.changelog_ids = spec.life, dict(spec.changelog_ids)

    @property
    def standing(self) -> Standing:
        """The standing of the base, as a copy."""
        return Standing(
            token=None if self.token is None else Token(*self.token),
            incarnation=self.incarnation,
            positions=dict(self.positions),
            partial=self.partial,
            time_ms=self.time_ms,
            folding=None if self.folding is None else Token(*self.folding),
        )

    def take(self, standing: Standing) -> None:
        """Set the standing of the base."""
        self.token, self.folding = _plain(standing.token), _plain(standing.folding)
        self.incarnation = standing.incarnation
        self.positions = standing.positions
        self.partial = standing.partial
        self.time_ms = standing.time_ms


def _plain(token: Token | None) -> tuple[int, int, int] | None:
    return None if token is None else (token.incarnation, token.epoch, token.attempt)


class Packed(msgspec.Struct):
    """How the values of a store are compressed.

    Attributes:
        dictionary: That of all its compressed values; empty if there are none.
        tried_bytes: How large the table was when a dictionary was last made, or not worth it.
        mixed: Whether there may be rows from before the compression.
    """

    dictionary: bytes = b""
    tried_bytes: int = 0
    mixed: bool = True


def packed_key(store: str) -> bytes:
    """Return the key of a store's `Packed`, in the table with the meta."""
    return PACKED_PREFIX + store.encode()


def digests(spec: EnvironmentSpec) -> dict[str, str]:
    """Return what says whose lines are on disk, for the stores with indexes."""
    return {store.name: digest_of(store) for store in spec.stores if store.indexes}


_META = msgspec.msgpack.Decoder(Meta)
_PACKED = msgspec.msgpack.Decoder(Packed)
_PENDING = msgspec.msgpack.Decoder(dict[str, tuple[list[bytes], list[bytes | None]]])
_TABLES = msgspec.msgpack.Decoder(Tables)
_BUCKET = msgspec.msgpack.Decoder(dict[bytes, bytes])
_ENCODER = msgspec.msgpack.Encoder()


def seal(key: bytes, value: bytes) -> bytes:
    """Return the stored form of a value.

    Example:
        >>> unseal(b"k", seal(b"k", b"value"))
        b'value'
    """
    return xxh32_digest(key + value) + value


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """Return the value in its stored form, or None if it is not what was written."""
    value = sealed[CHECK_BYTES:]
    return value if sealed[:CHECK_BYTES] == xxh32_digest(key + value) else None


def _lead(body: bytes) -> bytes:
    return xxh64_digest(body) + body


def _checked(blob: bytes) -> bytes | None:
    body = blob[BLOB_CHECK_BYTES:]
    return body if blob[:BLOB_CHECK_BYTES] == xxh64_digest(body) else None


def is_odd(key: bytes) -> bool:
    """Return whether LMDB cannot hold ``key`` directly."""
    return not 0 < len(key) <= KEY_BYTES_MAX


def stored_key(key: bytes) -> bytes:
    r"""Return the stored key of an odd key.

    Example:
        >>> len(stored_key(b"x" * 600)), stored_key(b"")
        (416, b'\x00')
    """
    return key[:ODD_PREFIX] + xxh128_digest(key) if key else _EMPTY_KEY


def token_key(token: Token) -> bytes:
    """Return the key of a token's pending; keys sort as tokens do."""
    return _TOKEN.pack(*token)


def encode_meta(meta: Meta) -> bytes:
    """Return the stored form of a meta."""
    return _lead(_ENCODER.encode(meta))


def decode_meta(blob: bytes) -> Meta | None:
    """Return the meta, or None if it is not what was written."""
    body = _checked(blob)
    try:
        return None if body is None else _META.decode(body)
    except msgspec.DecodeError:
        return None


def encode_packed(packed: Packed) -> bytes:
    """Return the stored form."""
    return _lead(_ENCODER.encode(packed))


def decode_packed(blob: bytes) -> Packed | None:
    """Return how values are compressed, or None if it is not what was written."""
    body = _checked(blob)
    try:
        return None if body is None else _PACKED.decode(body)
    except msgspec.DecodeError:
        return None


def encode_pending(changes: Changes) -> bytes:
    """Return the stored form of an epoch's changes.

    Example:
        >>> decode_pending(encode_pending({"counts": [(b"a", b"1"), (b"b", None)]}))
        {'counts': {b'a': b'1', b'b': None}}
    """
    columns = {
        store: ([key for key, _ in rows], [value for _, value in rows])
        for store, rows in changes.items()
    }
    return _lead(_ENCODER.encode(columns))


def decode_pending(blob: bytes) -> Layer | None:
    """Return an epoch's changes, or None if they are not what was written."""
    body = _checked(blob)
    try:
        columns = None if body is None else _PENDING.decode(body)
    except msgspec.DecodeError:
        return None
    if columns is None:
        return None
    return {
        store: dict(zip(keys, values, strict=True)) for store, (keys, values) in columns.items()
    }


def encode_bucket(stored: bytes, rows: Mapping[bytes, bytes]) -> bytes:
    """Return the stored form of the odd keys that share a stored key."""
    return seal(stored, _ENCODER.encode(rows))


def decode_bucket(stored: bytes, sealed: bytes) -> dict[bytes, bytes] | None:
    """Return the odd keys under a stored key, or None if they are not what was written."""
    body = unseal(stored, sealed)
    try:
        return None if body is None else _BUCKET.decode(body)
    except msgspec.DecodeError:
        return None


def encode_tables(tables: Tables) -> bytes:
    """Return the bytes of a file of rows.

    Example:
        >>> decode_tables(encode_tables({"store:s": ([b"k"], [b"v"])}))
        {'store:s': ([b'k'], [b'v'])}
    """
    return _FLAT_MAGIC + _lead(zlib.compress(_ENCODER.encode(tables), _FLAT_LEVEL))


def decode_tables(blob: bytes) -> Tables | None:
    """Return the rows of a file, or None if it is not what was written."""
    if not blob.startswith(_FLAT_MAGIC):
        return None
    body = _checked(blob[len(_FLAT_MAGIC) :])
    try:
        return None if body is None else _TABLES.decode(zlib.decompress(body))
    except (zlib.error, msgspec.DecodeError):
        return None
