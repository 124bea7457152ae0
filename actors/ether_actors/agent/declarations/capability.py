"""Capabilities as methods: what a decorated method declares, and how a delegation's parameters become its arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    create_model,
)
from pydantic.fields import FieldInfo

from ether_actors.agent.declarations.class_checks import EVENT_MARK, check_is_new
from ether_actors.agent.declarations.schedule import schedule_of
from ether_actors.task.parameter_errors import ParameterError
from ether_broker.encoding.frozen import freeze
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.manifest.manifest import Capability
from ether_broker.envelope.model import problem_words
from ether_broker.envelope.names import BUS_PREFIX
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.response import Response
from ether_broker.errors import InvalidManifest
from ether_broker.text import error_text, one_line

if TYPE_CHECKING:
    from ether_actors.task.task import Task

__all__ = ["Handler", "WrongResult", "capability", "handlers_of", "hints_of", "is_declared", "task_parameter"]

_MARK: Final = "__ether_capability__"
_NOTHING: Final = pack(None)
_F = TypeVar("_F", bound=Callable[..., Any])


class WrongResult(Exception):
    """The error that a handler returned something else than it declares."""


@dataclass(frozen=True, slots=True)
class _Declaration:
    name: str
    confidence: float
    constraints: tuple[str, ...]
    latency_weight: float
    idempotent: bool
    description: str
    extra: dict[str, Any] = field(default_factory=dict)


def capability(
    name: str,
    *,
    confidence: float = 1.0,
    constraints: tuple[str, ...] | list[str] = (),
    latency_weight: float = 1.0,
    idempotent: bool = False,
    description: str = "",
) -> Callable[[_F], _F]:
    """Declare that a method of an `Agent` is a capability.

    The method takes, besides an optional `task: Task`, either one parameter annotated with a pydantic model (or named
    `params`, for the whole body as it is), or any annotated parameters, which are matched by name. It may be
    `async def`. Its parameters' and its result's JSON Schemas stand in the manifest.

    Args:
        name: dotted, from the general to the special, as in `research.context.deepen`; `*` accepts capabilities that no
            other agent holds.
        confidence: 0 to 1.
        constraints: for people, as in `"Requires network fetch tools"`.
        latency_weight: relative cost in time; lighter holders are preferred among equally busy ones.
        idempotent: whether it may run twice. If its node is lost, an idempotent one runs again, and another ends
            FAILED_EXECUTION with the code `node_lost` (G3).
        description: default: the first line of the method's docstring.

    Raises:
        InvalidManifest: the name or a number is not allowed.
    """
    if not isinstance(name, str):
        msg = '@capability needs a name, in parentheses: @capability("text.count").'
        raise InvalidManifest(msg)
    if name.startswith(BUS_PREFIX.decode()):
        raise InvalidManifest(
            f"@capability({name!r}): what begins with `ether.` is the bus's own: choose another word."
        )
    try:
        Capability.model_validate({"name": name, "confidence": confidence, "latency_weight": latency_weight})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        msg = f"@capability({name!r}): {problem['loc'][0]}: {problem_words(problem)}."
        raise InvalidManifest(msg) from None

    def mark(function: _F) -> _F:
        check_is_new(function, sys._getframe(1).f_locals)  # noqa: SLF001  where the decorator stands
        if hasattr(function, EVENT_MARK):
            raise InvalidManifest(
                f"{function.__qualname__} handles one topic, or is a capability: write a method for each."
            )
        text = description or (inspect.getdoc(function) or "").partition("\n")[0]
        declared = _Declaration(name, confidence, tuple(constraints), latency_weight, idempotent, text)
        setattr(function, _MARK, declared)
        return function

    return mark


class Handler:
    """The method of a capability, with what is needed to call it; one for each class, shared by its agents."""

    __slots__ = (
        "_adapter", "_default", "_field", "_known", "_names", "_result", "_whole", "capability", "function", "is_async",
        "task_name",
    )  # fmt: skip

    def __init__(self, function: Callable[..., Any], namespace: dict[str, Any]) -> None:
        declared: _Declaration = getattr(function, _MARK)
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        hints = hints_of(function, namespace)
        self.task_name, parameters = task_parameter(function, namespace)
        self._field: str | None = None
        self._names: dict[str, str] = {}
        self._whole: Any = None
        self._default: Any = inspect.Parameter.empty
        """What the parameter is that takes the whole body, where there are no params."""
        self._adapter: TypeAdapter[Any] | None = None
        self._known: frozenset[str] | None = None
        """What the params may have, where one model is all of them and does not say itself what it does with the rest."""
        self._bind(declared.name, parameters, hints)
        result = hints.get("return", Any)
        plain = result in (Any, None, type(None)) or result is Response or result is inspect.Parameter.empty
        self._result: TypeAdapter[Any] | None = None if plain else self._checks(result, "returns")
        self.capability = Capability(
            name=declared.name,
            confidence=declared.confidence,
            constraints=declared.constraints,
            latency_weight=declared.latency_weight,
            idempotent=declared.idempotent,
            description=declared.description,
            params_schema=self._params_schema(),
            result_schema=_schema(self._result, mode="serialization"),
        )

    def _checks(self, hint: Any, what: str) -> TypeAdapter[Any]:
        try:
            return TypeAdapter(hint)
        except Exception as error:  # noqa: BLE001  whatever pydantic makes of an annotation
            why = one_line(error_text(error), 200)
            msg = f"{self.function.__qualname__} {what} {hint!r:.80}, which cannot be checked: {why}"
            raise InvalidManifest(msg) from None

    def _params_schema(self) -> Any:
        schema = _schema(self._adapter)
        if self._known is None or not self._known.issubset(schema.get("properties", ())):
            return (
                schema  # what it does not name, an alias or a field of a model that has itself inside, may be given too
            )
        return freeze({**schema, "additionalProperties": False})

    def _bind(self, name: str, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> None:
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                msg = f"{self.function.__qualname__} ({name}): parameter {parameter} has no name that params could use."
                raise InvalidManifest(msg)
        if len(parameters) == 1:
            only = parameters[0]
            hint = hints.get(only.name, Any)
            whole = get_args(hint)[0] if get_origin(hint) is Annotated else hint
            is_model = isinstance(whole, type) and issubclass(whole, BaseModel) and not issubclass(whole, Artifact)
            if only.kind is not only.VAR_KEYWORD and (is_model or only.name == "params" or whole is bytes):
                self._field, self._whole, self._default = only.name, whole, only.default
                self._adapter = None if hint in (Any, bytes) else self._checks(hint, "takes")
                self._known = _names_of(whole) if is_model and not _reads_itself(hint) else None
                return
        fields: dict[str, Any] = {}
        extra: Literal["allow", "forbid"] = "forbid"
        for parameter in parameters:
            if parameter.kind is parameter.VAR_KEYWORD:
                extra = "allow"
                continue
            default = ... if parameter.default is parameter.empty else parameter.default
            hint = hints.get(parameter.name, Any)
            # Under a name of our own, as `schema`, `json` or `_x` mean something else to pydantic.
            self._names[f"p{len(fields)}"] = parameter.name
            fields[f"p{len(fields)}"] = (hint, Field(default, alias=parameter.name))
        model = create_model(
            f"{self.function.__name__}_params",
            __config__=ConfigDict(extra=extra, arbitrary_types_allowed=True, protected_namespaces=()),
            **fields,
        )
        self._adapter = TypeAdapter(model)

    @property
    def needs_params(self) -> bool:
        """Whether it cannot be called without parameters."""
        try:
            self.arguments(_NOTHING)
        except ParameterError:
            return True
        return False

    def arguments(self, params: bytes) -> dict[str, Any]:
        """Turn a delegation's packed parameters into the method's arguments; each call gets objects of its own.

        Raises:
            ParameterError: they do not fit; names the fields.
            InvalidEnvelope: as `unpack`.
        """
        value = unpack(params, bounded=True)
        if value is None and self._default is not inspect.Parameter.empty:
            assert self._field is not None
            is_changeable = isinstance(self._default, (BaseModel, dict, list, set))
            return {self._field: deepcopy(self._default) if is_changeable else self._default}
        if self._whole is bytes and type(value) is not bytes:
            msg = f"params has to be bytes and is a {type(value).__name__}"
            raise ParameterError(msg, unexpected=(self._field or "",))
        if self._adapter is None:
            assert self._field is not None
            return {self._field: value}
        if value is None:
            value = {}
        try:
            valid = self._adapter.validator.validate_python(value)
        except ValidationError as error:
            raise self._misfit(value, error) from None
        if self._field is not None:
            if self._known is not None and not self._known.issuperset(value):
                raise self._misfit(value, None)
            return {self._field: valid}
        arguments = dict(valid.__pydantic_extra__ or {})
        for ours, name in self._names.items():
            arguments[name] = getattr(valid, ours)
        return arguments

    def _misfit(self, value: Any, error: ValidationError | None) -> ParameterError:
        unknown, fix = [], ""
        if self._known is not None and isinstance(value, Mapping):
            unknown = [str(name) for name in value if name not in self._known]
            if unknown == [self._field] and isinstance(value[self._field], Mapping):
                fields = self._whole.model_fields
                first = next((name for name, info in fields.items() if info.is_required()), next(iter(fields), ""))
                names = [*_aliases_of(fields[first]), first] if first else []
                first = next((name for name in names if name in self._known), first)
                shown = f"{{{first!r}: …}}" if first else "{}"
                fix = f". The params are the fields of {self._whole.__name__}: {shown}, not {{{self._field!r}: {{…}}}}."
        return ParameterError.of(self.capability.name, value, error, unknown, fix)

    def result(self, value: Any) -> Any:
        """Check a result against the return annotation.

        Raises:
            WrongResult: it is something else.
        """
        if self._result is None or isinstance(value, Response):
            return value
        try:
            return self._result.validator.validate_python(value)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"]) or "the result"
            instead = getattr(type(value), "__ether_instead__", problem["msg"])
            msg = (
                f"{self.function.__qualname__} returned a {type(value).__name__} that is not what it declares: "
                f"{where}: {instead}"
            )
            raise WrongResult(msg) from None

    def call(self, agent: object, arguments: dict[str, Any], task: Task) -> Any:
        """Call the method; an `async def` gives a coroutine."""
        if self.task_name is not None:
            arguments[self.task_name] = task
        return self.function(agent, **arguments)


def is_declared(function: object) -> bool:
    """Whether a function is declared to be a capability."""
    return hasattr(function, _MARK)


def task_parameter(
    function: Callable[..., Any], namespace: dict[str, Any]
) -> tuple[str | None, list[inspect.Parameter]]:  # fmt: skip
    """The parameter of a method that is its task, if it has one, and the others.

    Raises:
        InvalidManifest: an annotation names what cannot be found.
    """
    hints = hints_of(function, namespace)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    task = next((parameter.name for parameter in parameters if _is_task(parameter, hints)), None)
    return task, [parameter for parameter in parameters if parameter.name != task]


def _is_task(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    if hint is None:
        return parameter.name == "task"
    return isinstance(hint, type) and any(base.__module__ == "ether_actors.task.task" for base in hint.__mro__)


def hints_of(function: Callable[..., Any], namespace: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a function, evaluated.

    Raises:
        InvalidManifest: one names what cannot be found.
    """
    try:
        return get_type_hints(function, localns=namespace, include_extras=True)
    except NameError as error:
        msg = (
            f"{function.__qualname__}: the annotation names {error.name!r}, which cannot be found from module "
            f"{function.__module__}: import it there, not only under TYPE_CHECKING."
        )
        raise InvalidManifest(msg) from None


