"""A delegator on a host: does what it is told on stdin and says on stdout what became of it, a JSON object a line.

    {"do": "delegate", "key": K, "capability": C, "params": …, "to": A, "timeout": S, "count": N}
                                                    a line {"key", "status", "code", "data", "sent", "at"} for each outcome
    {"do": "broadcast", "key": K, "capability": C, "params": …, "timeout": S}
                                                    a line {"asked": holders}, then those outcomes, with the keys K.HOLDER
    {"do": "ask", "what": "agents"}                 a line {"asked": …}, within 5 s; {"asked": null} if nobody answers

Times are Unix times: all hosts are on one machine.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from ether import Runtime
from ether_broker.errors import EtherError

_lock = threading.Lock()


def _say(row: dict[str, Any]) -> None:
    with _lock:
        print(json.dumps(row), flush=True)


def _delegate(bus: Runtime, order: dict[str, Any]) -> None:
    for number in range(order["count"]):
        key = order["key"] if order["count"] == 1 else f"{order['key']}.{number}"
        params = {**order["params"], "key": key}
        sent = time.time()
        handle = bus.delegate(order["capability"], params, to=order["to"], timeout=order["timeout"])
        handle.add_done_callback(lambda handle, key=key, sent=sent: _report(handle, key, sent))


def _broadcast(bus: Runtime, order: dict[str, Any]) -> None:
    sent = time.time()
    params = {**order["params"], "key": order["key"]}
    handles = bus.broadcast(order["capability"], params, timeout=order["timeout"])
    _say({"asked": list(handles)})
    for name, handle in handles.items():
        key = f"{order['key']}.{name}"
        handle.add_done_callback(lambda handle, key=key: _report(handle, key, sent))


def _report(handle: Any, key: str, sent: float) -> None:
    outcome = handle.result(0)
    _say({
        "key": key, "status": outcome.status.name, "code": outcome.error.code if outcome.error else None,
        "message": outcome.error.message if outcome.error else "", "id": handle.id,
        "data": outcome.data, "sent": sent, "at": time.time(),
    })  # fmt: skip


def _ask(bus: Runtime, what: str) -> None:
    try:
        found = getattr(bus, what)()
    except EtherError as error:
        _say({"asked": None, "error": str(error)})
    else:
        _say({"asked": found})


def main() -> None:
    with Runtime.connect(sys.argv[1], name=sys.argv[2], drain=0.0) as bus:
        _say({"ready": os.getpid()})
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == "delegate":
                _delegate(bus, order)
            elif order["do"] == "broadcast":
                _broadcast(bus, order)
            else:
                _ask(bus, order["what"])


if __name__ == "__main__":
    main()
