"""The main function of a process under measurement: plays a role, and takes orders as lines of JSON on its stdin.

harness ── {"do": "work", …} ──► stdin       it ends when its input does, however the harness died
harness ◄── {"count": …} ──────── stdout     the first line says that it is ready
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any, Final

from ether.lab.harness.role import Role
from ether.process.signals import exit_on_signals
from ether_broker.errors import EtherError

__all__ = ["ROLES", "main"]

ROLES: Final = {
    "raw-worker": ("ether.lab.bench.baselines.sockets", "Worker"),
    "raw-client": ("ether.lab.bench.baselines.sockets", "Client"),
    "proxy": ("ether.lab.bench.baselines.sockets", "Proxy"),
    "proxy-worker": ("ether.lab.bench.baselines.sockets", "ProxyWorker"),
    "nats-server": ("ether.lab.bench.baselines.nats_server", "Server"),
    "nats-worker": ("ether.lab.bench.baselines.nats", "Worker"),
    "nats-client": ("ether.lab.bench.baselines.nats", "Client"),
    "ray": ("ether.lab.bench.baselines.ray", "RayCaller"),
    "dask": ("ether.lab.bench.baselines.dask", "DaskCaller"),
    "celery": ("ether.lab.bench.baselines.celery", "CeleryCaller"),
    "autogen": ("ether.lab.bench.baselines.autogen", "AutoGenCaller"),
    "broker": ("ether.lab.bench.roles.broker", "Broker"),
    "worker": ("ether.lab.bench.roles.node", "Worker"),
    "host": ("ether.lab.bench.roles.node", "Host"),
    "observer": ("ether.lab.bench.roles.node", "Watcher"),
    "laggard": ("ether.lab.bench.roles.node", "Watcher"),
    "client": ("ether.lab.bench.roles.node", "Client"),
    "delegator": ("ether.lab.bench.roles.constant_rate_client", "ConstantRateClient"),
    "crowd": ("ether.lab.bench.roles.crowd", "Crowd"),
    "redis": ("ether.lab.bench.baselines.redis_pubsub", "RedisPublisher"),
    "event-bus": ("ether.lab.bench.roles.event_bus", "EventBus"),
    "file-server": ("ether.lab.bench.roles.file_transfer", "FileServer"),
    "file-client": ("ether.lab.bench.roles.file_transfer", "FileClient"),
    "one-process": ("ether.lab.bench.roles.one_process", "OneProcess"),
    "restarter": ("ether.lab.bench.roles.broker", "Restarter"),
    "killer": ("ether.lab.bench.roles.process_killer", "ProcessKiller"),
}
"""{role: (module, class)}; a module is imported in the process that plays the role, so raw sockets import no NATS."""


def main() -> None:
    """Play the role named by the first argument with the options of the second, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal it is for the harness, which ends this process
    talk = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints must not look like an answer
    module, name = ROLES[sys.argv[1]]
    kind: type[Role] = getattr(importlib.import_module(module), name)
    try:
        with exit_on_signals(), kind(json.loads(sys.argv[2])) as role:
            _say(talk, {"ready": role.start()})
            for line in sys.stdin:
                _say(talk, role.run(json.loads(line)))
    except EtherError as error:
        _say(talk, {"error": str(error), "code": error.code})


def _say(talk: Any, answer: dict[str, Any]) -> None:
    talk.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
