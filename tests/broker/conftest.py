from __future__ import annotations

from collections.abc import Iterator

import ormsgpack
import pytest

from ether_broker.encoding import msgpack_fallback
from ether_broker.envelope import payload
from ether_broker.wire import codec


@pytest.fixture(scope="module", params=[ormsgpack, msgpack_fallback], ids=["ormsgpack", "msgpack"])
def _either_msgpack(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a module's tests with ormsgpack, and as they run where that is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "ormsgpack", request.param)
        patch.setattr(codec, "ormsgpack", request.param)
        patch.setattr(codec, "_packb", request.param.packb)
        yield
