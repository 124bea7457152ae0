"""A coverage-guided run over the supervisor's step, with Atheris; see docs/security.md.

    pip install atheris                                  (Python 3.11 to 3.13, Linux)
    python -m tests.attacks.fuzz_frames CORPUS_FOLDER tests/attacks/corpus -max_total_time=3600 -max_len=4096

An input is a row of messages: role:u8 length:u16 message. libFuzzer writes what gave new coverage into the first folder, and
an input that broke something as `crash-…`. `-merge=1 SMALL BIG` keeps of a corpus what covers as much. The corpus in
`tests/attacks/corpus` is replayed by `test_mutated_frames`. `--seed FOLDER` writes the seeds.
"""

from __future__ import annotations

import logging
import struct
import sys
from pathlib import Path

__all__ = ["throw_all"]

_HEAD = struct.Struct(">BH")
_MOST = 64


def throw_all(data: bytes) -> None:
    """Throw an input's messages at a fresh bus, a step each, and check it after the last.

    Raises:
        AssertionError: it broke something.
    """
    from tests.attacks.frames import Arena

    arena = Arena()
    at = 0
    for _ in range(_MOST):
        if at + _HEAD.size > len(data):
            break
        role, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        arena.throw(role, data[at : at + length])
        at += length
        arena.step()
    arena.check()


def _write_seeds(folder: Path) -> None:
    from tests.attacks.frames import seeds

    folder.mkdir(parents=True, exist_ok=True)
    for index, (role, frame) in enumerate(seeds()):
        folder.joinpath(f"seed-{index:02}").write_bytes(_HEAD.pack(role, len(frame)) + frame)


def main() -> None:
    """Run until libFuzzer's arguments say it is enough."""
    if sys.argv[1:2] == ["--seed"]:
        _write_seeds(Path(sys.argv[2]))
        return
    import atheris

    with atheris.instrument_imports(include=["ether_broker", "ether_actors"]):
        import tests.attacks.frames  # noqa: F401
    logging.disable(logging.WARNING)
    atheris.Setup(sys.argv, throw_all)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
