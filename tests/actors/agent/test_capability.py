"""Methods as capabilities: what they declare, and how parameters become arguments."""

from __future__ import annotations

import dataclasses
import enum
import threading
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    Json,
    RootModel,
    computed_field,
    model_validator,
)

from ether_actors.agent.agent import Agent, AsyncAgent, ThreadedAgent, default_name
from ether_actors.agent.declarations.capability import Handler, WrongResult, capability
from ether_actors.agent.declarations.event_handler import on_event
from ether_actors.agent.declarations.schedule import every
from ether_actors.task.parameter_errors import ParameterError
from ether_actors.task.task import Task
from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.payload import pack
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidManifest, UsageError


class Depth(enum.Enum):
    SHALLOW = "shallow"
    DEEP = "deep"


class Topic(BaseModel):
    name: str
    depth: int = 2


class Query(BaseModel):
    limit: int = 10


SEVEN = Query(limit=7)
LOCK = threading.Lock()


class Foreign:
    pass


class Numbers(RootModel[list[int]]):
    pass


class Counts(RootModel[dict[str, int]]):
    pass


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Empty(BaseModel):
    pass


class Static(BaseModel):
    a: int = 0

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: Any) -> Any:
        return handler(source)


class Renamed(BaseModel):
    new: int = 0

    def __init__(self, **given: int) -> None:
        super().__init__(new=given.get("old", 0))


class Open(BaseModel, extra="allow"):
    name: str


class Deaf(BaseModel, extra="ignore"):
    name: str


class Old(BaseModel):
    name: str

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, value: dict[str, str]) -> dict[str, str]:
        return {"name": value.get("title", "")}


class Aliased(BaseModel):
    name: str = Field(validation_alias=AliasChoices("title", AliasPath("names", 0)))
    depth: int = Field(default=0, alias="d")


class ByName(BaseModel, validate_by_alias=False):
    no: int = Field(alias="number")


class Both(BaseModel, populate_by_name=True):
    no: int = Field(alias="number")

    @computed_field
    def double(self) -> int:
        return 2 * self.no


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Odd:
    """No model, no dataclass, nothing that JSON could say."""


def handler(function: Any, name: str = "x.y") -> Handler:
    cls = type("Sample", (Agent,), {"method": capability(name)(function)})
    return cls.handlers()[name]


def arguments(function: Any, params: Any) -> dict[str, Any]:
    return handler(function).arguments(pack(params))


def misfit(function: Any, params: Any) -> ParameterError:
    with pytest.raises(ParameterError) as raised:
        arguments(function, params)
    return raised.value


# -- parameters --------------------------------------------------------------------------------------------------


def test_parameters_are_matched_by_name_with_their_types_and_defaults():
    def method(self, path: str, limit: int = 3, depth: Depth = Depth.DEEP): ...

    assert arguments(method, {"path": "a"}) == {"path": "a", "limit": 3, "depth": Depth.DEEP}
    assert arguments(method, {"path": "a", "limit": 9, "depth": "shallow"})["depth"] is Depth.SHALLOW


def test_one_model_takes_the_whole_of_params():
    def method(self, topic: Topic): ...

    assert arguments(method, {"name": "ZeroMQ"}) == {"topic": Topic(name="ZeroMQ", depth=2)}


def test_what_one_model_does_not_have_is_refused_as_what_parameters_do_not_have():
    def method(self, topic: Topic): ...

    wrong = misfit(method, {"name": "x", "dept": 3})
    assert (wrong.unexpected, str(wrong)) == (
        ("dept",), "x.y does not take these params: dept: Extra inputs are not permitted"
    )  # fmt: skip
    nested = misfit(method, {"topic": {"name": "x"}})
    assert (nested.missing, nested.unexpected) == (("name",), ("topic",))
    assert str(nested).endswith("The params are the fields of Topic: {'name': …}, not {'topic': {…}}.")
    assert handler(method).capability.params_schema["additionalProperties"] is False


