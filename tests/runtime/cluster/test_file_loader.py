from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ether import InvalidEndpoint, InvalidSpec, Limits, Scale, Timing
from ether.cluster.cluster_spec import AgentSpec, ClusterSpec, NodeSpec
from ether.cluster.file.file_loader import json_schema, load, of_agents
from ether_actors.backoff import Backoff
from ether_actors.restarts.supervisor_spec import Restart
from ether_broker.journal.location import default_journal
from ether_broker.mailbox.mailbox_limits import LEAST

FULL = """\
cluster: {name: reviews, bind: "tcp://*:7421", drain: 20, start_timeout: 5.5, log_level: warning, intensity: 2, period: 9,
          backoff: {initial: 0.5}}
limits: {mailbox_count: 10, mailbox_bytes: 2000, window: 3}
timing: {heartbeat: 5, silence: 15.5, patience: 7, grace: 4, max_backoff: 20}
nodes:
  - name: n1
    threads: 8
    agents:
      - {start: "reviews:Scout", name: scout, count: 2, args: [1, a], kwargs: {depth: 3}, restart: temporary}
      - start: reviews.more:Outer.Inner
        intensity: 20
        period: 60
        backoff: {initial: 1, factor: 3, maximum: 20, jitter: 0}
        escalate: true
  - {name: n2}
"""


def read(tmp_path: Path, text: str, environ: dict[str, str] | None = None, **overrides: Any) -> ClusterSpec:
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    flags = {key.replace("__", "."): value for key, value in overrides.items()}
    return load(path, flags, environ=environ or {})


def refusal(tmp_path: Path, text: str, environ: dict[str, str] | None = None, **overrides: Any) -> str:
    with pytest.raises(InvalidSpec) as raised:
        read(tmp_path, text, environ, **overrides)
    return str(raised.value).replace(f"{tmp_path}/", "")


def test_a_class_alone_stands_for_what_is_started(tmp_path: Path):
    text = 'nodes: [{name: n1, agents: ["reviews:Scout", {start: "reviews:Scout"}], observers: ["audit:Trail"]}]'

    (node,) = read(tmp_path, text).nodes

    assert node == NodeSpec("n1", ("reviews:Scout", "reviews:Scout"), observers=("audit:Trail",))  # type: ignore[arg-type]
    jsonschema.validate(yaml.safe_load(text), json_schema())


def test_a_file_says_what_a_cluster_consists_of(tmp_path: Path):
    assert read(tmp_path, FULL) == ClusterSpec(
        (
            NodeSpec(
                "n1",
                (
                    AgentSpec("reviews:Scout", "scout", 2, (1, "a"), {"depth": 3}, Restart.TEMPORARY),
                    AgentSpec(
                        "reviews.more:Outer.Inner",
                        intensity=20,
                        period=60.0,
                        backoff=Backoff(1.0, 3.0, 20.0, 0.0),
                        escalate=True,
                    ),
                ),
                threads=8,
            ),
            NodeSpec("n2"),
        ),
        name="reviews",
        bind="tcp://*:7421",
        drain=20.0,
        start_timeout=5.5,
        limits=Limits(10, 2000, 3),
        timing=Timing(5, 15.5, 7, 4, 20),
        log_level="warning",
        intensity=2,
        period=9.0,
        backoff=Backoff(initial=0.5),
        journal=str(default_journal("reviews")),
    )


def test_what_a_file_does_not_say_has_its_default(tmp_path: Path):
    assert read(tmp_path, "nodes: [{name: n1}]") == ClusterSpec(
        (NodeSpec("n1"),), journal=str(default_journal("default", tmp_path / "cluster.yaml"))
    )


def test_durability_memory_keeps_no_journal(tmp_path: Path):
    assert read(tmp_path, "{cluster: {durability: memory}, nodes: [{name: n1}]}").journal is None


def test_a_journal_that_is_named_is_the_one(tmp_path: Path):
    assert read(tmp_path, "{cluster: {journal: /here/it.db}, nodes: [{name: n1}]}").journal == "/here/it.db"