def _names_of(model: type[BaseModel]) -> frozenset[str] | None:
    """The names that a dict of a model's fields may have; None if the model says itself what it does with others.

    So does a model with a validator of what was given, an `__init__` or a schema of its own, and one that is no dict.
    """
    validators = model.__pydantic_decorators__.model_validators.values()
    if (
        "extra" in model.model_config
        or any(validator.info.mode != "after" for validator in validators)
        or model.__pydantic_root_model__
        or model.__init__ is not BaseModel.__init__
        or _function(model.__get_pydantic_core_schema__) is not _function(BaseModel.__get_pydantic_core_schema__)
    ):
        return None
    config = model.model_config
    takes_alias = config.get("validate_by_alias") is not False
    by_name = config.get("populate_by_name") or config.get("validate_by_name") or not takes_alias
    names = {info.alias or name for name, info in model.model_computed_fields.items()}  # a model that is sent has them
    for name, info in model.model_fields.items():
        aliases = _aliases_of(info)
        names.update(aliases if takes_alias else ())
        if not aliases or by_name:
            names.add(name)
    return frozenset(names)


def _reads_itself(hint: Any) -> bool:
    """Whether an annotation has a validator of what was given, which may be anything."""
    return any(
        isinstance(one, (BeforeValidator, PlainValidator, WrapValidator)) for one in getattr(hint, "__metadata__", ())
    )


