"""The options that say which bus a command talks to, and with which keys."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from ether.cli.common.discover_option import CONNECT, DISCOVER
from ether_broker.discovery.listening import others
from ether_broker.errors import UsageError
from ether_broker.transport.endpoint import IPC, default_endpoint

__all__ = ["AgentClassesOption", "BusAddress", "BusOptions", "NamedBusAddress", "NamedBusOptions"]

_option: Final = functools.partial(typer.Option, rich_help_panel="Bus")


def complete_endpoints() -> list[str]:
    """This user's own buses, for the shell."""
    own = default_endpoint()
    return [own, *others(own)]


AgentClassesOption = Annotated[
    list[str] | None,
    _option(
        metavar="MODULE:CLASS",
        help="Start this agent on a bus of the command's own, instead of connecting; several times for several.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class BusAddress:
    """The options for the address of a bus, and for our keys."""

    connect: Annotated[
        str | None,
        _option(
            CONNECT,
            DISCOVER,
            metavar="URL",
            envvar="ETHER_CONNECT",
            help="The bus, as tcp://HOST:PORT or ipc:///PATH; or --discover [NAME], which looks for it on the network.",
            show_default="this user's own, as `ether up` binds it",
            autocompletion=complete_endpoints,
        ),
    ] = None
    keys: Annotated[
        str | None,
        _option(metavar="DIR", envvar="ETHER_KEYS", help="The folder with our keys, for TCP; `ether keys` makes it."),
    ] = None
    server_key: Annotated[
        str | None,
        _option(
            metavar="KEY|FILE",
            envvar="ETHER_SERVER_KEY",
            help="The broker's public key; with commas between several.",
            show_default="the one in --keys",
        ),
    ] = None

    @property
    def url(self) -> str | None:
        """The address as it was given; None is this user's own bus."""
        return self.connect


@dataclass(frozen=True, kw_only=True)
class BusOptions(BusAddress):
    """The options of a bus that may be waited for."""

    wait: Annotated[
        float,
        _option(
            metavar="SECONDS",
            min=0.0,
            envvar="ETHER_WAIT",
            help="Wait so long for a bus that is not there yet; `exec` and `delegate` also for the agent.",
        ),
    ] = 0.0


@dataclass(frozen=True, kw_only=True)
class NamedBusAddress(BusAddress):
    """The options for the address of a bus, or the name of one of this user's."""

    bus_name: Annotated[
        str | None,
        _option(
            "--name",
            metavar="BUS",
            help="The bus that this user has started by `ether up --name BUS`; counts more than --connect.",
        ),
    ] = None

    @property
    def url(self) -> str | None:
        """The address of the bus of that name, or as it was given.

        Raises:
            UsageError: the name is empty.
        """
        if self.bus_name == "":  # as of a variable of the shell that is not set
            raise UsageError("--name is empty: name a bus, as in --name office, or leave it out.")
        return self.connect if self.bus_name is None else f"{IPC}{self.bus_name}"


@dataclass(frozen=True, kw_only=True)
class NamedBusOptions(NamedBusAddress, BusOptions):
    """The options of a bus that may be named, and may be waited for."""