def test_durability_memory_beside_a_journal_is_refused(tmp_path: Path):
    with pytest.raises(InvalidSpec, match="leave one of the two out"):
        read(tmp_path, "{cluster: {durability: memory, journal: /here/it.db}, nodes: [{name: n1}]}")


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path):
    environ = {"ETHER_CLUSTER__DRAIN": "2", "ETHER_CLUSTER__PERIOD": "2.5", "ETHER_LIMITS__WINDOW": "2"}
    spec = read(tmp_path, FULL, environ, cluster__drain=1.0, cluster__name=None)

    assert (spec.drain, spec.period, spec.intensity) == (1.0, 2.5, 2)
    assert (spec.limits.window, spec.limits.mailbox_count) == (2, 10)
    assert spec.name == "reviews"


def test_a_backoff_is_set_by_variables_too_and_one_that_cannot_be_is_told_with_its_place(tmp_path: Path):
    assert read(tmp_path, FULL, {"ETHER_CLUSTER__BACKOFF__MAXIMUM": "7"}).backoff == Backoff(0.5, maximum=7.0)
    agent = "nodes: [{name: n1, agents: [{start: 'a:B', backoff: {initial: 5, maximum: 2}}]}]"

    told = refusal(tmp_path, agent)
    unknown = refusal(tmp_path, FULL, {"ETHER_CLUSTER__BACKOFF__MAXIMAL": "7"})
    negative = refusal(tmp_path, "nodes: [{name: n1, agents: [{start: 'a:B', intensity: -1}]}]")

    assert told.startswith("cluster.yaml:1:")
    assert "nodes.0.agents.0.backoff: maximum is 2.0; give seconds, at least `initial` (5)." in told
    assert unknown == ("ETHER_CLUSTER__BACKOFF__MAXIMAL: cluster.backoff has no key 'maximal'. Did you mean 'maximum'?")
    assert "nodes.0.agents.0.intensity: should be greater than or equal to 0 (it is -1)" in negative


def test_a_variable_below_what_is_a_number_in_the_file_is_told(tmp_path: Path):
    told = refusal(tmp_path, FULL, {"ETHER_CLUSTER__PERIOD__SECONDS": "5"})

    assert "cluster.period" in told


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"intensity": -1}, "intensity is -1; give a whole number of restarts, 0 or more"),
        ({"period": 0}, "period is 0; give seconds above 0"),
        ({"backoff": 0.5}, "backoff is 0.5: give a Backoff"),
        ({"escalate": "no"}, "escalate is 'no': give True or False"),
    ],
)
def test_restarts_that_cannot_be_are_refused(fields: dict[str, Any], told: str):
    with pytest.raises(InvalidSpec, match=re.escape(told)):
        AgentSpec("reviews:Scout", **fields)


SCALED = "nodes: [{name: n1, agents: [{start: 'a:B', SCALE}]}]"


def test_an_agent_may_scale(tmp_path: Path):
    for text, scale in (
        ("scale: {max: 8}", Scale(max=8)),
        ("scale: {min: 2, max: 8, per: queue}", Scale(max=8, min=2)),
        ("scale: {min: 2, max: 2, per: 3, cooldown: 0.5}", Scale(max=2, min=2, per=3, cooldown=0.5)),
    ):
        [node] = read(tmp_path, SCALED.replace("SCALE", text)).nodes
        assert node.agents == (AgentSpec("a:B", scale=scale),)
        assert AgentSpec.of_dict(json.loads(json.dumps(node.agents[0].as_dict()))).scale == scale


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("scale: {min: 5, max: 2}", "nodes.0.agents.0.scale: min is 5 and max is 2; give a min of 2 or less."),
        ("scale: {min: 0, max: 2}", "scale.min: it has to be 1 or more: nobody can delegate to an agent without an instance"),
        ("scale: {min: 2}", "scale.max is missing"),
        ("scale: {mx: 2, max: 2}", "scale has no key 'mx'. Did you mean 'max'?"),
        ("scale: {max: 2, per: qeue}", "scale.per: it is 'qeue': give queue, or a whole number of delegations, 1 or more"),
        ("scale: {max: 1001}", "scale.max: should be less than or equal to 1000"),
        ("scale: {max: 2, cooldown: 0}", "scale.cooldown: should be greater than 0"),
        ("scale: 4", "scale: keys and values go here, as in {max: 8}."),
        ("scale: {max: 2}, count: 3", "count is 3 beside a scale: leave count out, and give scale.min"),
    ],
)  # fmt: skip
def test_a_scale_that_cannot_be_is_told_with_its_key_and_the_fix(tmp_path: Path, text: str, told: str):
    assert told in refusal(tmp_path, SCALED.replace("SCALE", text))


