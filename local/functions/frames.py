"""Frames: a binary protocol for calls to the engine, over a persistent connection.

A frame is the lengths of its head and its body, then the head, then the body. The head of a call has the values of the
headers `authorization` (the caller) and `x-amz-target`. The head of a response is its status.
"""

import socket
import struct
import threading
from http import HTTPStatus

LENGTHS = struct.Struct("!II")
FRAME_BYTES_MAX = 64 * 1024 * 1024
"""The maximum size of a frame. Calls are smaller; the first bytes of an HTTP request, read as lengths, are larger."""
CONNECT_S = 3.0
OK = b"%d" % HTTPStatus.OK


class FrameError(ConnectionError):
    """The peer sent something other than a frame, because it uses another protocol."""


def pack_frame(head: bytes, body: bytes) -> bytes:
    """Return the frame with *head* and *body*.

    >>> pack_frame(b"200", b"{}")
    b'\\x00\\x00\\x00\\x03\\x00\\x00\\x00\\x02200{}'
    """
    return LENGTHS.pack(len(head), len(body)) + head + body


def lengths_of(start: bytes | bytearray) -> tuple[int, int]:
    """Return the lengths of head and body, with which a frame begins. Raises FrameError if they are too large.

    >>> lengths_of(pack_frame(b"200", b"{}"))
    (3, 2)
    >>> lengths_of(b"GET / HTTP/1.1")
    Traceback (most recent call last):
    local.functions.frames.FrameError: not a frame
    """
    head, body = LENGTHS.unpack_from(start)
    if head + body > FRAME_BYTES_MAX:
        raise FrameError("not a frame")
    return head, body


def call_head(access_key: str, region: str, service: str, target: str) -> bytes:
    """Return the head of a call: caller and target. It has no signature, because the engine checks none.

    >>> call_head("KEY", "us-east-1", "sqs", "AmazonSQS.SendMessage").decode().splitlines()[1]
    'AmazonSQS.SendMessage'
    """
    scope = f"20260101/{region}/{service}/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, Signature=none\n{target}".encode()


class FrameCalls:
    """Makes calls to the engine at *address* (host:port). Each thread opens a connection of its own at its first call.

    `turn` is a semaphore with *turns* permits. A caller may use it to limit its concurrent calls.
    """

    def __init__(self, address: str, turns: int = 1) -> None:
        self._address = address
        self.turn = threading.Semaphore(turns)
        self._own = threading.local()

    def call(self, head: bytes, body: bytes, answer_s: float) -> tuple[bool, bytes]:
        """Make a call. Return whether it succeeded, and the response.

        Raises OSError if no response comes in *answer_s* seconds.
        """
        try:
            connection: _Connection = self._own.connection
        except AttributeError:
            connection = self._own.connection = _Connection(self._address)
        try:
            return connection.exchange(pack_frame(head, body), answer_s)
        except OSError:
            connection.close()
            del self._own.connection
            raise


class _Connection:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def exchange(self, frame: bytes, answer_s: float) -> tuple[bool, bytes]:
        self._socket.settimeout(answer_s)
        self._socket.sendall(frame)
        head_length, body_length = lengths_of(self._read(LENGTHS.size))
        return self._read(head_length) == OK, self._read(body_length)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def _read(self, length: int) -> bytes:
        found = self._answers.read(length)
        if len(found) < length:
            raise ConnectionResetError("the engine has closed the connection")
        return found
