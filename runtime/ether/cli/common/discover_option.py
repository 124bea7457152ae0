"""`--discover [NAME]` on a command line: an option whose value may be missing, which the parser does not know.

    --discover              --discover=lan://
    --discover NAME         --discover=lan://NAME
    --discover=NAME         --discover=lan://NAME
    --discover mod:Class    --discover=lan:// mod:Class      what has a colon is an agent, not a name

So it is another spelling of `--connect`, and every command that has the one has the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ether_broker.errors import UsageError
from ether_broker.transport.endpoint import LAN

__all__ = ["CONNECT", "DISCOVER", "with_lan_urls"]

CONNECT: Final = "--connect"
DISCOVER: Final = "--discover"


def with_lan_urls(words: Sequence[str]) -> list[str]:
    """The words of a command line, with a `lan://` URL behind each `--discover`; those behind `--` stay as they are.

    Raises:
        UsageError: `--connect` is there too.
    """
    end = words.index("--") if "--" in words else len(words)
    options, rest = list(words[:end]), list(words[end:])
    names = {word.partition("=")[0] for word in options}
    if DISCOVER in names and CONNECT in names:
        raise UsageError(f"{CONNECT} names an address and {DISCOVER} looks for one: leave one of them out.")
    done: list[str] = []
    while options:
        word = options.pop(0)
        option, equals, name = word.partition("=")
        if option != DISCOVER:
            done.append(word)
            continue
        if not equals and options and not options[0].startswith("-") and ":" not in options[0]:
            name = options.pop(0)
        done.append(f"{DISCOVER}={LAN}{name.removeprefix(LAN)}")
    return done + rest
