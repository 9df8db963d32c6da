"""The description of the stores and queries of an application, as OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mustela.admin.data.changed import is_followed
from mustela.admin.data.encodings import ARROW
from mustela.admin.data.rows import SCANNED, StoreForms
from mustela.queries.functions import MIN_EPOCH, QueryFunction
from mustela.serdes.document_schemas import REFERENCE, Json, schema_of_type

__all__ = ["description"]

_INTEGER: Final[Json] = {"type": "integer", "format": "int64"}
_MOMENT: Final[Json] = {**_INTEGER, "description": "milliseconds since 1970"}
_EPOCH: Final[Json] = {**_INTEGER, "description": "the committed epoch of the answer"}
_ERROR: Final[Json] = {
    "type": "object",
    "properties": {
        "error": {"type": "string"},
        "code": {"type": "string"},
        "fix": {"type": "string"},
    },
    "required": ["error"],
}
_HEADERS: Final[Json] = {"Mustela-Epoch": {"schema": _EPOCH, "description": "the committed epoch"}}
_BY_KEY: Final = frozenset({"key_value", "timestamped_key_value", "versioned"})
_OF_KEY: Final = {"window": "windows", "session": "sessions", "versioned": "versions"}


def description(
    title: str,
    version: str,
    stores: Mapping[str, StoreForms],
    queries: Iterable[QueryFunction],
    methods: Mapping[str, Iterable[QueryFunction]],
) -> Json:
    """Return the description.

    Args:
        title: The application's name.
        version: The version of the description.
        stores: The stores that are shown.
        queries: The user's own queries.
        methods: The query methods of stores that have some, by store.
    """
    schemas: dict[str, Json] = {"Error": _ERROR}
    paths: dict[str, Json] = {"/stores": {"get": _operation("stores", "The stores", _listed())}}
    paths["/sql"] = {"post": _sql()}
    paths |= _frames()
    paths["/queries"] = {"get": _listing("queries", "The application's own queries")}
    described = _operation("openapi", "This description", {"type": "object"})
    paths["/openapi.json"] = {"get": described}
    for name, forms in stores.items():
        paths |= _paths_of(name, forms, schemas)
    for query in queries:
        paths[f"/queries/{query.name}"] = _path_of_query(query, "queries", schemas)
    for store, functions in methods.items():
        place = f"/stores/{store}/methods"
        listing = _listing("methods", f"The query methods of {store}", f"methods.{store}")
        paths[place] = {"get": listing}
        for method in functions:
            paths[f"{place}/{method.name}"] = _path_of_query(method, f"methods.{store}", schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _paths_of(name: str, forms: StoreForms, schemas: dict[str, Json]) -> dict[str, Json]:
    kind, key = forms.spec.kind, _take(forms.key.schema(f"{name}.key"), schemas)
    value = _take(forms.value.schema(f"{name}.value"), schemas)
    schemas[f"{name}.row"] = _row(forms, key, value)
    row = {"$ref": f"{REFERENCE}{name}.row"}
    of_key = _parameter("key", key, place="path")
    paths: dict[str, Json] = {}
    if kind in SCANNED:
        page = {"rows": _many(row), "cursor": {"type": "string"}, "count": _INTEGER}
        paths[f"/stores/{name}"] = {
            "get": _with_arrow(
                _operation(f"page.{name}", f"Rows of {name}", _answer(page), _page_parameters(key))
            )
        }
    if kind in _BY_KEY:
        one = [of_key, _parameter("min_epoch", _INTEGER)]
        if kind == "versioned":
            one.append(_parameter("as_of", _MOMENT))
        found = {"allOf": [row, _answer({})]}
        paths[f"/stores/{name}/{{key}}"] = {
            "get": _operation(f"get.{name}", f"A row of {name}", found, one)
        }
        many = _operation(
            f"get_many.{name}", f"Rows of {name} by their keys", _answer({"rows": _many(row)})
        )
        many["requestBody"] = _body({"keys": _many(key)})
        paths[f"/stores/{name}/get"] = {"post": many}
    if kind in _OF_KEY:
        what = _OF_KEY[kind]
        rows = _answer({what: _many(row), "more": {"type": "boolean"}})
        times = [of_key, *(_parameter(n, _MOMENT) for n in ("time_from", "time_to"))]
        paths[f"/stores/{name}/{{key}}/{what}"] = {
            "get": _operation(f"{what}.{name}", f"The {what} of a key of {name}", rows, times)
        }
    if is_followed(forms):
        paths[f"/stores/{name}/changes"] = {"get": _stream(name, key)}
    return paths


def _sql() -> Json:
    column = {"type": "object", "properties": {n: {"type": "string"} for n in ("name", "type")}}
    answer = _answer({"columns": _many(column), "rows": _many(_many({}))})
    made = _operation("sql", "What a SELECT gives", answer, [_parameter("min_epoch", _INTEGER)])
    made["requestBody"] = _body({"sql": {"type": "string"}})
    return _with_arrow(made)


def _with_arrow(made: Json) -> Json:
    """Return an operation that also answers with a stream of Arrow's."""
    stream: Json = {"schema": {"type": "string", "format": "binary"}}
    made["responses"]["200"]["content"][ARROW] = stream
    return made


def _listing(what: str, title: str, name: str = "") -> Json:
    listed = {"type": "object", "properties": {what: _many({"type": "object"})}}
    return _operation(name or what, title, listed)


