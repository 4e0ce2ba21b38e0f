"""How words become values, where tyro's own way is not what people expect."""

import dataclasses
import types
import typing
from typing import Any

from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
)


def registry() -> ConstructorRegistry:
    """The rules, to be used as a context."""
    rules = ConstructorRegistry()

    def kinds(info: Any) -> tuple[Any, ...]:
        union = typing.get_origin(info.type) in (typing.Union, types.UnionType)
        return typing.get_args(info.type) if union else ()

    @rules.primitive_rule
    def optional(info: Any) -> PrimitiveConstructorSpec | None:
        """`{None}|PATH` is PATH in a help text; the word None is still none."""
        some = [kind for kind in kinds(info) if kind is not type(None)]
        if len(some) != 1:
            return None
        inner = rules.get_primitive_spec(PrimitiveTypeInfo.make(some[0], info.markers))
        if not isinstance(inner, PrimitiveConstructorSpec):
            return None
        return dataclasses.replace(
            inner,
            instance_from_str=lambda words: (
                None if words == ["None"] else inner.instance_from_str(words)
            ),
            is_instance=lambda value: value is None or inner.is_instance(value),
            str_from_instance=lambda value: (
                ["None"] if value is None else inner.str_from_instance(value)
            ),
        )

    @rules.primitive_rule
    def component(info: Any) -> PrimitiveConstructorSpec | None:
        """On the command line what may be an object is given by its name."""
        if str not in kinds(info) or {*kinds(info)} <= {str, type(None)}:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="NAME",
            instance_from_str=lambda words: words[0],
            is_instance=lambda value: True,
            str_from_instance=lambda value: [str(value)],
        )

    return rules
