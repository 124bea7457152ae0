"""A hostile peer's process: `python -m tests.attacks.hostile KIND ENDPOINT`; floods until its standard input ends.

At the end it prints how many things it did. Rates are such as one core can keep up while others do their work.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator

import zmq

from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.envelope.version import PROTOCOL_MAJOR
from ether_broker.wire.frame import MAGIC, PREAMBLE, Flag, Kind, join_frame, pack_envelope, read_number
from tests.runtime.raw_peer import RawPeer

_PART = bytes(1 << 20)


def paced(rate: float) -> Iterator[None]:
    """Give a turn `rate` times a second at most, until standard input ends."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    at = time.monotonic()
    while not ended.is_set():
        yield
        at = max(at + 1 / rate, time.monotonic() - 1.0)
        if (wait := at - time.monotonic()) > 0:
            ended.wait(wait)


def _session(endpoint: str, envelopes: Callable[[int], list[bytes]], rate: float) -> int:
    """Flood with frames from a node that has been let in."""
    with RawPeer(endpoint) as peer:
        peer.hello("mallory")
        peer.register("mallory", "evil.do")
        done = 0
        for _ in paced(rate):
            frame = join_frame(envelopes(done))
            with contextlib.suppress(zmq.Again):
                peer.talk.send(frame, zmq.NOBLOCK)
                done += 1
            with contextlib.suppress(zmq.Again):
                while True:
                    peer.listen.recv(zmq.NOBLOCK)
        return done


def register(endpoint: str) -> int:
    body = pack({"capabilities": [{"name": "evil.do"}, {"name": "evil.too"}]})
    return _session(
        endpoint,
        lambda done: [
            pack_envelope(Kind.REGISTER, request_id=new_id(), source=b"m%d-%d" % (done, n), body=body)
            for n in range(64)
        ],
        150,
    )


def observe(endpoint: str) -> int:
    body = pack({"from": 1, "topics": ["evil"]})
    return _session(endpoint, lambda _: [pack_envelope(Kind.OBSERVE, request_id=new_id(), body=body)] * 64, 150)


def monitor(endpoint: str) -> int:
    return _session(
        endpoint,
        lambda _: [pack_envelope(Kind.MONITOR, request_id=new_id(), target=b"node:mallory") for _ in range(64)],
        150,
    )


def returning(endpoint: str) -> int:
    """Fill a mailbox, and register its agent again and again."""
    asks = {"source": b"mallory", "capability": b"evil.do"}
    comes = pack_envelope(Kind.REGISTER, source=b"mallory", body=pack({"capabilities": [{"name": "evil.do"}]}))

    def envelopes(done: int) -> list[bytes]:
        if done < 60:
            return [pack_envelope(Kind.DELEGATION, request_id=new_id(), **asks) for _ in range(100)]
        return [comes] * 10

    return _session(endpoint, envelopes, 100)


def dead_letters(endpoint: str) -> int:
    return _session(
        endpoint,
        lambda done: [
            pack_envelope(
                Kind.DELEGATION, request_id=new_id(), source=b"mallory", target=b"nobody%d" % done, capability=b"x.y"
            )
            for _ in range(64)
        ],
        150,
    )


def fetch(endpoint: str) -> int:
    """Ask a node that minds its business for files, more than may be asked for, and answer what nobody asked."""
    artifact = {
        "path": "/etc/passwd",
        "sha256": "0" * 64,
        "size": 9,
        "source": {"node": "node-1", "file": "1", "key": "0" * 64},
    }
    body = pack({"artifact": artifact, "offset": 0, "length": 1 << 18})
    chunk = pack_envelope(Kind.CHUNK, request_id=new_id(), body=bytes(1 << 14))
    return _session(
        endpoint,
        lambda _: [
            *(pack_envelope(Kind.FETCH, request_id=new_id(), target=b"node-1", body=body) for _ in range(60)),
            *[chunk] * 4,
        ],
        150,
    )


def forged(endpoint: str) -> int:
    return _session(
        endpoint,
        lambda _: [
            pack_envelope(Kind.DELEGATION, request_id=new_id(), source=b"worker", capability=b"work.alone")
            for _ in range(64)
        ],
        150,
    )


