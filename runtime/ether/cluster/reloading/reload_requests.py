"""The requests for a reload that `ether up` takes: SIGHUP, and those of `ether reload` over a socket of its own.

    ether reload                                ether up
      |-- {"file": …}, end ------------------------->|   one line of JSON, on a socket in Linux's abstract namespace
      |<-- {"report": …} or {"error": …}, end --------|   when the reload is done

Its name is made of the folder of the cluster's default address and the cluster's name.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from ether.cluster.reloading.reload_report import ReloadReport
from ether.process.start_failure import error_of_code
from ether_broker.discovery.abstract_sockets import abstract_names, is_own, name_digest
from ether_broker.errors import AddressInUse, BrokerUnavailable, EtherError, Forbidden, InvalidSpec
from ether_broker.text import error_with_class
from ether_broker.transport.endpoint import default_endpoint

__all__ = ["ReloadRequests", "check_regular", "reloadable", "request_reload"]

logger: logging.Logger = logging.getLogger("ether.cluster")

_READ: Final = 5.0
"""Seconds that who connects has to say what it wants, and to take the answer."""
_LEAVE: Final = 2 * _READ + 1.0
"""Seconds in which a request that is being taken has ended, at the end."""
_MOST: Final = 1 << 16
"""Bytes of a request."""
_AGAIN: Final = 0.05
_LONGEST: Final = 108
"""Bytes of a socket's name, with the zero that begins it (sun_path on Linux)."""


class ReloadRequests:
    """A thread that takes requests for a reload, one after the other; a context manager.

    Args:
        name: of the cluster.
        reload: does it; gets the file that is named, or None.
        on_event: told in words what cannot be done.

    Raises:
        AddressInUse: when entered: another cluster of this user has the name.
    """

    def __init__(
        self, name: str, reload: Callable[[str | None], ReloadReport], on_event: Callable[[str], None]
    ) -> None:  # fmt: skip
        self._name = name
        self._reload = reload
        self._on_event = on_event
        self._is_over = False
        self._thread = threading.Thread(target=self._serve, name="ether-reload", daemon=True)

    def __enter__(self) -> Self:
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(_address(self._name))
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            if error.errno == errno.EADDRINUSE and _is_ours(self._name):
                os.close(self._woken)
                os.close(self._wake)
                raise AddressInUse(
                    f"A cluster of yours named {self._name!r} runs already, and `ether reload` goes by the name: give this one "
                    "another (`ether up --name NAME`, or `name` under `cluster` in its file)."
                ) from None
            self._on_event(f"`ether reload` does not reach this cluster: {error.strerror}")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self.post()
        if self._thread.ident is None:
            self._close()
        else:
            self._thread.join(_LEAVE)  # if a file that it reads does not come, it ends with the process
        os.close(self._wake)  # not by the thread, which may end before it is woken

    def _close(self) -> None:
        self._listener.close()
        os.close(self._woken)

    def serve(self) -> None:
        """Begin to do what is asked for; until then it waits."""
        self._thread.start()

    def post(self) -> None:
        """Ask for a reload of the file that is known; a signal handler may call it. Several at a time are one."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # full: it wakes up all the same; or it has ended
            os.write(self._wake, b"\0")

    def _serve(self) -> None:
        try:
            self._run()
        finally:
            self._close()

    def _run(self) -> None:
        sources: list[Any] = [self._woken, *([self._listener] if self._listener.fileno() >= 0 else [])]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if self._is_over:
                return
            if self._woken in ready:
                os.read(self._woken, _MOST)
                self._answer(None)
                continue
            try:
                connection, _ = self._listener.accept()
                with connection:
                    if is_own(connection):
                        answer = self._answer(_file(_read(connection, _MOST, _READ)))
                        connection.settimeout(_READ)
                        connection.sendall(json.dumps(answer).encode())
            except Exception:  # who asks has gone, or says something else: the next one is heard
                logger.debug("a request for a reload was not taken", exc_info=True)

    def _answer(self, file: str | None) -> dict[str, Any]:
        try:
            return {"report": self._reload(file).as_dict()}
        except EtherError as error:
            code, message = error.code, str(error)
        except Exception as error:  # of ours: the cluster goes on
            logger.exception("a reload failed")
            code, message = "", error_with_class(error)
        self._on_event(f"reload: refused: {message}")
        return {"error": {"code": code, "message": message}}


def request_reload(name: str, file: str | None = None) -> ReloadReport:
    """Ask the `ether up` of this user's cluster of that name for a reload, and wait until it is done.

    Args:
        name: of the cluster.
        file: the absolute path of the cluster file; default: the one that it read last.

    Raises:
        BrokerUnavailable: there is no such cluster, it ended meanwhile, or it takes no request.
        Forbidden: another user's process has the name.
        EtherError: what it answers, such as InvalidSpec for a file that is not valid.
    """
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            _connect(asking, _address(name))
            if not is_own(asking):
                raise Forbidden(
                    f"A process of another user stands where your cluster {name!r} would be; nothing was sent."
                )
            asking.sendall(json.dumps({"file": file}).encode())
            asking.shutdown(socket.SHUT_WR)
            said = _read(asking)
        except BlockingIOError:
            raise BrokerUnavailable(f"Whoever has the name of your cluster {name!r} takes no request.") from None
        except ConnectionRefusedError:
            raise BrokerUnavailable(f"No `ether up` of yours runs a cluster named {name!r}.") from None
        except ConnectionError:
            said = b""
    if not said:
        raise BrokerUnavailable(f"The cluster {name!r} ended before the reload was done.")
    answer = json.loads(said)
    if "error" in answer:
        raise error_of_code(answer["error"]["code"], answer["error"]["message"])
    report: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in answer["report"].items()
    }
    return ReloadReport(**report)


def check_regular(file: str) -> Path:
    """Check that a cluster file is no pipe, which may never end.

    Raises:
        InvalidSpec: it is, or nothing can have such a name.
    """
    path = Path(file)
    try:
        is_other = path.exists() and not path.is_file()
    except (OSError, ValueError) as error:
        raise InvalidSpec(f"{file:.80} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if is_other:
        raise InvalidSpec(f"{file} is not a regular file: write the cluster file to one, and reload that.")
    return path


def reloadable() -> list[str]:
    """The names of this user's clusters that take requests for a reload, in order, but for those too long for that."""
    prefix = _prefix(default_endpoint())
    names = (name.removeprefix(prefix) for name in abstract_names(prefix))
    return sorted(name for name in names if _is_ours(name))