def test_a_scale_of_a_spec_is_checked_too():
    with pytest.raises(InvalidSpec, match=r"scale is 4: give a Scale, as Scale\(max=8\)"):
        AgentSpec("a:B", scale=4)  # type: ignore[arg-type]
    with pytest.raises(InvalidSpec, match=r"count is 2 beside a scale: leave count out, and give scale\.min"):
        AgentSpec("a:B", count=2, scale=Scale(max=8))


def test_a_timing_that_cannot_be_is_told_with_its_place_and_the_fix(tmp_path: Path):
    too_often = refusal(tmp_path, "timing: {heartbeat: 0.1}\nnodes: [{name: n1}]")
    too_short = refusal(tmp_path, "timing: {silence: 9}\nnodes: [{name: n1}]", {"ETHER_TIMING__HEARTBEAT": "5"})

    assert too_often.startswith("cluster.yaml:1:")
    assert "timing.heartbeat: should be greater than or equal to 0.2 (it is 0.1)" in too_often
    assert (
        "timing: silence is 9 s and timing.heartbeat 5 s: a silence has to be longer than two heartbeats" in too_short
    )


def test_a_variable_is_text_where_text_is_wanted(tmp_path: Path):
    environ = {"ETHER_CLUSTER__NAME": "7", "ETHER_CLUSTER__LOG_LEVEL": "error", "ETHER_CLUSTER__BIND": "ipc:///a/b"}
    spec = read(tmp_path, "nodes: [{name: n1}]", environ)

    assert (spec.name, spec.log_level, spec.bind) == ("7", "error", "ipc:///a/b")


def test_variables_of_other_parts_are_left_alone(tmp_path: Path):
    assert read(tmp_path, "nodes: [{name: n1}]", {"ETHER_HOME": "/x", "ETHER_REVIEW__LIMIT": "3", "PATH": "/bin"})


@pytest.mark.parametrize(
    "number", ["1" + ":59" * 300 + ".0", "1" + ":59" * 300, "0x" + "f" * 500_000, "9" * 65, "1 << 64"]
)
def test_a_number_that_is_too_long_or_too_large_is_a_fault_of_the_file(tmp_path: Path, number: str):
    text = str(1 << 64) if number == "1 << 64" else number

    said = refusal(tmp_path, f"limits: {{window: {text}}}\nnodes: [{{name: n1}}]")

    assert said.startswith("cluster.yaml:1:18: ")
    assert re.search(r"a number has 64 characters at most\.|a whole number has 64 bits at most\.", said)


def test_the_largest_number_of_64_bits_is_taken(tmp_path: Path):
    spec = read(tmp_path, f"nodes: [{{name: n1, agents: [{{start: 'a:B', args: [{(1 << 64) - 1}]}}]}}]")

    assert spec.nodes[0].agents[0].args == ((1 << 64) - 1,)


def test_an_agent_that_is_written_as_a_name_with_dots_is_told_how_it_is_written():
    with pytest.raises(InvalidSpec, match=r"No such file or directory\. An agent is written workers:Greeter\."):
        load(Path("workers.Greeter"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ETHER_LIMIT__WINDOW", "ETHER_LIMIT__WINDOW: there is no section 'limit'. Did you mean 'limits'?"),
        ("ETHER_CLUSTER_DRAIN", "ETHER_CLUSTER_DRAIN sets nothing: write ETHER_CLUSTER__DRAIN."),
        ("ETHER_TIMING", "ETHER_TIMING sets nothing: write ETHER_TIMING__KEY."),
        (
            "ETHER_ACCESS__OBSERVE",
            "ETHER_ACCESS__OBSERVE: access stands in the cluster file; the environment sets cluster,",
        ),
    ],
)
def test_a_variable_that_looks_like_a_setting_and_is_none_is_refused(tmp_path: Path, name: str, said: str):
    assert refusal(tmp_path, "nodes: [{name: n1}]", {name: "3"}).startswith(said)


def test_the_process_environment_is_read_unless_another_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ETHER_CLUSTER__DRAIN", "3")
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes: [{name: n1}]")

    assert load(path).drain == 3.0


