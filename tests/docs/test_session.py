from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs import session
from tests.docs.block import Failed, blocks_of, prints_as_told
from tests.docs.session import run_document
from tests.support import processes_with

Follow = Callable[[str], int]

# Stands in for the command: says its arguments, complains on stderr about `wrong`, and stays for `up`.
ETHER = """
import os, signal, sys
if "up" in sys.argv:
    print("up", flush=True)
    signal.pause()
print("ether", *sys.argv[1:], os.environ.get("LEVEL", ""))
if "wrong" in sys.argv:
    sys.exit("no such thing")
"""


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    """Follow a document, given as text in which `'''` stands for a fence."""

    def run(text: str) -> int:
        document = tmp_path / "page.md"
        document.write_text(text.replace("'''", "```"), encoding="utf-8")
        (tmp_path / "empty").mkdir()
        return run_document(document, tmp_path / "empty", ETHER)

    return run


def test_python_prints_the_text_that_follows(follow: Follow) -> None:
    assert follow("'''python\nprint('a', 1)\n'''\nprints\n'''text\na 1\n'''") == 1


def test_another_output_is_told_with_its_line(follow: Follow) -> None:
    with pytest.raises(Failed, match=r"page\.md:3: the document tells\nb\n\n--- but this is printed\na"):
        follow("Say\n\n'''python\nprint('a')\n'''\n'''text\nb\n'''")


def test_an_error_is_told_with_its_traceback(follow: Follow) -> None:
    with pytest.raises(Failed, match=r"page\.md:1: exit code 1: python line_1\.py\n(.*\n)*ValueError: no"):
        follow("'''python\nraise ValueError('no')\n'''")


def test_a_written_file_is_there_for_the_blocks_below(follow: Follow) -> None:
    text = "'''python file=agents.py\nprint('once')\n'''\n'''python\nimport agents\n'''\n'''text\nonce\n'''"

    assert follow(text) == 2


def test_a_written_script_runs_when_its_output_follows(follow: Follow) -> None:
    with pytest.raises(Failed, match=r"page\.md:1"):
        follow("'''python file=app.py\nprint('a')\n'''\n'''text\nb\n'''")


def test_only_our_commands_of_a_bash_block_are_run(follow: Follow) -> None:
    text = "'''bash\npip install none\nLEVEL=3 ether agents \\\n  -a\n'''\n'''text\nether agents -a 3\n'''"

    assert follow(text) == 1


def test_a_failing_command_is_told(follow: Follow) -> None:
    with pytest.raises(Failed, match=r"page\.md:1: exit code 1: ether wrong\nether wrong \nno such thing"):
        follow("'''bash\nether wrong\n'''")


def test_a_console_shows_both_streams(follow: Follow) -> None:
    follow("'''console\n$ pip list\nnothing\n$ ether wrong; echo $?\nether wrong\nno such thing\n1\n'''")


def test_a_console_with_another_output_is_told(follow: Follow) -> None:
    with pytest.raises(Failed, match=r"page\.md:1: ether list"):
        follow("'''console\n$ ether list\nether lost\n'''")


def test_python_runs_a_file_that_the_document_wrote(follow: Follow) -> None:
    with pytest.raises(Failed, match="exit code 3"):
        follow("'''python file=a.py\nraise SystemExit(3)\n'''\n'''bash\npython missing.py\npython a.py\n'''")


def test_an_unknown_annotation_is_told(follow: Follow) -> None:
    with pytest.raises(Failed, match=r"page\.md:1: 'norun' is neither no-run, notebook, file=NAME, nor on=HOST"):
        follow("'''python norun\n'''")


def test_a_language_that_would_not_be_run_is_told(follow: Follow) -> None:
    with pytest.raises(Failed, match=r"page\.md:1: say bash, not sh"):
        follow("'''sh\nether up\n'''")


def test_a_block_marked_no_run_is_not_run(follow: Follow) -> None:
    assert follow("'''python no-run\n1 / 0\n'''\n'''json\n{}\n'''") == 0


def test_a_background_command_ends_with_the_document(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNIPPETS_TEST", "background")

    assert follow("'''bash\nether up &\nether agents\n'''\n'''text\n...\nether agents\n'''") == 1
    assert list(processes_with("SNIPPETS_TEST", "background")) == []


def test_a_background_command_that_ignores_sigterm_is_killed_and_told(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_DRAIN_SECONDS", 0.1)
    monkeypatch.setenv("SNIPPETS_TEST", "stubborn")
    stubborn = f"import signal\nsignal.signal({signal.SIGTERM.value}, signal.SIG_IGN)\nopen('deaf', 'w').close()\n"
    waits = "import os, time\nwhile not os.path.exists('deaf'): time.sleep(0.01)\n"

    with pytest.raises(Failed, match="still running"):
        follow(
            f"'''python file=a.py\n{stubborn}signal.pause()\n'''\n'''bash\npython a.py &\n'''\n'''python\n{waits}'''"
        )
    assert list(processes_with("SNIPPETS_TEST", "stubborn")) == []


def test_a_line_that_never_ends_is_told_and_ended(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LINE_SECONDS", 0.3)

    with pytest.raises(Failed, match=r"no end in 0\.3 s: ether up"):
        follow("'''bash\nether up\n'''")


@pytest.mark.parametrize(
    ("told", "printed", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a  \nb", "\na\nb\n\n", True),
        ("a\nb", "a\n", False),
        ("a\n...\nb", "a\nb\n", True),
        ("a\n...\nb", "a\n1\n2\nb\n", True),
        ("a\n...\nb", "a\n1\n2\n", False),
        ("took ... s", "took 3.1 s\n", True),
        ("took ... s", "took 3\ns\n", False),
        ("a.c", "abc\n", False),
    ],
)
def test_dots_stand_for_anything(told: str, printed: str, same: bool) -> None:
    assert prints_as_told(told, printed) is same


def test_blocks_in_lists_are_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("- one\n\n  ```python\n  x = 1\n  ```\n", encoding="utf-8")

    (block,) = blocks_of(document)

    assert (block.place, block.code) == ("page.md:3", "x = 1\n")


@pytest.mark.slow
def test_each_host_has_a_name_a_folder_and_a_shell_of_its_own(follow: Follow) -> None:
    text = """
'''python on=alpha file=host.py
import os
print(os.uname().nodename, os.environ.get("PLACE"), os.path.exists("beta.txt"))
'''
'''text
alpha None False
'''
'''text file=beta.txt on=beta
here
'''
'''python on=beta
import os
print(os.uname().nodename, os.path.exists("host.py"), os.path.exists("beta.txt"))
'''
'''text
beta False True
'''
"""
    assert follow(text) == 3


def test_a_page_without_blocks_is_done_at_once(follow: Follow) -> None:
    assert follow("words alone") == 0
