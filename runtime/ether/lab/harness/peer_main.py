"""One process of a benchmark: it plays a role and takes orders as lines of JSON on its standard input.

harness ── {"window": 256, …} ──► stdin      it ends when its input does, however the harness died
harness ◄── {"count": …} ──────── stdout     the first line says that it is ready
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Final

from ether.lab.harness.role import Role
from ether_broker.errors import EtherError

__all__ = ["ROLES", "main"]

ROLES: Final = {
    "raw-worker": ("ether.lab.bench.roles.baselines.zmq_raw", "Worker"),
    "raw-client": ("ether.lab.bench.roles.baselines.zmq_raw", "Client"),
    "proxy": ("ether.lab.bench.roles.baselines.zmq_proxy", "Proxy"),
    "proxy-worker": ("ether.lab.bench.roles.baselines.zmq_proxy", "Worker"),
    "nats-server": ("ether.lab.bench.roles.baselines.nats_server", "Server"),
    "nats-worker": ("ether.lab.bench.roles.baselines.nats_worker", "Worker"),
    "nats-client": ("ether.lab.bench.roles.baselines.nats_client", "Client"),
    "broker": ("ether.lab.bench.roles.broker", "Broker"),
    "worker": ("ether.lab.bench.roles.worker", "Worker"),
    "observer": ("ether.lab.bench.roles.observer", "Watcher"),
    "client": ("ether.lab.bench.roles.client", "Client"),
    "pacer": ("ether.lab.bench.roles.constant_rate_client", "Pacer"),
    "host": ("ether.lab.bench.roles.idle_agents", "Host"),
    "crowd": ("ether.lab.bench.roles.crowd", "Crowd"),
    "restarter": ("ether.lab.bench.roles.broker_restarter", "Restarter"),
    "killer": ("ether.lab.bench.roles.process_killer", "Killer"),
}
"""{role: (module, class)}; a module is imported in the process that plays the role, so raw sockets import no NATS."""


def main() -> None:
    """Play the role named by the first argument with the options of the second, until the input ends."""
    talk = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints must not look like an answer
    module, name = ROLES[sys.argv[1]]
    role: Role | None = None
    try:
        role = getattr(importlib.import_module(module), name)(json.loads(sys.argv[2]))
        _say(talk, {"ready": role.start()})
        for line in sys.stdin:
            _say(talk, role.run(json.loads(line)))
    except EtherError as error:
        _say(talk, {"error": str(error), "code": error.code})
    finally:
        if role is not None:
            role.stop()


def _say(talk: Any, answer: dict[str, Any]) -> None:
    talk.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