def test_the_schema_of_a_model_that_has_itself_inside_takes_what_the_handler_takes():
    def method(self, tree: Tree): ...

    schema = handler(method).capability.params_schema
    given = {"name": "a", "children": [{"name": "b"}]}
    jsonschema.validate(given, thaw(schema), cls=jsonschema.Draft202012Validator)
    assert arguments(method, given)["tree"].children[0].name == "b"
    assert misfit(method, {"name": "a", "nme": "b"}).unexpected == ("nme",)


def test_a_model_with_defaults_alone_takes_no_params_but_not_others():
    def method(self, query: Query): ...

    assert arguments(method, None) == {"query": Query()}
    assert misfit(method, {"query": {"limit": 3}}).unexpected == ("query",)


def test_a_model_that_says_what_it_does_with_others_is_asked():
    def is_open(self, it: Open): ...
    def is_deaf(self, it: Deaf): ...
    def is_old(self, it: Old): ...
    def is_aliased(self, it: Aliased): ...

    assert arguments(is_open, {"name": "a", "more": 1})["it"].more == 1
    assert arguments(is_deaf, {"name": "a", "more": 1})["it"] == Deaf(name="a")
    assert arguments(is_old, {"title": "a"})["it"] == Old(title="a")
    for params in ({"title": "a", "d": 1}, {"names": ["a"], "d": 1}):
        assert (got := arguments(is_aliased, params)["it"]).name == "a"
        assert got.depth == 1
    assert misfit(is_aliased, {"title": "a", "depth": 1}).unexpected == ("depth",)


def test_a_model_is_read_under_the_names_that_it_takes_and_as_it_was_sent():
    def by_name(self, it: ByName): ...
    def both(self, it: Both): ...

    assert arguments(by_name, {"no": 1})["it"].no == 1
    assert misfit(by_name, {"number": 1}).unexpected == ("number",)
    assert str(misfit(by_name, {"it": {}})).endswith("ByName: {'no': …}, not {'it': {…}}.")
    assert set(handler(by_name).capability.params_schema["properties"]) == {"no"}
    assert "additionalProperties" not in handler(both).capability.params_schema, "it has the alias alone"
    for params in ({"no": 1}, {"number": 1}, Both(no=1)):
        assert arguments(both, params)["it"].double == 2
    assert misfit(both, {"no": 1, "treble": 3}).unexpected == ("treble",)


def test_the_default_of_what_takes_the_whole_body_counts_and_each_call_has_its_own():
    def model(self, it: Query = SEVEN): ...
    def packed(self, it: bytes = b"dd"): ...
    def whole(self, params=None): ...
    def annotated(self, it: Annotated[Query, Field(description="what is asked")]): ...
    def read(self, it: Annotated[Query, BeforeValidator(lambda value: {"limit": int(value)})]): ...
    def locked(self, params=LOCK): ...
    def short(self, it: Annotated[bytes, Field(max_length=2)]): ...

    first = arguments(model, None)["it"]
    assert first.limit == 7
    assert arguments(model, None)["it"] is not first
    assert arguments(model, {"limit": 3})["it"].limit == 3
    assert arguments(packed, None) == {"it": b"dd"}
    assert arguments(whole, None) == {"params": None}
    assert arguments(annotated, {"limit": 3})["it"].limit == 3
    assert arguments(read, "5")["it"].limit == 5
    assert arguments(locked, None)["params"] is LOCK
    assert misfit(annotated, {"it": {"limit": 3}}).unexpected == ("it",)
    assert arguments(short, b"ab") == {"it": b"ab"}
    assert misfit(short, "ab").unexpected == ("it",)
    assert "at most 2 bytes" in str(misfit(short, b"abc"))