@pytest.mark.parametrize("name", LEAST)
def test_a_limit_of_a_file_has_the_bound_that_it_has_in_python(tmp_path: Path, name: str):
    nodes, least = "nodes: [{name: n1}]", LEAST[name]

    assert read(tmp_path, f"limits: {{{name}: {least}}}\n{nodes}").limits == Limits(**{name: least})
    assert f"limits.{name}: should be greater than or equal to {least}" in refusal(
        tmp_path, f"limits: {{{name}: {least - 1}}}\n{nodes}"
    )
    with pytest.raises(InvalidSpec):
        Limits(**{name: least - 1})


def test_agents_make_a_cluster_without_a_file():
    spec = of_agents(["a:B", "a:C"], 2, {"cluster.drain": 4}, environ={"ETHER_LIMITS__WINDOW": "9"})

    agents = (AgentSpec("a:B"), AgentSpec("a:C"))
    assert spec.nodes == (NodeSpec("node-1", agents), NodeSpec("node-2", agents))
    assert (spec.drain, spec.limits.window) == (4, 9)


def test_a_problem_is_told_with_its_place_a_caret_and_the_nearest_key(tmp_path: Path):
    text = "cluster:\n  name: x\n  drian: 10\nnodes: [{name: n1}]\n"

    assert refusal(tmp_path, text) == (
        "cluster.yaml:3:3: cluster has no key 'drian'. Did you mean 'drain'?\n"
        "  3 |   drian: 10\n"
        "    |   ^^^^^"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metrics: {port: 9464}", "no key 'metrics': it belongs to a node, as in nodes: [{name: n1, metrics: …}]."),
        ("observers: [a:B]", "no key 'observers': it belongs to a node"),
        ("drain: 3", "no key 'drain': it belongs to cluster, as in cluster: {drain: …}."),
        ("heartbeat: 3", "no key 'heartbeat': it belongs to timing"),
        ("cluser: {}", "no key 'cluser'. Did you mean 'cluster'?"),
        ("vw: 1", "no key 'vw'. Known: access, cluster, limits, nodes, security, timing."),
    ],
)
def test_a_key_beside_the_sections_says_where_it_belongs(tmp_path: Path, text: str, said: str):
    assert f"the file has {said}" in refusal(tmp_path, f"{text}\nnodes: [{{name: n1}}]\n")


def test_all_keys_of_an_agent_are_named_where_none_is_near(tmp_path: Path):
    said = refusal(tmp_path, "nodes: [{name: n1, agents: [{start: a:B, module: 3}]}]\n")

    keys = "args, backoff, count, escalate, intensity, kwargs, name, period, restart, scale, start."
    assert f"nodes.0.agents.0 has no key 'module'. Known: {keys}\n" in said