def far_ids(endpoint: str) -> int:
    """Requests in an own name under UUIDv7 of the highest time there is, each as if another process had made it."""
    return _session(
        endpoint,
        lambda _: [
            pack_envelope(
                Kind.DELEGATION, request_id=b"\xff" * 6 + b"\x70" + os.urandom(9), source=b"mallory", capability=b"no.such"
            )
            for _ in range(64)
        ],
        150,
    )  # fmt: skip


def bombs(endpoint: str) -> int:
    bomb = b"\xdd\x00\x0f\x00\x00" + b"\x90" * 0xF0000
    return _session(endpoint, lambda _: [pack_envelope(Kind.REGISTER, source=b"b", body=bomb)], 30)


def questions(endpoint: str) -> int:
    """Delegations to the bus itself whose params are bombs."""
    bomb = b"\xdd\x00\x0f\x00\x00" + b"\x80" * 0xF0000
    body = b"\x81\xa6params\xc6" + struct.pack(">I", len(bomb)) + bomb
    small = pack({"params": b"\xdc\xf0\x00" + b"\x80" * 0xF000})
    return _session(
        endpoint,
        lambda done: [
            pack_envelope(
                Kind.DELEGATION, request_id=new_id(), source=b"mallory", capability=b"ether.agents",
                body=small if done % 2 else body,
            )
        ],
        60,
    )  # fmt: skip


def resend(endpoint: str) -> int:
    return _session(endpoint, lambda _: [pack_envelope(Kind.RESEND)] * 64, 150)


def garbage(endpoint: str) -> int:
    """Envelopes of every kind that is not for the broker, as fast as it can be sent."""
    taken = {
        Kind.DELEGATION, Kind.RESPONSE, Kind.CANCEL, Kind.HELLO, Kind.HEARTBEAT, Kind.REGISTER, Kind.UNREGISTER,
        Kind.OBSERVE, Kind.TAP_ACK, Kind.MONITOR, Kind.BYE, Kind.RESEND, Kind.RESUME, Kind.SCALE,
    }  # fmt: skip
    kinds = itertools.cycle({*range(256)} - taken)
    envelopes = [pack_envelope(next(kinds), request_id=new_id(), body=b"\n" * 8) for _ in range(1_024)]
    return _session(endpoint, lambda _: envelopes, 230)


def _told(endpoint: str, size: int, count: int, rate: float) -> int:
    """Delegate to oneself, and tell progress without end."""
    name = f"mallory-{os.getpid()}"  # an earlier one may not be lost yet
    with RawPeer(endpoint) as peer:
        peer.hello(name)
        peer.register(name, "evil.do")
        own = {"request_id": new_id(), "source": name.encode(), "target": name.encode(), "capability": b"evil.do"}
        peer.send(pack_envelope(Kind.DELEGATION, **own))
        peer.expect(Kind.DELEGATION)
        body = pack({"summary": "s" * size})
        frame = join_frame([pack_envelope(Kind.RESPONSE, status=Status.PROGRESS, body=body, **own)] * count)
        done = 0
        for _ in paced(rate):
            with contextlib.suppress(zmq.Again):
                peer.talk.send(frame, zmq.NOBLOCK)
                done += 1
            with contextlib.suppress(zmq.Again):
                while True:
                    peer.listen.recv(zmq.NOBLOCK)
        return done


def progress(endpoint: str) -> int:
    return _told(endpoint, 900_000, 1, 500)


def little_progress(endpoint: str) -> int:
    return _told(endpoint, 0, 1_024, 100)


def unknown_progress(endpoint: str) -> int:
    envelopes = [
        pack_envelope(Kind.RESPONSE, request_id=new_id(), source=b"mallory", status=Status.PROGRESS)
        for _ in range(1_024)
    ]
    return _session(endpoint, lambda _: envelopes, 100)


def cancel(endpoint: str) -> int:
    envelopes = [pack_envelope(Kind.CANCEL, request_id=new_id(), source=b"mallory") for _ in range(1_024)]
    return _session(endpoint, lambda _: envelopes, 230)


def empty(endpoint: str) -> int:
    return _session(endpoint, lambda _: [], 20_000)


def heartbeats(endpoint: str) -> int:
    body = pack({"agents": {f"mallory-{number}": {"running": 1} for number in range(200)}})
    return _session(endpoint, lambda _: [pack_envelope(Kind.HEARTBEAT, body=body)] * 64, 50)