def test_what_cannot_be_checked_is_told_with_its_method():
    def gives(self) -> Foreign: ...

    def bad(self, params: Annotated[str, Field(pattern="(")]): ...

    with pytest.raises(InvalidManifest, match=r"bad takes .*, which cannot be checked: "):
        handler(bad)
    with pytest.raises(InvalidManifest, match=r"gives returns <class .*Foreign'>, which cannot be checked: Unable to"):
        handler(gives)


def test_a_model_that_is_no_dict_or_reads_it_in_its_own_way_is_asked_too():
    def numbers(self, it: Numbers): ...
    def counts(self, it: Counts): ...
    def renamed(self, it: Renamed): ...
    def empty(self, it: Empty): ...
    def aliased(self, it: Aliased): ...
    def static(self, it: Static): ...
    def gives(self) -> Aliased: ...

    assert str(misfit(aliased, {"it": {}})).endswith(
        "The params are the fields of Aliased: {'title': …}, not {'it': {…}}."
    )
    assert arguments(static, {"a": 1, "b": 2})["it"].a == 1
    assert handler(gives).capability.result_schema["required"] == ["name"]
    assert set(handler(gives).capability.result_schema["properties"]) == {"name", "d"}
    assert arguments(numbers, [1, 2])["it"].root == [1, 2]
    assert arguments(counts, {"a": 1})["it"].root == {"a": 1}
    assert "additionalProperties" not in handler(numbers).capability.params_schema
    assert arguments(renamed, {"old": 3})["it"].new == 3
    assert str(misfit(empty, {"it": {}})).endswith("The params are the fields of Empty: {}, not {'it': {…}}.")


def test_a_dataclass_is_matched_by_name_as_any_other_type():
    def method(self, at: Point): ...

    assert arguments(method, {"at": {"x": 1}}) == {"at": Point(1)}


def test_a_parameter_called_params_takes_the_body_as_it_is():
    def method(self, params): ...

    assert arguments(method, [1, {"a": 2}]) == {"params": [1, {"a": 2}]}


def test_bytes_are_taken_as_they_are_and_nothing_else_in_their_place():
    def method(self, body: bytes): ...

    assert arguments(method, b"abc") == {"body": b"abc"}
    assert misfit(method, "abc").unexpected == ("body",)


def test_no_parameters_take_no_params_or_an_empty_map():
    def method(self): ...

    assert arguments(method, None) == arguments(method, {}) == {}
    assert misfit(method, {"a": 1}).unexpected == ("a",)


def test_keyword_parameters_take_whatever_else_there_is():
    def method(self, path: str, **options: Any): ...

    assert arguments(method, {"path": "a", "p0": 1, "deep": True}) == {"path": "a", "p0": 1, "deep": True}


@pytest.mark.parametrize("name", ["schema", "json", "copy", "dict", "_private", "model_config", "model_fields", "cls"])
def test_a_parameter_may_have_a_name_that_means_something_to_pydantic(name: str):
    namespace: dict[str, Any] = {}
    exec(f"def method(self, {name}: int): return {name}", namespace)

    made = handler(namespace["method"])

    assert made.arguments(pack({name: 3})) == {name: 3}
    assert list(made.capability.params_schema["properties"]) == [name]


def test_constraints_in_annotations_hold():
    def method(self, limit: Annotated[int, Field(ge=1)] = 1, word: Literal["a", "b"] = "a"): ...

    assert misfit(method, {"limit": 0, "word": "c"}).unexpected == ("limit", "word")


def test_each_call_gets_objects_of_its_own():
    def method(self, items: list[int], seen: list[int] = []): ...  # noqa: B006

    made, params = handler(method), pack({"items": [1]})
    first, second = made.arguments(params), made.arguments(params)
    first["items"].append(2)
    first["seen"].append(2)

    assert second == {"items": [1], "seen": []}


