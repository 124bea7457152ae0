"""Budgets, permissions and output contracts: what the bus enforces of a delegation's bounds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ether import (
    Agent,
    Artifact,
    Budget,
    BudgetExceeded,
    InvalidEnvelope,
    OutputContract,
    Response,
    Runtime,
    Status,
    Task,
    capability,
)  # fmt: skip
from ether.testing import TestRuntime
from ether.views import AgentInput, RequestEnvelope
from ether_actors.task import output_contract
from tests.broker.envelope.views.spec_examples import BOUNDED_INPUT, REQUEST_ENVELOPE


class Worker(Agent):
    """Costs what it is told, and asks others as it is told."""

    max_concurrency = 8

    @capability("work.cost")
    def cost(self, task: Task, cost: float = 0.0, tokens: int = 0):
        return task.respond(data="done", metadata={"cost": cost, "tokens_used": tokens})

    @capability("work.tell")
    def tell(self, task: Task, params: dict):
        metadata, metrics = params.get("metadata", {}), params.get("metrics", {})
        return task.respond(Status[params["status"]], metadata=metadata, metrics=metrics)

    @capability("work.sleep")
    async def sleep(self, seconds: float) -> str:
        import asyncio

        await asyncio.sleep(seconds)
        return "done"

    @capability("work.ask")
    def ask(self, task: Task, costs: list[float], own: float = 0.0):
        task.budget.spend(cost=own)
        answers = [task.delegate("work.cost", {"cost": cost}).result() for cost in costs]
        return [answer.status.name for answer in answers]

    @capability("work.careful")
    def careful(self, task: Task, costs: list[float]):
        done = []
        for cost in costs:
            try:
                done.append(task.delegate("work.cost", {"cost": cost}).result().status.name)
            except BudgetExceeded:
                break
        return done

    @capability("work.fan")
    def fan(self, task: Task, costs: list[float], *, in_parts: bool):
        part = task.budget.part(len(costs)) if in_parts else None
        handles = [task.delegate("work.cost", {"cost": cost}, budget=part) for cost in costs]
        return [handle.result().status.name for handle in handles]

    @capability("work.pass")
    def hand_on(self, task: Task, params: dict):
        """Delegate a delegation."""
        response = task.delegate(params["what"], params["with"], **params.get("fields", {})).result()
        return {"status": response.status.name, "code": response.error.code if response.error else ""}

    @capability("work.seen")
    def seen(self, task: Task):
        return {"permissions": dict(task.delegation.permissions)}

    @capability("work.write")
    def write(self, task: Task, file: str):
        with task.lease(file) as lease:
            lease.write("x")


@pytest.fixture
def bus():
    with TestRuntime(name="desk") as bus:
        bus.start(Worker)
        yield bus


# -- time ----------------------------------------------------------------------------------------------------------


def test_max_time_sec_ends_the_work_as_its_deadline_does(bus: TestRuntime):
    handle = bus.delegate("work.sleep", {"seconds": 30.0}, budget=Budget(max_time_sec=2.0))

    bus.advance(1.9)
    assert not handle.done
    bus.advance(0.4)

    assert handle.result().status is Status.TIMEOUT


def test_spec_1s_budget_times_out_as_its_comment_says():
    told = {**BOUNDED_INPUT, "agent": "worker", "action": "work.sleep", "params": {"seconds": 0.5}}
    told["context"] = {"budget": {"max_time_sec": 0.2}}
    with Runtime(name="desk") as bus:
        bus.start(Worker)
        response = bus.send(AgentInput.parse(told).to_delegation()).result(10.0)

    assert response.status is Status.TIMEOUT


def test_spec_1s_five_minutes_are_five_minutes(bus: TestRuntime):
    told = AgentInput.parse({**BOUNDED_INPUT, "agent": "worker", "action": "work.sleep", "params": {"seconds": 299.0}})

    handle = bus.send(told.to_delegation())
    bus.advance(299.0)

    assert handle.result().ok


@pytest.mark.parametrize(("timeout", "limit", "seconds"), [(5.0, 300.0, 5.0), (300.0, 5.0, 5.0), (None, 90.0, 90.0)])
def test_the_shorter_one_of_timeout_and_max_time_sec_counts(
    bus: TestRuntime, timeout: float | None, limit: float, seconds: float
):
    handle = bus.delegate("work.sleep", {"seconds": 1e3}, timeout=timeout, budget=Budget(max_time_sec=limit))

    bus.advance(seconds - 0.1)
    assert not handle.done
    bus.advance(0.4)
    assert handle.result().status is Status.TIMEOUT


def test_no_time_at_all_is_never_started(bus: TestRuntime):
    response = bus.delegate("work.seen", budget=Budget(max_time_sec=0.0)).result()

    assert (response.status, response.error.code) == (Status.TIMEOUT, "expired")


def test_a_sub_delegation_has_no_more_time_than_its_task_has_left(bus: TestRuntime):
    work = {"what": "work.sleep", "with": {"seconds": 30.0}, "fields": {"timeout": 60.0}}
    handle = bus.delegate("work.pass", work, budget=Budget(max_time_sec=2.0))
    bus.advance(2.3)

    assert handle.result().status is Status.TIMEOUT
    assert bus.statistics()["outcomes"] == {"CANCELLED": 1, "TIMEOUT": 1}


# -- cost ----------------------------------------------------------------------------------------------------------


def test_the_cost_of_sub_delegations_is_summed_up(bus: TestRuntime):
    response = bus.delegate("work.ask", {"costs": [0.125, 0.25], "own": 0.5}, budget=Budget(max_cost=1.0)).result()

    assert (response.status, response.metadata["cost"]) == (Status.COMPLETED, 0.875)


def test_it_is_summed_up_over_several_floors(bus: TestRuntime):
    below = {"what": "work.ask", "with": {"costs": [0.25, 0.25], "own": 0.125}}
    response = bus.delegate("work.pass", {"what": "work.pass", "with": below}, budget=Budget(max_cost=1.0)).result()

    assert response.metadata["cost"] == 0.625


def test_past_the_budget_nothing_more_is_delegated_and_the_outcome_says_so(bus: TestRuntime):
    response = bus.delegate("work.ask", {"costs": [0.3, 0.3, 0.3]}, budget=Budget(max_cost=0.5)).result()

    assert (response.status, response.error.code) == (Status.PARTIAL, "budget_exceeded")
    assert response.unresolved == (
        "max_cost 0.5 is used up (0.6): nothing more is delegated.",
        "max_cost 0.5 did not hold: 0.6 was used.",
    )
    assert response.metadata["cost"] == 0.6
    assert bus.statistics()["accepted"] == 3


def test_a_handler_that_goes_on_without_what_was_refused_is_partial_with_its_data(bus: TestRuntime):
    response = bus.delegate("work.careful", {"costs": [0.25, 0.25, 0.25]}, budget=Budget(max_cost=0.5)).result()

    assert (response.status, response.data) == (Status.PARTIAL, ["COMPLETED", "COMPLETED"])
    assert response.unresolved == ("max_cost 0.5 is used up (0.5): nothing more is delegated.",)


@pytest.mark.parametrize("budget", [Budget(max_cost=0.5), Budget(max_tokens=10)])
def test_work_that_costs_more_than_it_may_is_not_completed(bus: TestRuntime, budget: Budget):
    response = bus.delegate("work.cost", {"cost": 0.75, "tokens": 11}, budget=budget).result()

    assert (response.status, response.data) == (Status.PARTIAL, "done")
    assert "did not hold" in response.unresolved[0]


def test_within_its_budget_work_is_completed(bus: TestRuntime):
    budget = Budget(max_cost=0.5, max_tokens=10, max_time_sec=5.0)

    response = bus.delegate("work.cost", {"cost": 0.5, "tokens": 10}, budget=budget).result()

    assert response.ok
    assert response.metadata == {"cost": 0.5, "tokens_used": 10}


def test_runaway_loops_are_prevented_over_sub_delegations_too(bus: TestRuntime):
    class Loops(Agent):
        @capability("loops.run")
        def run(self, task: Task):
            told = {"status": "COMPLETED", "metadata": {"iterations": 8}}
            return [task.delegate("work.tell", told).result().metadata["iterations"] for _ in range(9)]

    bus.start(Loops)
    response = bus.delegate("loops.run", budget=Budget(max_iterations=20)).result()

    assert (response.status, response.error.code) == (Status.PARTIAL, "budget_exceeded")
    assert response.unresolved == (
        "max_iterations 20 is used up (24): nothing more is delegated.",
        "max_iterations 20 did not hold: 24 was used.",
    )
    assert response.metadata["iterations"] == 24


@pytest.mark.parametrize("status", ["NEEDS_INPUT", "REJECTED_CONTEXT", "FAILED_EXECUTION", "PARTIAL"])
def test_whatever_the_outcome_it_says_what_it_used_too_much(bus: TestRuntime, status: str):
    params = {"status": status, "metadata": {"cost": 0.75}}
    response = bus.delegate("work.tell", params, budget=Budget(max_cost=0.5)).result()

    assert (response.status.name, response.unresolved) == (status, ("max_cost 0.5 did not hold: 0.75 was used.",))


def test_a_cost_in_text_is_not_passed_over(bus: TestRuntime):
    told = {"status": "COMPLETED", "metadata": {"cost": "3.0"}}
    below = {"what": "work.tell", "with": told}

    response = bus.delegate("work.tell", told, budget=Budget(max_cost=0.5)).result()
    above = bus.delegate("work.pass", below, budget=Budget(max_cost=0.5)).result()

    assert (response.status, above.status, above.data["status"]) == (Status.PARTIAL, Status.PARTIAL, "PARTIAL")
    sentence = "max_cost 0.5: worker told cost '3.0', which is no amount and was not counted."
    assert response.unresolved == above.unresolved == (sentence,)


def test_several_at_a_time_share_a_budget_in_parts(bus: TestRuntime):
    asked = {"costs": [0.25] * 4, "in_parts": True}
    response = bus.delegate("work.fan", asked, budget=Budget(max_cost=1.0)).result()

    assert (response.status, response.data, response.metadata["cost"]) == (Status.COMPLETED, ["COMPLETED"] * 4, 1.0)
    assert bus.delegate("work.fan", asked).result().ok  # and without a budget there is no part to give


def test_none_is_started_with_nothing_while_another_has_all_that_is_left(bus: TestRuntime):
    response = bus.delegate("work.fan", {"costs": [0.25] * 4, "in_parts": False}, budget=Budget(max_cost=1.0)).result()

    assert (response.status, response.error.code) == (Status.PARTIAL, "budget_exceeded")
    assert "set aside for work.cost (" in response.unresolved[0]
    assert bus.statistics()["accepted"] == 2


def test_a_budget_without_limits_sums_up_what_everything_cost(bus: TestRuntime):
    below = {"what": "work.ask", "with": {"costs": [0.25, 0.25], "own": 0.125}}

    assert bus.delegate("work.pass", below, budget=Budget()).result().metadata["cost"] == 0.625
    assert "cost" not in bus.delegate("work.pass", below).result().metadata


@pytest.mark.parametrize("where", ["metadata", "metrics"])
@pytest.mark.parametrize(
    ("limit", "use"), [("max_cost", "cost"), ("max_tokens", "tokens_used"), ("max_iterations", "iterations")]
)
def test_a_use_is_counted_where_the_answer_tells_it(bus: TestRuntime, where: str, limit: str, use: str):
    told = {"status": "COMPLETED", where: {use: 5}}

    response = bus.delegate("work.tell", told, budget=Budget(**{limit: 3})).result()

    assert (response.status, response.metadata[use]) == (Status.PARTIAL, 5)
    assert response.unresolved == (f"{limit} 3 did not hold: 5 was used.",)


# -- permissions ---------------------------------------------------------------------------------------------------


def test_who_may_not_modify_files_writes_none(bus: TestRuntime, tmp_path: Path):
    file = tmp_path / "report.md"
    told = {**BOUNDED_INPUT, "agent": "worker", "action": "work.write", "params": {"file": str(file)}}

    response = bus.send(AgentInput.parse(told).to_delegation()).result()

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "not_permitted")
    assert "can_modify_files" in response.error.message
    assert list(tmp_path.iterdir()) == []


def test_permissions_hold_for_sub_delegations_too(bus: TestRuntime, tmp_path: Path):
    below = {
        "what": "work.write",
        "with": {"file": str(tmp_path / "a.md")},
        "fields": {"permissions": {"can_modify_files": True}},
    }

    response = bus.delegate("work.pass", below, permissions={"can_modify_files": False}).result()

    assert response.data == {"status": "FAILED_EXECUTION", "code": "not_permitted"}
    assert list(tmp_path.iterdir()) == []


def permitted_below(given: dict[str, Any], wanted: dict[str, Any]) -> Response:
    """What a sub-delegation has of the permissions that it is to have."""

    class Asks(Agent):
        @capability("asks.seen")
        def seen(self, task: Task):
            return task.delegate("work.seen", permissions=wanted).result().data["permissions"]

    with TestRuntime() as bus:
        bus.start(Worker)
        bus.start(Asks)
        return bus.delegate("asks.seen", permissions=given).result()


@pytest.mark.parametrize(
    ("given", "wanted", "seen"),
    [
        ({"a": False}, {"a": True}, {"a": False}),
        ({"a": True}, {"a": False}, {"a": False}),
        ({"a": "all"}, {"a": False}, {"a": False}),
        ({"a": True}, {"a": "paths"}, {"a": "paths"}),
        ({"a": "paths"}, {"a": True}, {"a": "paths"}),
        ({"a": "paths"}, {"b": "some"}, {"a": "paths", "b": "some"}),
        ({"a": "paths"}, {"a": "paths"}, {"a": "paths"}),
        ({"files": 10}, {"files": 2}, {"files": 2}),
        ({"files": 2}, {"files": 10.5}, {"files": 2}),
        ({"hosts": ["a", "b"]}, {"hosts": ["b"]}, {"hosts": ["b"]}),
        ({"hosts": ["a", "b"]}, {"hosts": ["c", "b"]}, {"hosts": ["b"]}),
        ({"hosts": ["a", "b"]}, {"hosts": []}, {"hosts": []}),
    ],
)
def test_a_sub_delegation_may_have_fewer_permissions_and_never_more(
    given: dict[str, Any], wanted: dict[str, Any], seen: dict[str, Any]
):
    assert permitted_below(given, wanted).data == seen


@pytest.mark.parametrize(("value", "wanted"), [("any", "none"), ("none", "any"), ([1], 1), ({"a": 1}, {}), (3, None)])
def test_a_permission_of_which_nobody_can_say_whether_it_is_less_is_refused(value: object, wanted: object):
    response = permitted_below({"hosts": value}, {"hosts": wanted})

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "not_permitted")
    assert f"hosts {value!r}" in response.error.message
    assert "leave it out" in response.error.message


def test_who_may_not_delegate_does_not(bus: TestRuntime):
    response = bus.delegate("work.ask", {"costs": [0.0]}, permissions={"can_delegate": False}).result()

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "not_permitted")
    assert bus.statistics()["accepted"] == 1


@pytest.mark.parametrize("name", ["can_modify_files", "can_delegate"])
@pytest.mark.parametrize("value", [0, 1, None, "no", "false", []])
def test_a_permission_of_the_bus_is_true_or_false(bus: TestRuntime, name: str, value: object):
    with pytest.raises(InvalidEnvelope, match=rf"permissions: .*{name} is .*: write True or False"):
        bus.delegate("work.seen", permissions={name: value})


NEARLY = (
    "can_modify_file",
    "can_delgate",
    "Can_Delegate",
    "can_deleg",
    "can_delegation",
    "delegate",
    "can_modify",
    "modify_files",
)


@pytest.mark.parametrize("name", NEARLY)
def test_a_permission_that_is_all_but_one_of_the_bus_is_refused(bus: TestRuntime, name: str):
    with pytest.raises(InvalidEnvelope, match=rf"'{name}' is no permission that the bus enforces\. Did you mean 'can_"):
        bus.delegate("work.seen", permissions={name: False})


@pytest.mark.parametrize("name", ["can_delete", "can_write_files", "files", "can", "can_modify_database"])
def test_a_permission_of_another_name_is_for_the_handler(bus: TestRuntime, name: str):
    assert bus.delegate("work.seen", permissions={name: False}).result().data == {"permissions": {name: False}}


def test_a_permission_that_is_nothing_of_ours_is_refused_where_the_work_arrives_too(bus: TestRuntime):
    wrong = bus.delegate("work.seen", permissions={"can_delegate": True, "can_access_network": 1}).delegation
    wrong = wrong.model_copy(update={"request_id": str(uuid4()), "permissions": {"can_delegate": 0}})

    response = bus.send(wrong).result()

    assert (response.status, response.error.code) == (Status.REJECTED_CONTEXT, "invalid_envelope")
    assert "can_delegate is 0" in response.error.message


def test_a_sub_delegation_cannot_get_a_permission_by_one_that_is_none(bus: TestRuntime):
    below = {"what": "work.seen", "with": {}, "fields": {"permissions": {"can_delegate": "no"}}}

    response = bus.delegate("work.pass", below, permissions={"can_delegate": True}).result()

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "invalid_envelope")


# -- output contracts ----------------------------------------------------------------------------------------------


class Researcher(Agent):
    """Writes what it is told, and answers with it."""

    @capability("research.context.deepen")
    def deepen(self, task: Task, params: dict) -> Response:
        fields = {name: params[name] for name in ("summary", "data", "unresolved") if name in params}
        artifacts = [Artifact(path=path) for path in params.get("paths", ())]
        return task.respond(Status[params.get("status", "COMPLETED")], artifacts=artifacts, **fields)


def answer(contract: OutputContract, **params: object) -> Response:
    with TestRuntime() as bus:
        bus.start(Researcher)
        return bus.delegate("research.context.deepen", {"params": params}["params"], output_contract=contract).result()


SECTIONS = ("Sources", "Contradictions", "Depth Expansion")


def test_spec_2s_contract_is_met_by_a_working_file_with_its_sections(tmp_path: Path):
    file = tmp_path / "depth-expansion.md"
    file.write_text("# Depth\n\n## Sources\n\n### contradictions ###\n\nDepth  Expansion\n---\n")
    contract = RequestEnvelope.parse(json.loads(REQUEST_ENVELOPE)).output_contract

    assert answer(contract, paths=[str(file)]).status is Status.COMPLETED


def test_what_a_contract_asks_for_and_does_not_get_is_unresolved(tmp_path: Path):
    file = tmp_path / "depth-expansion.md"
    file.write_text("# Sources\n\nContradictions are everywhere.\n")
    contract = OutputContract(artifact_type="working-file", expected_sections=SECTIONS)

    response = answer(contract, paths=[str(file)], data=1)

    assert (response.status, response.data) == (Status.PARTIAL, 1)
    assert response.unresolved == (
        "output contract: there is no section 'Contradictions'",
        "output contract: there is no section 'Depth Expansion'",
    )


def test_a_named_pipe_in_an_answer_holds_up_nobody(tmp_path: Path):
    os.mkfifo(tmp_path / "x.md")
    contract = OutputContract(expected_sections=("Sources",))

    assert answer(contract, paths=[str(tmp_path / "x.md")]).status is Status.PARTIAL
    assert answer(contract, data="# Sources").status is Status.COMPLETED


def test_the_files_of_an_answer_are_looked_through_for_so_many_bytes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a.md").write_text("# A\n")
    (tmp_path / "b.md").write_text("# B\n# Sources\n")
    paths, contract = [str(tmp_path / "a.md"), str(tmp_path / "b.md")], OutputContract(expected_sections=("Sources",))
    assert answer(contract, paths=paths).status is Status.COMPLETED
    monkeypatch.setattr(output_contract, "_MOST_SEARCHED_BYTES", 10)
    assert answer(contract, paths=paths).status is Status.PARTIAL


@pytest.mark.parametrize(
    ("contract", "params", "kept"),
    [
        (OutputContract(artifact_type="working-file"), {}, False),
        (OutputContract(artifact_type="working-file"), {"paths": ["a.txt"]}, False),
        (OutputContract(artifact_type="working-file"), {"paths": ["https://host/a.md"]}, True),
        (OutputContract(artifact_type="dataset"), {}, False),
        (OutputContract(artifact_type="dataset"), {"paths": ["a.csv"]}, True),
        (OutputContract(artifact_type="summary-block"), {"summary": " "}, False),
        (OutputContract(artifact_type="summary-block"), {"summary": "Seven sources."}, True),
        (OutputContract(expected_sections=("Sources",)), {"data": {"sources": []}}, True),
        (OutputContract(expected_sections=("Sources",)), {"data": "## Sources\n"}, True),
        (OutputContract(expected_sections=("Sources",)), {"data": "Sources"}, False),
        (OutputContract(expected_sections=("Sources",)), {"paths": ["/no/such.md"]}, False),
        (OutputContract(quality_gates=("G1",)), {}, True),
        (OutputContract(), {}, True),
    ],
)
def test_a_contract_is_held_to_as_far_as_it_can_be_looked_at(contract: OutputContract, params: dict, kept: bool):
    response = answer(contract, **params)

    assert response.status is (Status.COMPLETED if kept else Status.PARTIAL)
    assert len(response.unresolved) == (0 if kept else 1)


@pytest.mark.parametrize(
    "text",
    [
        "# Sources", "## Sources ##", "#\tSources\t#  ", "   ### sources", "\ufeff# Sources", "Sources\r\n=======\r\n",
        "  Sources\n ---", "```\ncode\n```\n# Sources", "~~~ `x`\n```\n~~~~\n# Sources", "```inline``` code\n# Sources",
    ],
)  # fmt: skip
def test_a_section_is_a_heading_as_markdown_has_it(text: str, tmp_path: Path):
    file = tmp_path / "report.md"
    file.write_bytes(text.encode())

    assert not answer(OutputContract(expected_sections=("Sources",)), paths=[str(file)]).unresolved
    assert not answer(OutputContract(expected_sections=("Sources",)), data=text).unresolved


@pytest.mark.parametrize(
    "text",
    [
        "#Sources", "####### Sources", "    # Sources", "\t# Sources", "```\n# Sources\n```", "~~~\n```\n# Sources",
        "Sources\n=-=", "  ```md\n# Sources\n``\n", "```\nSources\n---\n```", "Sources\n\n---", "# C#", "Sources\n    ---",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_heading_is_no_section(text: str):
    assert answer(OutputContract(expected_sections=("Sources",)), data=text).unresolved


def test_a_heading_may_end_with_a_hash():
    assert answer(OutputContract(expected_sections=("C#",)), data="## C# ##\n").ok
    assert answer(OutputContract(expected_sections=("C#",)), data="## C#\n").ok


def test_an_answer_that_is_partial_by_itself_says_what_the_contract_lacks_too():
    contract = OutputContract(artifact_type="working-file", expected_sections=("Sources", "Gaps"))

    response = answer(contract, status="PARTIAL", unresolved=["half of it"], data={"Sources": []})

    assert (response.status, response.data) == (Status.PARTIAL, {"Sources": []})
    assert response.unresolved == (
        "half of it",
        "output contract: a working-file is asked for, and no artifact is a Markdown file",
        "output contract: there is no section 'Gaps'",
    )


def test_questions_are_no_answer_and_held_to_no_contract():
    contract = OutputContract(artifact_type="working-file")

    assert answer(contract, status="NEEDS_INPUT").unresolved == ()


def test_a_failure_stays_one_whatever_the_contract(bus: TestRuntime):
    response = bus.delegate("work.cost", {"cots": 1}, output_contract=OutputContract(artifact_type="x")).result()

    assert response.status is Status.REJECTED_CONTEXT


class Sharing(Agent):
    @capability("sharing.do")
    def do(self, budget: Any, task: Task) -> Any:
        return task.delegate("sharing.told", budget=budget).result().unwrap().data

    @capability("sharing.told")
    def told(self, task: Task) -> Any:
        assert task.delegation.budget is not None
        return task.delegation.budget.max_tokens


class Sharer(Sharing):
    @capability("sharer.do")
    def share(self, budget: Any, task: Task) -> Any:
        return self.do(budget, task)


@pytest.mark.parametrize("own", [Budget(max_tokens=10), Budget(max_cost=1.0), None], ids=repr)
def test_a_budget_that_is_given_as_a_dict_holds_and_what_is_none_is_refused(bus: TestRuntime, own: Budget | None):
    bus.start(Sharing, name="told")
    bus.start(Sharer)
    fine = bus.delegate("sharer.do", {"budget": {"max_tokens": 2}}, budget=own).result()
    wrong = bus.delegate("sharer.do", {"budget": {"max_tokns": 2}}, budget=own).result()

    assert fine.unwrap().data == 2
    assert wrong.error is not None
    assert "max_tokns" in wrong.error.message