def tap(endpoint: str) -> int:
    """Observe everything sixty-four times, and acknowledge and read nothing."""
    with RawPeer(endpoint) as peer:
        peer.hello("mallory")
        peer.register("mallory")
        body = pack({"from": 1, "topics": []})
        peer.send(*(pack_envelope(Kind.OBSERVE, request_id=new_id(), body=body) for _ in range(64)))
        done = 0
        for _ in paced(2):
            peer.send(pack_envelope(Kind.HEARTBEAT, body=pack({"agents": {}})))
            done += 1
        return done


def again(endpoint: str) -> int:
    """Ask for one large outcome again and again, and acknowledge it each time."""
    with RawPeer(endpoint) as peer:
        peer.listen.send(join_frame([pack_envelope(Kind.HELLO, request_id=new_id(), body=pack({"node": "mallory"}))]))
        session = peer.expect(Kind.WELCOME)[1]["session"]
        peer.register("mallory", "evil.do")
        own = {"request_id": new_id(), "source": b"mallory", "target": b"mallory", "capability": b"evil.do"}
        peer.send(pack_envelope(Kind.DELEGATION, **own))
        peer.expect(Kind.DELEGATION)
        peer.send(pack_envelope(Kind.RESPONSE, status=Status.COMPLETED, body=pack({"data": bytes(900_000)}), **own))
        peer.expect(Kind.RESPONSE)
        request = pack_envelope(Kind.DELEGATION, flags=Flag.RESENT, **own)
        done = last = 0
        for _ in paced(500):
            with contextlib.suppress(zmq.Again):
                peer.talk.send(join_frame([request], session, 0, last), zmq.NOBLOCK)
                done += 1
            with contextlib.suppress(zmq.Again):
                while True:
                    last = read_number(peer.listen.recv(zmq.NOBLOCK)) or last
        return done


def unacknowledged(endpoint: str) -> int:
    """Ask from eight nodes for large answers of the bus, and acknowledge none."""
    with contextlib.ExitStack() as stack:
        names = [f"mallory-{os.getpid()}-{number}".encode() for number in range(8)]
        peers = [stack.enter_context(RawPeer(endpoint)) for _ in names]
        for name, peer in zip(names, peers, strict=True):
            peer.hello(name.decode())
            peer.register(name.decode(), "evil.do")
        asked = {"request_id": new_id(), "source": names[0], "capability": b"no.such"}
        peers[0].send(pack_envelope(Kind.DELEGATION, body=pack({"params": bytes(400_000)}), **asked))
        peers[0].expect(Kind.RESPONSE)
        asked = {"request_id": new_id(), "source": names[0], "capability": b"ether.dead-letters"}
        peers[0].send(pack_envelope(Kind.DELEGATION, body=pack({"params": pack({"limit": 1})}), **asked))
        ((letter,),) = [unpack(peers[0].expect(Kind.RESPONSE)[1]["data"])["items"]]
        body = pack({"params": pack({"number": letter["number"]})})
        done = 0
        for turn, _ in enumerate(paced(1_000)):
            peer, name = peers[turn % 8], names[turn % 8]
            page = {"request_id": new_id(), "source": name, "capability": b"ether.dead-letter", "body": body}
            with contextlib.suppress(zmq.Again):
                peer.talk.send(join_frame([pack_envelope(Kind.DELEGATION, **page)]), zmq.NOBLOCK)
                done += 1
            with contextlib.suppress(zmq.Again):
                while True:
                    peer.listen.recv(zmq.NOBLOCK)
        return done


def strangers(endpoint: str) -> int:
    """Frames of 65,535 tiny envelopes from nobody."""
    envelope = pack_envelope(Kind.MONITOR)
    frame = (
        PREAMBLE.pack(MAGIC, PROTOCOL_MAJOR, 0, 65_535, 0, 0, 0)
        + struct.pack(">I", len(envelope)) * 65_535
        + envelope * 65_535
    )
    return _stranger(endpoint, frame, 10)


def crowd(endpoint: str) -> int:
    """As many from nobody as a frame may hold."""
    return _stranger(endpoint, join_frame([pack_envelope(Kind.MONITOR)] * 1_024), 150)


def _stranger(endpoint: str, frame: bytes, rate: float) -> int:
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.connect(endpoint)
        done = 0
        for _ in paced(rate):
            with contextlib.suppress(zmq.Again):
                peer.send(frame, zmq.NOBLOCK)
                done += 1
        return done