def test_what_is_missing_and_what_does_not_fit_are_named_apart():
    def method(self, path: str, topic: Topic, limit: int = 3): ...

    found = misfit(method, {"limit": "many", "topic": {"depth": "deep"}, "surplus": 1})

    assert found.missing == ("path", "topic.name")
    assert set(found.unexpected) == {"limit", "topic.depth", "surplus"}
    assert "x.y does not take these params" in str(found)
    assert misfit(method, [1, 2]).unexpected == ("params",)


class Round(BaseModel):
    kind: Literal["round"] = "round"
    radius: int


class Square(BaseModel):
    kind: Literal["square"] = "square"
    side: int


@pytest.mark.parametrize(
    ("annotation", "given", "missing", "unexpected"),
    [
        (str | list[str], 5, (), ("it",)),
        (str | list[str], ["a", 5], (), ("it",)),
        (int | float | None, "x", (), ("it",)),
        (Round | Square, {}, (), ("it",)),
        (Round | Square, {"radius": "x"}, (), ("it",)),
        (Round | None, {}, ("it.radius",), ()),
        (list[Round | Square], [{"side": 1}, {}], (), ("it.1",)),
        (Annotated[Round | Square, Field(discriminator="kind")], {"kind": "square"}, ("it.side",), ()),
        (Annotated[Round | Square, Field(discriminator="kind")], {"kind": "oval"}, (), ("it",)),
        (dict[int, int], {"x": 1}, (), ("it.x",)),
        (dict[int, int], {"x": "y"}, (), ("it.x",)),
        (dict[str, Round], {"a": {}, "b": {"radius": "x"}}, ("it.a.radius",), ("it.b.radius",)),
        (tuple[int, int], [1], ("it.1",), ()),
        (list[list[int]], [[1], [2, "x"]], (), ("it.1.1",)),
        (Json[list[int]], "[1,", (), ("it",)),
        (Json[list[int]], '["x"]', (), ("it",)),
    ],
)
def test_what_does_not_fit_is_named_once_as_the_caller_named_it(
    annotation: Any, given: Any, missing: tuple[str, ...], unexpected: tuple[str, ...]
):
    def method(self, it, other: int = 0): ...

    method.__annotations__["it"] = annotation
    found = misfit(method, {"it": given})

    assert (found.missing, found.unexpected) == (missing, unexpected)


def test_the_message_names_the_alternatives_of_a_union():
    def method(self, it: Round | Square): ...

    assert str(misfit(method, {"it": {}})) == (
        "x.y does not take these params: it: Input should be Round (radius: Field required) or Square (side: Field required)"
    )


def test_the_message_says_that_a_key_does_not_fit():
    def method(self, it: dict[int, int]): ...

    assert "it.x: its key: Input should be a valid integer" in str(misfit(method, {"it": {"x": 1}}))


@pytest.mark.parametrize("annotation", [list[str], list[str] | int])
def test_of_very_many_problems_the_first_are_told(annotation: Any):
    def method(self, it, other: int = 0): ...

    method.__annotations__["it"] = annotation
    found = misfit(method, {"it": [1] * 20_000})

    assert str(found).startswith("x.y does not take these params: it")
    assert "; and 19,936 more" in str(found)
    assert len(found.unexpected) == (64 if annotation == list[str] else 1)
    assert len(str(found)) < 10_000


def test_the_whole_of_params_may_be_a_union():
    def method(self, params: Round | Square): ...

    assert (misfit(method, {}).missing, misfit(method, {}).unexpected) == ((), ("params",))


def test_a_task_is_found_by_its_annotation_or_its_name_and_is_no_parameter():
    def annotated(self, n: int, job: Task): ...
    def named(self, n: int, task): ...
    def neither(self, n: int): ...

    assert [handler(method).task_name for method in (annotated, named, neither)] == ["job", "task", None]
    assert arguments(annotated, {"n": 1}) == {"n": 1}


# -- results -----------------------------------------------------------------------------------------------------