def _aliases_of(info: FieldInfo) -> list[str]:
    """The names under which a field may be given beside its own."""
    alias = info.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [] if alias is None else [alias]
    return [str(choice.path[0]) if isinstance(choice, AliasPath) else choice for choice in choices]


def _function(method: object) -> object:
    return getattr(method, "__func__", method)


def _schema(adapter: TypeAdapter[Any] | None, mode: Any = "validation") -> Any:
    if adapter is None:
        return freeze({})
    try:
        schema = adapter.json_schema(mode=mode)
    except Exception:  # noqa: BLE001  a type without a JSON Schema still validates; the manifest just says less
        return freeze({})
    schema.pop("title", None)
    return freeze(schema)


def handlers_of(cls: type, namespace: dict[str, Any]) -> dict[str, Handler]:
    """{capability: handler} of a class, those of its bases included.

    Raises:
        InvalidManifest: two methods declare one capability, or one cannot be called by parameters.
    """
    found: dict[str, Handler] = {}
    for name in dir(cls):
        function = inspect.getattr_static(cls, name, None)
        if not hasattr(function, _MARK) or not callable(function):
            if schedule_of(function) is not None:
                msg = f'{cls.__qualname__}.{name} has a schedule and no capability: put @capability("…") below it.'
                raise InvalidManifest(msg)
            continue
        handler = Handler(function, namespace)
        if schedule_of(function) is not None and handler.needs_params:
            msg = f"{cls.__qualname__}.{name} has a schedule, so each of its parameters needs a default."
            raise InvalidManifest(msg)
        other = found.setdefault(handler.capability.name, handler)
        if other is not handler:
            msg = (
                f"{cls.__qualname__} declares {handler.capability.name!r} twice: "
                f"{other.function.__name__} and {function.__name__}; give each a name of its own."
            )
            raise InvalidManifest(msg)
    return found