def _frames() -> dict[str, Json]:
    """Return the addresses of data frames: one epoch for many readers."""
    text: Json = {"type": "string"}
    frame, store = (_parameter(name, text, place="path") for name in ("frame", "store"))
    opened = _operation("frames.open", "Keep an epoch readable", _answer({"frame": text}))
    wish = {"epoch": _INTEGER, "seconds": {"type": "number"}, "held": {"type": "boolean"}}
    opened["requestBody"] = _body(wish, required=[])
    ended = _operation(
        "frames.end", "End a frame", _answer({"ended": {"type": "boolean"}}), [frame]
    )
    columns = {"schema": text, "usable": _many(text), "keys": _many(text), "groups": _INTEGER}
    described = _operation(
        "frames.store", "The columns of a store in a frame", _answer(columns), [frame, store]
    )
    rows = _operation("frames.rows", "A page of a store's rows in a frame", {}, [frame, store])
    rows["responses"]["200"]["content"] = {ARROW: {"schema": {**text, "format": "binary"}}}
    part: dict[str, Any] = {"reader": text, "page": _INTEGER, "groups": _many(_INTEGER)}
    rows["requestBody"] = _body(
        {**part, "columns": _many(text), "bounds": _many(_many({}))}, required=["reader"]
    )
    return {
        "/frames": {"post": opened},
        "/frames/{frame}": {"post": ended},
        "/frames/{frame}/{store}": {"post": described},
        "/frames/{frame}/{store}/rows": {"post": rows},
    }


def _path_of_query(query: QueryFunction, group: str, schemas: dict[str, Json]) -> Json:
    place = f"{group}.{query.name}"
    parameters = [
        _parameter(
            each.name,
            _take(schema_of_type(each.type, f"{place}.{each.name}"), schemas),
            required=each.required,
        )
        for each in query.parameters
    ]
    waits = [_parameter(MIN_EPOCH, _INTEGER)]
    result = _take(schema_of_type(query.returns, f"{place}.result"), schemas)
    answer = _answer({"result": result})
    title, suffix = query.doc or f"The query {query.name}", place.removeprefix("queries.")
    posted = _operation(f"post.{suffix}", title, answer, waits)
    required = [each.name for each in query.parameters if each.required]
    posted["requestBody"] = _body(
        {each["name"]: each["schema"] for each in parameters}, required=required
    )
    got = _operation(f"query.{suffix}", title, answer, [*parameters, *waits])
    return {"get": got, "post": posted}


def _row(forms: StoreForms, key: Json, value: Json) -> Json:
    info, kind = forms.info, forms.spec.kind
    properties: dict[str, Json] = {"key": key, "value": value}
    required = ["key", "value"]
    if kind in ("window", "session"):
        properties |= {"start": _MOMENT, "end": {"anyOf": [_MOMENT, {"type": "null"}]}}
        required += ["start", "end"]
    if info.timestamps or kind == "versioned":
        properties["timestamp"] = _MOMENT
    if kind == "versioned":
        properties["valid_to"] = _MOMENT
    if info.headers:
        text: Json = {"type": ["string", "null"]}
        properties["headers"] = _many({"type": "array", "items": text})
    return {"type": "object", "properties": properties, "required": required}


def _page_parameters(key: Json) -> list[Json]:
    flags = [_parameter(name, {"type": "boolean"}) for name in ("reverse", "count")]
    numbers = [_parameter(name, _INTEGER) for name in ("limit", "min_epoch")]
    times = [_parameter(name, _MOMENT) for name in ("time_from", "time_to")]
    keys = [_parameter(name, key) for name in ("from", "to", "prefix")]
    texts = [_parameter(name, {"type": "string"}) for name in ("cursor", "frame")]
    return [*keys, *times, *flags, *numbers, *texts]


def _stream(name: str, key: Json) -> Json:
    made = _operation(f"changes.{name}", f"Changes of {name}", {}, [_parameter("prefix", key)])
    made["parameters"].append(_parameter("Last-Event-ID", _INTEGER, place="header"))
    made["responses"]["200"]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    made["responses"]["410"] = _refusal("The epoch is no longer kept")
    return made


def _operation(name: str, title: str, answer: Json, parameters: Iterable[Json] = ()) -> Json:
    ok = {
        "description": title,
        "headers": _HEADERS,
        "content": {
            kind: {"schema": answer} for kind in ("application/json", "application/msgpack")
        },
    }
    return {
        "operationId": name,
        "summary": title,
        "parameters": list(parameters),
        "responses": {
            "200": ok,
            "4XX": _refusal("The question is refused"),
            "503": _refusal("There is no answer now"),
        },
    }


def _refusal(title: str) -> Json:
    schema = {"$ref": f"{REFERENCE}Error"}
    return {"description": title, "content": {"application/json": {"schema": schema}}}


def _answer(properties: dict[str, Json]) -> Json:
    return {"type": "object", "properties": {"epoch": _EPOCH, **properties}, "required": ["epoch"]}


def _listed() -> Json:
    return _answer(
        {"watermark": {"type": ["integer", "null"]}, "stores": _many({"type": "object"})}
    )


def _body(properties: dict[str, Any], required: list[str] | None = None) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    schema["required"] = list(properties) if required is None else required
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _parameter(name: str, schema: Json, *, place: str = "query", required: bool = False) -> Json:
    return {"name": name, "in": place, "required": required or place == "path", "schema": schema}


def _many(items: Json) -> Json:
    return {"type": "array", "items": items}


def _take(found: tuple[Json, dict[str, Json]], schemas: dict[str, Json]) -> Json:
    """Return a schema, and keep those that it refers to."""
    schema, named = found
    schemas.update(named)
    return schema