def test_a_result_is_checked_against_its_annotation():
    def method(self) -> list[int]: ...

    made = handler(method)
    assert made.result([1, 2]) == [1, 2]
    with pytest.raises(WrongResult, match="returned a dict that is not what it declares"):
        made.result({"a": 1})


@pytest.mark.parametrize("value", [None, 7, {"a": object}, "text"])
def test_a_result_without_an_annotation_may_be_anything(value: Any):
    def method(self): ...

    assert handler(method).result(value) is value


def test_a_response_says_more_than_data_and_is_taken_as_it_is():
    def method(self) -> int: ...

    response = Response(request_id="x", status=Status.PARTIAL, data="half")

    assert handler(method).result(response) is response


# -- the manifest ------------------------------------------------------------------------------------------------


def test_a_decorated_method_stands_in_the_manifest_with_its_schemas():
    class Scout(Agent):
        """Looks around.

        At length.
        """

        version = "1.2.0"
        tools = ("ast",)
        max_concurrency = 4

        @capability("scout.look", confidence=0.9, constraints=["local"], latency_weight=2.0, idempotent=True)
        def look(self, path: str, limit: int = 3) -> list[str]:
            """Lists what is there.

            And more.
            """

    manifest = Scout.manifest("scout-7")
    (declared,) = manifest.capabilities

    assert (manifest.agent, manifest.version, manifest.role, manifest.tools) == (
        "scout-7",
        "1.2.0",
        "Looks around.",
        ("ast",),
    )
    assert manifest.max_concurrency == 4
    assert (declared.name, declared.description) == ("scout.look", "Lists what is there.")
    assert (declared.confidence, declared.constraints, declared.latency_weight) == (0.9, ("local",), 2.0)
    assert declared.idempotent
    params, result = dict(declared.params_schema), dict(declared.result_schema)
    jsonschema.validate({"path": "a"}, params)
    jsonschema.validate(["a"], result)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"limit": 1}, params)


def test_a_type_without_a_json_schema_still_validates():
    def method(self, odd: Odd): ...

    assert handler(method).capability.params_schema == {}
    assert misfit(method, {"odd": 1}).unexpected == ("odd",)


def test_capabilities_are_inherited_and_an_override_counts_once():
    class Base(Agent):
        @capability("a.b")
        def method(self): ...

        @capability("a.c")
        def other(self): ...

    class Child(Base):
        @capability("a.b", confidence=0.5)
        def method(self): ...

    assert sorted(Child.handlers()) == ["a.b", "a.c"]
    assert Child.manifest().capability("a.b").confidence == 0.5
    assert Base.manifest().capability("a.b").confidence == 1.0


def test_a_declared_static_or_class_method_is_refused():
    for decorator in (staticmethod, classmethod):
        with pytest.raises(InvalidManifest, match=rf"Above\.method is declared and a {decorator.__name__}.* take @"):

            class Above(Agent):
                @capability("a.b")
                @decorator
                def method(self): ...

        with pytest.raises(InvalidManifest, match=rf"Below\.note is declared and a {decorator.__name__}.* take @"):

            class Below(Agent):
                @decorator
                @on_event("a.b")
                def note(self): ...


@pytest.mark.parametrize(
    ("name", "hook"),
    [("on_strat", "on_start"), ("on_stopp", "on_stop"), ("on_failur", "on_failure"), ("om_receive", "on_receive")],
)
def test_a_misspelt_hook_is_refused_with_the_one_that_is_meant(name: str, hook: str):
    with pytest.raises(InvalidManifest, match=rf"Agent\.{name} is none of .* Did you mean '{hook}'\?"):
        type(Agent)("Agent", (Agent,), {name: lambda self: None, "__qualname__": "Agent"})


def test_methods_of_ones_own_and_of_other_classes_may_begin_as_hooks_do():
    class Handler:
        def on_starts(self): ...

    class Own(Handler, Agent):
        on_stops = None

        def on_started(self): ...
        def on_status(self): ...

        @on_event("a.b")
        def on_stopp(self, event): ...

    assert Own.manifest().subscriptions[0].topic == "a.b"


