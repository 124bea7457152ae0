"""The base of all envelopes, strict and frozen, and the types of the names in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)  # fmt: skip

from ether_broker.encoding.frozen import FrozenDict, freeze, thaw
from ether_broker.envelope.names import CAPABILITY_PATTERN, GRAMMAR, MAX_NAME, NAME_PATTERN
from ether_broker.envelope.version import SCHEMA_PATTERN, check_schema_version
from ether_broker.errors import InvalidEnvelope, UsageError
from ether_broker.name_hint import nearest

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # pydantic has no public name for it

__all__ = ["AgentName", "CapabilityName", "FrozenMap", "Model", "RequestId", "SchemaVersion", "problem_words"]

AgentName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME)]
"""Letters, digits and `_ . : @ / -`, at most 200."""
CapabilityName = Annotated[str, Field(pattern=CAPABILITY_PATTERN, max_length=MAX_NAME)]
"""Dotted words from the general to the special, as in `research.context.deepen`; `*` is a fallback agent's."""
RequestId = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, UUID) else value)]
"""The text of a UUID; a `uuid.UUID` is taken too."""
SchemaVersion = Annotated[str, Field(pattern=SCHEMA_PATTERN)]
"""Of our major version; `Model.parse` says what is wrong with another."""


def _frozen_map(value: Any) -> FrozenDict:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError("expected a dict with text keys")
    return freeze(dict(value))  # type: ignore[no-any-return]


FrozenMap = Annotated[
    Mapping[str, Any],
    PlainValidator(_frozen_map),
    PlainSerializer(thaw),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]
"""A dict with text keys, deeply frozen once validated."""


_SHOWN: Final = 60
"""Characters of a wrong name that an error shows."""
_TEXTS: Final[dict[tuple[int | str, ...], str]] = {
    ("to_agent",): "an agent's name is text, as in to=ref.name",
    ("capability",): "a capability's name is text, as in 'page.read'",
}
"""{field: what is said of a value that is no text}"""
_EXPLAINED: Final = 8
"""Problems of a document that its error names; the others are counted."""
_MOST_PROBLEMS: Final = 500
"""Problems beyond which they are only counted: pydantic takes 2 µs for each to say them, and a peer may send any number."""
_new = object.__new__
_set_fields_set = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


class _ModelType(ModelMetaclass):
    """The metaclass of models: calling the class raises errors of ours; reading and validating do not come by here."""

    if not TYPE_CHECKING:  # a checker is to see the fields

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  of a class
            try:
                return super().__call__(*args, **kwargs)
            except ValidationError as error:
                raise cls.refusal(cls._explain(error)) from error


class Model(BaseModel, metaclass=_ModelType):
    """The base of all envelopes: frozen, strict about unknown fields, with errors that name the field and the fix."""

    _default_values: ClassVar[dict[str, Any]]

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        allow_inf_nan=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    refusal: ClassVar[type[UsageError]] = InvalidEnvelope
    """What `parse` raises for a document that is not valid."""

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """What `print` shows: the fields that say something and are no secret, under the names by which they are given."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if field.repr and (field.is_required() or value != field.get_default()):
                yield field.alias or name, value.value if name.endswith("_payload") else value

    @classmethod
    def trusted(cls, fields: dict[str, Any]) -> Self:
        """Make one of fields that are known to be valid, by their Python names; a third of the time of validating.

        Only for what the bus has checked itself; `model_construct` does the same in more than validating takes.
        """
        self = _new(cls)
        values = self.__dict__
        values.update(cls.__dict__.get("_default_values") or cls._defaults())
        values.update(fields)
        _set_fields_set(self, set(fields))
        _set_extra(self, None)
        _set_private(self, None)
        return self

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        fields = cls.model_fields.items()
        cls._default_values = {name: field.get_default() for name, field in fields if not field.is_required()}
        return cls._default_values

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Validate a plain dict, such as one read from JSON.

        Unknown fields are errors, unless the document says a newer minor `schema_version`; then they are dropped.

        Raises:
            InvalidEnvelope: fields are missing, unknown or of the wrong type; the message names each.
                `refusal` may say another error.
            IncompatibleVersion: the document has a newer major version.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            if _is_newer(data):
                return cls._parse_known(data, error)
            raise cls.refusal(cls._explain(error)) from error

    @classmethod
    def _parse_known(cls, data: Any, error: ValidationError) -> Self:
        try:
            return cls.model_validate(_without_unknown(data, error))
        except ValidationError as remaining:
            raise cls.refusal(cls._explain(remaining)) from remaining

    @classmethod
    def _explain(cls, error: ValidationError) -> str:
        count, lines = error.error_count(), []
        if count > _MOST_PROBLEMS:
            return f"{cls.__name__} is not valid: {count:,} of its fields and values do not fit."
        for problem in error.errors(include_url=False)[:_EXPLAINED]:
            where = ".".join(str(part) for part in problem["loc"]) or "(the whole)"
            hint = ""
            if problem["type"] == "extra_forbidden":
                hint = nearest(str(problem["loc"][-1]), _names(cls)) if len(problem["loc"]) == 1 else ""
            lines.append(f"{where}: {problem_words(problem)}{'.' if hint else ''}{hint}")
        more = f"; and {count - _EXPLAINED:,} more" if count > _EXPLAINED else ""
        return f"{cls.__name__} is not valid: " + "; ".join(lines) + more


def problem_words(problem: Any) -> str:
    """One of a ValidationError's problems: pydantic's words, or ours where they would be a regular expression."""
    wanted = _TEXTS.get(problem["loc"]) if problem["type"] == "string_type" else None
    if wanted is not None:
        return f"{wanted}, and this is {problem['input']!r:.80}"
    grammar = GRAMMAR.get(problem.get("ctx", {}).get("pattern"))
    if grammar is None:
        return str(problem["msg"]).removeprefix("Value error, ")
    return f"{problem['input'][:_SHOWN]!r} does not fit: {grammar}"


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _is_newer(data: Any) -> bool:
    version = data.get("schema_version") if isinstance(data, Mapping) else None
    return isinstance(version, str) and check_schema_version(version)


def _without_unknown(data: Any, error: ValidationError) -> Any:
    plain = thaw(data)
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        if problem["type"] == "extra_forbidden":
            *path, name = problem["loc"]
            holder = plain
            for part in path:
                holder = holder[part]
            holder.pop(name, None)
    return plain