def _connect(asking: socket.socket, address: bytes) -> None:
    """Connect; whoever has the name may be another user, with a queue that stays full.

    Raises:
        BlockingIOError: its queue is full for seconds.
        ConnectionRefusedError: there is nobody.
    """
    end = time.monotonic() + _READ
    asking.setblocking(False)
    while True:
        try:
            asking.connect(address)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(_AGAIN)
        else:
            break
    asking.setblocking(True)


def _is_ours(name: str) -> bool:
    """Whether a process of this user takes the requests for a cluster of that name."""
    with socket.socket(socket.AF_UNIX) as asking, contextlib.suppress(OSError):
        asking.setblocking(False)  # whoever takes no connections, and has a full queue of them, is not waited for
        asking.connect(_address(name))
        return is_own(asking)
    return False


def _address(name: str) -> bytes:
    """The name of the socket; of a cluster whose name is too long for one, without it."""
    endpoint = default_endpoint(name)
    prefix = _prefix(endpoint)
    full = f"\0{prefix}{name}".encode()
    return full if len(full) <= _LONGEST else f"\0{prefix[:-1]}:{name_digest(endpoint, 32)}".encode()


def _prefix(endpoint: str) -> str:
    return f"ether-reload-{name_digest(str(Path(endpoint).parent), 16)}-"


def _file(request: bytes) -> str | None:
    match json.loads(request):
        case {"file": str() | None as file}:
            return file
        case _:
            raise ValueError("it asks for no reload")


def _read(connection: socket.socket, most: int | None = None, timeout: float | None = None) -> bytes:
    """What the other end says until it ends, which has `timeout` seconds for all of it.

    Raises:
        ValueError: it says more than `most` bytes.
        TimeoutError: it had not ended in time.
    """
    said = b""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        if end is not None:
            if (left := end - time.monotonic()) <= 0.0:
                raise TimeoutError("it takes too long")
            connection.settimeout(left)
        if not (part := connection.recv(_MOST)):
            return said
        said += part
        if most is not None and len(said) > most:
            raise ValueError("it says too much")