def test_what_overrides_a_declared_method_is_declared_too_or_none():
    class Base(Agent):
        @every(60.0)
        @capability("a.b")
        def method(self): ...

        @on_event("a.c")
        def note(self, event): ...

    class Plain:
        def note(self, event): ...

    with pytest.raises(InvalidManifest, match=r"Child\.method overrides what .*Base declares .* method = None"):

        class Child(Base):
            def method(self): ...

    with pytest.raises(InvalidManifest, match=r"Plain\.note overrides what .*Base declares"):

        class Mixed(Plain, Base):
            pass

    class Without(Base):
        method = None
        note = None

    class Further(Without):
        def method(self): ...

    assert (Without.handlers(), Without.schedules(), Without.event_handlers()) == ({}, [], {})
    assert Further.handlers() == {}


def test_two_methods_of_one_capability_are_refused():
    class Twice(Agent):
        @capability("a.b")
        def one(self): ...

        @capability("a.b")
        def two(self): ...

    with pytest.raises(InvalidManifest, match=r"declares 'a\.b' twice: one and two"):
        Twice.handlers()


@pytest.mark.parametrize("name", ["", "two words", ".a", "a..b", "ü", "*.a", "x" * 201])
def test_a_name_that_is_none_is_refused_where_it_is_written(name: str):
    with pytest.raises(InvalidManifest, match="name"):
        capability(name)


@pytest.mark.parametrize("fields", [{"confidence": 1.5}, {"confidence": -0.1}, {"latency_weight": -1.0}])
def test_a_number_out_of_range_is_refused_where_it_is_written(fields: dict[str, float]):
    with pytest.raises(InvalidManifest, match=next(iter(fields))):
        capability("a.b", **fields)


def test_parameters_without_a_name_are_refused():
    def positional(self, n: int, /): ...
    def variable(self, *ns: int): ...

    for method in (positional, variable):
        with pytest.raises(InvalidManifest, match="no name"):
            handler(method)


def test_an_annotation_that_cannot_be_found_is_refused_with_the_fix():
    def method(self, n: Nowhere): ...  # noqa: F821

    with pytest.raises(InvalidManifest, match=r"'Nowhere'.*import it there, not only under TYPE_CHECKING"):
        handler(method)


def test_annotations_may_name_what_only_the_defining_function_knows():
    class Local(BaseModel):
        n: int

    class Mine(Agent):
        @capability("a.b")
        def method(self, local: Local) -> Local:
            return local

    assert Mine.handlers()["a.b"].arguments(pack({"n": 1})) == {"local": Local(n=1)}


@pytest.mark.parametrize(
    "attributes",
    [{"version": "one"}, {"max_concurrency": 0}, {"exclusions": ("a",)}, {"tools": 7}],
)
def test_attributes_that_make_no_manifest_are_refused_by_the_classs_name(attributes: dict[str, Any]):
    def method(self): ...

    cls = type("Odd", (Agent,), {"method": capability("a.b")(method), **attributes})

    with pytest.raises(InvalidManifest, match="Odd"):
        cls.manifest()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("CodeReviewer", "code-reviewer"), ("Scout", "scout"), ("HTTPFetcher", "httpfetcher"), ("_Hidden", "hidden")],
)
def test_a_class_without_a_name_of_its_own_is_named_after_itself(name: str, expected: str):
    assert default_name(type(name, (), {})) == expected


def test_agents_are_started_by_a_bus_and_not_by_pykka():
    with pytest.raises(UsageError, match=r"bus\.start\(Agent"):
        Agent.start()
    assert (Agent.dispatch, ThreadedAgent.dispatch, AsyncAgent.dispatch) == ("pool", "thread", "loop")