def hello(endpoint: str) -> int:
    """Fresh incarnations."""
    made: list[zmq.Socket[bytes]] = []
    with zmq.Context() as context:
        context.max_sockets = 4_000
        done = 0
        for _ in paced(300):
            peer = context.socket(zmq.DEALER)
            peer.linger = 0
            peer.setsockopt(zmq.IDENTITY, b"r" + os.urandom(16))
            peer.connect(endpoint)
            body = pack({"node": f"mallory-{done}", "host": "h" * 3_000})
            peer.send(join_frame([pack_envelope(Kind.HELLO, request_id=new_id(), body=body)]))
            made.append(peer)
            done += 1
            if len(made) > 300:
                made.pop(0).close()
        for peer in made:
            peer.close()
    return done


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host, int(port)


def connects(endpoint: str) -> int:
    """Connections that are made and closed."""
    done = 0
    for _ in paced(300):
        with contextlib.suppress(OSError), socket.create_connection(_address(endpoint), 1.0):
            done += 1
    return done


def slow(endpoint: str) -> int:
    """Hundreds of connections that say nothing, or a byte of a greeting now and then; counts those that were hung up on."""
    greeting = b"\xff" + bytes(8) + b"\x7f"
    selector = selectors.DefaultSelector()
    done = 0
    for turn, _ in enumerate(paced(100)):
        while len(selector.get_map()) < 400:
            selector.register(socket.create_connection(_address(endpoint), 5.0), selectors.EVENT_READ)
        for key in list(selector.get_map().values()):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if turn % 40 == 0 and connection.fileno() % 2:
                with contextlib.suppress(OSError):
                    connection.send(greeting[turn // 40 % 10 :][:1])
        for key, _ in selector.select(0):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                gone = not connection.recv(4_096)
            except OSError:
                gone = True
            if gone:
                selector.unregister(connection)
                connection.close()
                done += 1
    for key in list(selector.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]  # a socket: only sockets were registered
    return done


def multipart(endpoint: str) -> int:
    """One message of parts without end; counts the parts."""
    done = 0
    long_frame = struct.pack(">BQ", 0x03, len(_PART)) + _PART
    for _ in paced(200):
        with contextlib.suppress(OSError), socket.create_connection(_address(endpoint), 5.0) as connection:
            connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
            ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
            connection.sendall(b"\x04" + bytes([len(ready)]) + ready)
            while True:
                connection.sendall(long_frame)
                done += 1
                if done % 50 == 0:
                    time.sleep(0.05)  # 1 GB/s
    return done


def publish(endpoint: str) -> int:
    """Events that nobody subscribes to."""
    body = pack({"params": pack({"topic": "evil.do", "data": b"\x01"})})
    return _session(
        endpoint,
        lambda _: (
            [
                pack_envelope(
                    Kind.DELEGATION, request_id=new_id(), source=b"mallory", capability=b"ether.publish", body=body
                )
            ]
            * 64
        ),
        150,
    )


def take_back(endpoint: str) -> int:
    """Requests for parts of an artifact, each taken back at once."""
    body = pack({"artifact": 5})

    def both(request_id: bytes) -> list[bytes]:
        wanted = pack_envelope(Kind.FETCH, request_id=request_id, target=b"mallory", body=body)
        return [wanted, pack_envelope(Kind.FETCH, request_id=request_id)]

    return _session(endpoint, lambda _: [one for _ in range(32) for one in both(new_id())], 150)


def scaled(endpoint: str) -> int:
    """Reports of an agent that says it scales."""
    body = pack({"before": 1, "instances": 2, "why": "w" * 200})
    return _session(endpoint, lambda _: [pack_envelope(Kind.SCALE, source=b"mallory", body=body)] * 64, 150)


KINDS = {
    kind.__name__: kind
    for kind in (
        register, returning, observe, monitor, dead_letters, forged, far_ids, bombs, questions, resend, garbage, strangers,
        crowd, hello, connects, slow, multipart, progress, little_progress, unknown_progress, cancel, empty, heartbeats, tap,
        again, unacknowledged, fetch,
        publish, take_back, scaled,
    )
}  # fmt: skip

if __name__ == "__main__":
    print("ready", flush=True)
    print(KINDS[sys.argv[1]](sys.argv[2]), flush=True)
