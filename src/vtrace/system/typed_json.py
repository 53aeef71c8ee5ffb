"""From parsed JSON to annotated types: dataclasses, named tuples, tuples, literals and plain values.

Written by hand: validation libraries convert wrong values ("3" to 3), and are not dependencies of the core.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "null"}


def as_typed(kind: Any, value: Any, where: str) -> Any:
    """The value as what the annotation says, or a `ValueError` that says where it is something else."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return None if value is None and NoneType in arguments else as_typed(arguments[0], value, where)
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{where} is {str(value)[:40]!r}, not one of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple:  # tuple[X, ...]
        return tuple(as_typed(arguments[0], item, where) for item in _list(value, where))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is not an object")
        return value
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**typed_fields(kind, value, where))
    if issubclass(kind, tuple):  # a named tuple
        items, hints = _list(value, where), _hints(kind).values()
        if len(items) != len(hints):
            raise ValueError(f"{where} has {len(items)} values instead of {len(hints)}")
        return kind(*(as_typed(hint, item, where) for hint, item in zip(hints, items, strict=True)))
    return _plain(kind, value, where)


def typed_fields(kind: Any, value: Any, where: str, without: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass, from an object or from a list in their order."""
    hints = _hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.name not in without]
    if isinstance(value, list):
        if len(value) > len(fields):
            raise ValueError(f"{where} has {len(value)} values instead of {len(fields)}")
        value = {field.name: item for field, item in zip(fields, value, strict=False)}
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    if unknown := sorted(set(value) - {field.name for field in fields} - set(without)):
        raise ValueError(f"{where} has an unknown field {unknown[0][:40]!r}")
    found = {}
    for field in fields:
        if field.name in value:
            found[field.name] = as_typed(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{where} has no field {field.name!r}")
    return found


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is not a list")
    return value


def _plain(kind: type, value: Any, where: str) -> Any:
    fits = isinstance(value, int | float if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where} is {str(value)[:40]!r}, not {_WORDS[kind]}")
    return float(value) if kind is float else value