def test_all_problems_are_told_in_the_order_of_the_file(tmp_path: Path):
    text = (
        "cluster: {drain: -1}\n"
        "nodes:\n"
        "  - nam: n1\n"
        "    agents: [{start: Scout, count: yes, restart: permanant}]\n"
    )  # fmt: skip
    heads = [line for line in refusal(tmp_path, text).splitlines() if line.startswith("cluster.yaml")]

    assert heads == [
        "cluster.yaml:1:18: cluster.drain: should be greater than or equal to 0 (it is -1).",
        "cluster.yaml:3:5: nodes.0 has no key 'nam'. Did you mean 'name'?",
        "cluster.yaml:3:5: nodes.0.name is missing.",
        "cluster.yaml:4:22: nodes.0.agents.0.start: 'Scout' is no agent: write module:Class, as in 'reviews:Scout'.",
        "cluster.yaml:4:36: nodes.0.agents.0.count: should be a valid integer (it is True).",
        (
            "cluster.yaml:4:50: nodes.0.agents.0.restart: 'permanant' is not one of permanent, transient or temporary. "
            "Did you mean 'permanent'?"
        ),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cluster.yaml:1:1: nodes is missing."),
        ("- n1", "cluster.yaml:1:1: the file: keys and values go here."),
        ("nodes: [{name: n, metrics: 9464}]", "nodes.0.metrics: keys and values go here, as in {port: 9464}."),
        ("nodes: [{name: n, agents: [Reader]}]", "'Reader' is no agent: write module:Class"),
        ("nodes: [{name: n, agents: [3]}]", "nodes.0.agents.0: keys and values go here."),
        ("nodes: []", "cluster.yaml:1:8: nodes: give at least one."),
        ("nodes: 3", "cluster.yaml:1:8: nodes: should be a valid list (it is 3)."),
        ("nodes: [{name: n1, agents: [{name: x}]}]", "cluster.yaml:1:29: nodes.0.agents.0.start is missing."),
        ("nodes: [{name: a b}]", "cluster.yaml:1:16: nodes.0.name: "),
        ("cluster: {bind: tcp/x}\nnodes: [{name: a}]", "cluster.yaml:1:17: cluster.bind: 'tcp/x' is no address"),
        ("cluster: {log_level: infoo}\nnodes: [{name: a}]", "Did you mean 'info'?"),
        ("cluster: {drain: .inf}\nnodes: [{name: a}]", "cluster.yaml:1:18: cluster.drain: should be a finite number"),
        ("nodes: [{name: a}, {name: a}]", "cluster.yaml: Two nodes are named 'a'"),
        ("nodes: [{name: broker}]", "cluster.yaml: A node is named 'broker'"),
        ("nodes: [\n", "cluster.yaml:2:1: not YAML: "),
        ("nodes: 1\nnodes: 2\n", "cluster.yaml:2:1: 'nodes' stands here a second time (first: line 1)."),
        ("nodes: &all [*all]", "cluster.yaml:1:8: this holds itself"),
        ("nodes: !!python/object:os.system {}", "not YAML: could not determine a constructor"),
        ("nodes: \0", "cluster.yaml: not YAML: "),
        ("nodes: !!timestamp x", "cluster.yaml:1:8: not YAML: no !!timestamp can be read here."),
        ("nodes: !!bool x", "cluster.yaml:1:8: not YAML: no !!bool can be read here."),
        ("nodes: !!int ''", "cluster.yaml:1:8: not YAML: no !!int can be read here."),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, says: str):
    assert says in refusal(tmp_path, text)


def test_a_file_that_grows_without_end_is_refused(tmp_path: Path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    assert "more than 100,000 values" in refusal(tmp_path, "\n".join(lines))


def test_a_variable_or_flag_that_cannot_be_is_named(tmp_path: Path):
    environ = {"ETHER_CLUSTER__DRIAN": "1", "ETHER_CLUSTER__PERIOD": "soon", "ETHER_LIMITS__WINDOW": "{"}
    text = "nodes: [{name: n1}]"

    assert refusal(tmp_path, text, {"ETHER_CLUSTER__DRIAN": "1"}) == (
        "ETHER_CLUSTER__DRIAN: cluster has no key 'drian'. Did you mean 'drain'?"
    )
    assert refusal(tmp_path, text, {"ETHER_CLUSTER__PERIOD": environ["ETHER_CLUSTER__PERIOD"]}) == (
        "ETHER_CLUSTER__PERIOD: cluster.period: should be a valid number (it is 'soon')."
    )
    assert refusal(tmp_path, text, {"ETHER_LIMITS__WINDOW": environ["ETHER_LIMITS__WINDOW"]}) == (
        "ETHER_LIMITS__WINDOW: limits.window: should be a valid integer (it is '{')."
    )
    assert refusal(tmp_path, text, cluster__drain="x").startswith("--drain: cluster.drain: ")


def test_a_setting_below_something_that_is_no_mapping_leaves_the_blame_there(tmp_path: Path):
    assert "cluster.yaml:1:10: cluster: keys and values go here." in refusal(
        tmp_path, "cluster: 3\nnodes: [{name: n1}]", {"ETHER_CLUSTER__DRAIN": "1"}
    )


@pytest.mark.parametrize("bad", ["not:", "B", "a:B:C", "a b:C"])
def test_an_agent_that_is_no_module_and_class_is_refused_without_a_file_too(bad: str):
    with pytest.raises(InvalidSpec, match="write module:Class"):
        of_agents([bad], environ={})


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path):
    with pytest.raises(InvalidSpec, match=r"nowhere\.yaml cannot be read: No such file"):
        load(tmp_path / "nowhere.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"nodes: \xff")
    with pytest.raises(InvalidSpec, match="is not UTF-8 at byte 7"):
        load(tmp_path / "bytes.yaml")


def test_of_a_file_that_does_not_end_no_more_is_read_than_a_cluster_file_may_have(tmp_path: Path):
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")

    with pytest.raises(InvalidSpec, match="cannot be read: it has more than 1,048,576 bytes"):
        load(tmp_path / "endless.yaml")


def test_the_schema_takes_what_the_reader_takes(tmp_path: Path):
    schema = json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)

    assert list(validator.iter_errors(yaml.safe_load(FULL))) == []
    assert len(list(validator.iter_errors({"nodes": [{"name": "n1", "thread": 2}]}))) == 1
    assert schema["$defs"]["ClusterSection"]["properties"]["drain"]["description"].startswith(
        "Seconds that running work"
    )
    json.dumps(schema)


