from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from ether_broker.encoding.frozen import FrozenDict
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.model import Model
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from tests.broker.strategies import delegations, responses


def trusted(model: Model) -> Any:
    """The same, made of the fields that were set without validating them again."""
    return type(model).trusted({name: getattr(model, name) for name in model.model_fields_set})


@given(delegations())
def test_a_trusted_delegation_is_the_validated_one(delegation: Delegation):
    again = trusted(delegation)

    assert again == delegation
    assert again.model_fields_set == delegation.model_fields_set
    assert hash(again) == hash(delegation)


@given(responses())
def test_a_trusted_response_is_the_validated_one(response: Response):
    again = trusted(response)

    assert again == response
    assert again.model_fields_set == response.model_fields_set
    assert again.model_copy(update={"attempt": 2}) == response.model_copy(update={"attempt": 2})


def test_a_trusted_one_is_frozen_and_shares_no_state():
    one = Response.trusted({"request_id": "r", "status": Status.COMPLETED})
    other = Response.trusted({"request_id": "s", "status": Status.TIMEOUT, "metrics": FrozenDict({"a": 1})})

    with pytest.raises(ValidationError, match="frozen"):
        one.attempt = 2  # type: ignore[misc]
    assert one.metrics == {}
    assert other.metrics == {"a": 1}
    assert one.attempt == 1
