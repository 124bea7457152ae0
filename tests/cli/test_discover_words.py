from __future__ import annotations

import pytest

from ether.cli.common.discover_option import with_lan_urls
from ether_broker.errors import UsageError


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--discover", "--discover=lan://"),
        ("--discover lab", "--discover=lan://lab"),
        ("--discover=lab", "--discover=lan://lab"),
        ("--discover=", "--discover=lan://"),
        ("--discover=lan://lab", "--discover=lan://lab"),
        ("--discover mod:Agent", "--discover=lan:// mod:Agent"),
        ("--discover=a:b mod:Agent", "--discover=lan://a:b mod:Agent"),
        ("--discover lab mod:Agent --name n", "--discover=lan://lab mod:Agent --name n"),
        ("--discover --wait 5", "--discover=lan:// --wait 5"),
        ("list --discover lab -n 3", "list --discover=lan://lab -n 3"),
        ("facts.check -- --discover x", "facts.check -- --discover x"),
        ("--discoverer x", "--discoverer x"),
        ("", ""),
    ],
)
def test_the_name_behind_discover_may_be_missing(words: str, meant: str):
    assert with_lan_urls(words.split()) == meant.split()


def test_an_address_and_a_search_exclude_each_other():
    with pytest.raises(UsageError, match="leave one of them out"):
        with_lan_urls(["--connect", "tcp://a:1", "--discover"])