def test_a_file_may_have_its_broker_advertised(tmp_path: Path):
    text = "cluster: {advertise: true, bind: 'tcp://*:7421'}\nnodes: [{name: n1}]"

    assert read(tmp_path, text).advertise
    assert read(tmp_path, "nodes: [{name: n1}]", cluster__advertise=True, cluster__bind="tcp://10.0.0.1:1").advertise
    assert not read(tmp_path, "nodes: [{name: n1}]").advertise


@pytest.mark.parametrize(
    "bind", ["null", "'ipc:///tmp/a'", "'tcp://127.0.0.1:1'", "'tcp://localhost:1'", "'tcp://[::1]:1'"]
)
def test_a_broker_that_only_this_machine_reaches_is_not_advertised(tmp_path: Path, bind: str):
    with pytest.raises(InvalidEndpoint, match=r"cluster\.yaml: .*--bind 'tcp://\*:7421'"):
        read(tmp_path, f"cluster: {{advertise: true, bind: {bind}}}\nnodes: [{{name: n1}}]")


def test_a_name_that_is_too_long_for_the_network_is_not_advertised():
    with pytest.raises(InvalidSpec, match="63 characters"):
        ClusterSpec.of(1, name="x" * 64, bind="tcp://*:1", advertise=True)


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " + "{a: " * 100_000, "- " * 100_000, "? " * 5_000])
def test_what_is_nested_too_deep_is_told_with_its_place(tmp_path: Path, text: str):
    told = refusal(tmp_path, text)

    assert re.match(r"cluster\.yaml:1:\d+: this is nested more than 64 deep\.\n", told)
    assert len(told) < 500


def test_aliases_nest_no_deeper_than_anything_else(tmp_path: Path):
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 100))

    assert "this is nested more than 64 deep." in refusal(tmp_path, text)


def test_a_variable_is_no_way_round_the_bound(tmp_path: Path):
    told = refusal(tmp_path, FULL, {"ETHER_CLUSTER__DRAIN": "[" * 100_000})

    assert told.startswith("ETHER_CLUSTER__DRAIN: cluster.drain: should be a valid number")
    assert len(told) < 500


def test_a_long_line_is_told_in_part_with_the_caret_where_it_belongs(tmp_path: Path):
    text = "cluster: {" + "name: a, " + " " * 300 + "drian: 1}\nnodes: [{name: n}]\n"

    head, line, caret = refusal(tmp_path, text).splitlines()

    assert "has no key 'drian'" in head
    assert line[caret.index("^") :].startswith("drian")
    assert len(line) < 140


def test_signs_that_a_terminal_obeys_are_written_out_in_the_line_that_is_told(tmp_path: Path):
    _, line, caret = refusal(tmp_path, 'cluster: {name: "\u202e", drian: 1}\nnodes: [{name: n}]\n').splitlines()[-3:]

    assert "\u202e" not in line
    assert line[caret.index("^") :].startswith("drian")


def test_a_file_says_the_same_by_whichever_path_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "office"
    folder.mkdir()
    (folder / "bus.yaml").write_text(
        "cluster: {bind: 'tcp://127.0.0.1:*'}\n"
        "security: {keys: keys}\n"
        "nodes: [{name: n, agents: ['tests.cli.agents:Greeter']}]\n"
    )
    specs = []
    for cwd, name in (
        (folder, "bus.yaml"),
        (tmp_path, "office/bus.yaml"),
        (folder, "../office/bus.yaml"),
        (tmp_path, str(folder / "bus.yaml")),
    ):
        monkeypatch.chdir(cwd)
        specs.append(load(name))

    assert str(specs[0].keys) == str(folder / "keys")
    assert all(spec == specs[0] for spec in specs)
