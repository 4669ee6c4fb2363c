"""HTTP/2 conformance of the gateway on the wire: each row sends one thing RFC 9113 or RFC 7541 speaks about."""
import os
import re
import struct
import subprocess
import tempfile
import unittest

import raw_h2
from raw_h2 import (ACK, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR,
                    FRAME_SIZE_ERROR, GOAWAY, HEADERS, PADDED, PING, PRIORITY, PRIORITY_FLAG, PROTOCOL_ERROR,
                    PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, Connection,
                    block, request)

PROGRAM = os.path.join(os.environ.get("WALLE_BIN", "build/dev/bin"), "walle-gateway-stub")
METHOD, SCHEME, AUTHORITY, PATH = ((":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/"))
POST = (":method", "POST")


def u32(value):
    return struct.pack(">I", value)


def setting(number, value):
    return struct.pack(">HI", number, value)


def start(conn, *more, method="POST"):
    """A request that goes on: its stream's id."""
    return conn.headers(request("/x", method, *more), END_HEADERS)


# ---- Rows: name, what is sent (returns the stream concerned, or None), which errors are right.
# 'C' connection error, 'S' stream error (a connection error is right as well).
ROWS = []


def row(kind, *errors):
    def add(function):
        ROWS.append((function.__name__.strip("_").replace("_", " "), function, kind, errors))
        return function
    return add


@row("C", FRAME_SIZE_ERROR)
def _headers_larger_than_a_frame(c):
    c.headers(request("/x", "GET", ("a", "b" * 17000)))


@row("S", FRAME_SIZE_ERROR)
def _data_larger_than_a_frame(c):
    stream = start(c)
    c.frame(DATA, END_STREAM, stream, b"a" * 16385)
    return stream


@row("C", COMPRESSION_ERROR)
def _broken_header_block(c):
    c.headers(b"\x40")


@row("C", PROTOCOL_ERROR)
def _priority_within_a_header_block(c):
    c.headers(request(), END_STREAM)
    c.frame(PRIORITY, 0, 1, u32(0) + b"\xff")


@row("C", PROTOCOL_ERROR)
def _other_headers_within_a_header_block(c):
    c.headers(request(), END_STREAM)
    c.headers(request())


@row("C", PROTOCOL_ERROR)
def _unknown_frame_within_a_header_block(c):
    c.headers(request(), END_STREAM)
    c.frame(0xfe, 0, 1, b"x")


@row("C", PROTOCOL_ERROR)
def _data_on_an_idle_stream(c):
    c.frame(DATA, END_STREAM, 1, b"x")


@row("C", PROTOCOL_ERROR)
def _reset_of_an_idle_stream(c):
    c.frame(RST_STREAM, 0, 1, u32(8))


@row("C", PROTOCOL_ERROR)
def _window_update_of_an_idle_stream(c):
    c.frame(WINDOW_UPDATE, 0, 1, u32(10))


@row("C", PROTOCOL_ERROR)
def _continuation_on_an_idle_stream(c):
    c.frame(CONTINUATION, END_HEADERS, 1, request())


@row("S", STREAM_CLOSED)
def _data_after_end_stream(c):
    stream = c.headers(request("/v1/push"))
    c.frame(DATA, END_STREAM, stream, b"x")
    return stream


@row("S", STREAM_CLOSED)
def _headers_after_end_stream(c):
    stream = c.headers(request("/v1/push"))
    c.headers(request(), stream=stream)
    return stream


@row("S", STREAM_CLOSED, PROTOCOL_ERROR)
def _continuation_after_end_stream(c):
    stream = c.headers(request("/v1/push"))
    c.frame(CONTINUATION, END_HEADERS, stream, block(("a", "b")))
    return stream


@row("S", STREAM_CLOSED)
def _data_after_reset(c):
    stream = start(c)
    c.frame(RST_STREAM, 0, stream, u32(8))
    c.frame(DATA, END_STREAM, stream, b"x")
    return stream


@row("S", STREAM_CLOSED)
def _headers_after_reset(c):
    stream = start(c)
    c.frame(RST_STREAM, 0, stream, u32(8))
    c.headers(request(), stream=stream)
    return stream


@row("S", STREAM_CLOSED, PROTOCOL_ERROR)
def _continuation_after_reset(c):
    stream = start(c)
    c.frame(RST_STREAM, 0, stream, u32(8))
    c.frame(CONTINUATION, END_HEADERS, stream, block(("a", "b")))
    return stream


@row("C", STREAM_CLOSED)
def _data_on_a_stream_that_was_answered(c):
    stream = c.headers(request())
    c.reply(stream)
    c.frame(DATA, END_STREAM, stream, b"x")
    return stream


@row("C", STREAM_CLOSED, PROTOCOL_ERROR)
def _headers_on_a_stream_that_was_answered(c):
    stream = c.headers(request())
    c.reply(stream)
    c.headers(request(), stream=stream)
    return stream


@row("C", STREAM_CLOSED, PROTOCOL_ERROR)
def _continuation_on_a_stream_that_was_answered(c):
    stream = c.headers(request())
    c.reply(stream)
    c.frame(CONTINUATION, END_HEADERS, stream, block(("a", "b")))
    return stream


@row("C", PROTOCOL_ERROR)
def _even_stream_id(c):
    c.headers(request(), stream=2)


@row("C", PROTOCOL_ERROR)
def _stream_id_lower_than_one_before(c):
    c.headers(request("/v1/push"), stream=5)
    c.headers(request(), stream=3)
    # The reply to stream 5 may come first; what counts is the end.


@row("S", PROTOCOL_ERROR)
def _headers_depending_on_themselves(c):
    return c.headers(u32(1) + b"\xff" + request(), END_STREAM | END_HEADERS | PRIORITY_FLAG)


@row("S", PROTOCOL_ERROR)
def _priority_depending_on_itself(c):
    c.frame(PRIORITY, 0, 2, u32(2) + b"\xff")


@row("C", PROTOCOL_ERROR)
def _data_on_stream_zero(c):
    c.frame(DATA, END_STREAM, 0, b"x")


@row("C", PROTOCOL_ERROR)
def _data_with_more_padding_than_payload(c):
    stream = start(c)
    c.frame(DATA, END_STREAM | PADDED, stream, b"\x06test")


@row("C", PROTOCOL_ERROR)
def _headers_on_stream_zero(c):
    c.headers(request(), stream=0)


@row("C", PROTOCOL_ERROR)
def _headers_with_more_padding_than_payload(c):
    payload = request()
    c.headers(bytes([min(len(payload) + 1, 255)]) + payload, END_STREAM | END_HEADERS | PADDED)


@row("C", PROTOCOL_ERROR)
def _priority_on_stream_zero(c):
    c.frame(PRIORITY, 0, 0, u32(0) + b"\xff")


@row("S", FRAME_SIZE_ERROR)
def _priority_of_wrong_length(c):
    stream = start(c)
    c.frame(PRIORITY, 0, stream, u32(0))
    return stream


@row("C", PROTOCOL_ERROR)
def _reset_of_stream_zero(c):
    c.frame(RST_STREAM, 0, 0, u32(8))


@row("C", FRAME_SIZE_ERROR)
def _reset_of_wrong_length(c):
    stream = start(c)
    c.frame(RST_STREAM, 0, stream, b"\0\0\0")


@row("C", FRAME_SIZE_ERROR)
def _settings_ack_with_payload(c):
    c.frame(SETTINGS, ACK, 0, b"\0")


@row("C", PROTOCOL_ERROR)
def _settings_on_a_stream(c):
    c.frame(SETTINGS, 0, 1, setting(3, 100))


@row("C", FRAME_SIZE_ERROR)
def _settings_of_wrong_length(c):
    c.frame(SETTINGS, 0, 0, b"\0\3\0")


@row("C", PROTOCOL_ERROR)
def _enable_push_two(c):
    c.frame(SETTINGS, 0, 0, setting(2, 2))


@row("C", FLOW_CONTROL_ERROR)
def _initial_window_too_large(c):
    c.frame(SETTINGS, 0, 0, setting(4, 1 << 31))


@row("C", PROTOCOL_ERROR)
def _max_frame_size_too_small(c):
    c.frame(SETTINGS, 0, 0, setting(5, 16383))


@row("C", PROTOCOL_ERROR)
def _max_frame_size_too_large(c):
    c.frame(SETTINGS, 0, 0, setting(5, 1 << 24))


@row("C", PROTOCOL_ERROR)
def _ping_on_a_stream(c):
    c.frame(PING, 0, 1, b"\0" * 8)


@row("C", FRAME_SIZE_ERROR)
def _ping_of_wrong_length(c):
    c.frame(PING, 0, 0, b"\0" * 6)


@row("C", PROTOCOL_ERROR)
def _goaway_on_a_stream(c):
    c.frame(GOAWAY, 0, 1, u32(0) + u32(0))


@row("C", PROTOCOL_ERROR)
def _window_update_of_zero_on_the_connection(c):
    c.frame(WINDOW_UPDATE, 0, 0, u32(0))


@row("S", PROTOCOL_ERROR)
def _window_update_of_zero_on_a_stream(c):
    stream = start(c)
    c.frame(WINDOW_UPDATE, 0, stream, u32(0))
    return stream


@row("C", FRAME_SIZE_ERROR)
def _window_update_of_wrong_length(c):
    c.frame(WINDOW_UPDATE, 0, 0, b"\0\0\1")


@row("C", FLOW_CONTROL_ERROR)
def _connection_window_over_its_maximum(c):
    c.frame(WINDOW_UPDATE, 0, 0, u32(0x7fffffff))
    c.frame(WINDOW_UPDATE, 0, 0, u32(0x7fffffff))


@row("S", FLOW_CONTROL_ERROR)
def _stream_window_over_its_maximum(c):
    stream = start(c)
    c.frame(WINDOW_UPDATE, 0, stream, u32(0x7fffffff))
    c.frame(WINDOW_UPDATE, 0, stream, u32(0x7fffffff))
    return stream


@row("C", PROTOCOL_ERROR)
def _continuation_of_nothing(c):
    stream = start(c)
    c.frame(CONTINUATION, END_HEADERS, stream, block(("a", "b")))


@row("C", PROTOCOL_ERROR)
def _continuation_on_stream_zero(c):
    c.headers(request(), END_STREAM)
    c.frame(CONTINUATION, END_HEADERS, 0, block(("a", "b")))


@row("C", PROTOCOL_ERROR)
def _continuation_behind_data(c):
    stream = start(c)
    c.frame(DATA, 0, stream, b"x")
    c.frame(CONTINUATION, END_HEADERS, stream, block(("a", "b")))


@row("C", PROTOCOL_ERROR)
def _data_within_a_header_block(c):
    stream = c.headers(request(), END_STREAM)
    c.frame(DATA, END_STREAM, stream, b"x")


@row("S", PROTOCOL_ERROR)
def _second_headers_without_end_stream(c):
    stream = start(c)
    c.headers(block(("x-test", "ok")), END_HEADERS, stream)
    return stream


@row("C", PROTOCOL_ERROR)
def _push_promise_from_a_client(c):
    stream = start(c)
    c.frame(PUSH_PROMISE, END_HEADERS, stream, u32(stream + 1) + request())


def bad_request(name, *fields, flags=END_STREAM | END_HEADERS):
    def send(conn):
        return conn.headers(block(*fields), flags)
    ROWS.append((name, send, "S", (PROTOCOL_ERROR,)))


bad_request("upper case in a name", METHOD, SCHEME, AUTHORITY, PATH, ("X-Test", "ok"))
bad_request("unknown pseudo header", METHOD, SCHEME, AUTHORITY, PATH, (":test", "ok"))
bad_request("pseudo header of a response", METHOD, SCHEME, AUTHORITY, PATH, (":status", "200"))
bad_request("pseudo header behind an ordinary one", METHOD, SCHEME, AUTHORITY, ("x-test", "ok"), PATH)
bad_request("connection header", METHOD, SCHEME, AUTHORITY, PATH, ("connection", "keep-alive"))
bad_request("te other than trailers", METHOD, SCHEME, AUTHORITY, PATH, ("te", "gzip"))
bad_request("transfer-encoding", METHOD, SCHEME, AUTHORITY, PATH, ("transfer-encoding", "chunked"))
bad_request("empty path", METHOD, SCHEME, AUTHORITY, (":path", ""))
bad_request("no method", SCHEME, AUTHORITY, PATH)
bad_request("no scheme", METHOD, AUTHORITY, PATH)
bad_request("no path", METHOD, SCHEME, AUTHORITY)
bad_request("two methods", METHOD, METHOD, SCHEME, AUTHORITY, PATH)
bad_request("two schemes", METHOD, SCHEME, SCHEME, AUTHORITY, PATH)
bad_request("two paths", METHOD, SCHEME, AUTHORITY, PATH, PATH)


@row("S", PROTOCOL_ERROR)
def _pseudo_header_in_trailers(c):
    stream = start(c)
    c.headers(block((":method", "POST")), END_STREAM | END_HEADERS, stream)
    return stream


@row("S", PROTOCOL_ERROR)
def _content_length_that_does_not_match(c):
    stream = start(c, ("content-length", "1"))
    c.frame(DATA, END_STREAM, stream, b"test")
    return stream


@row("S", PROTOCOL_ERROR)
def _content_length_that_does_not_match_two_frames(c):
    stream = start(c, ("content-length", "1"))
    c.frame(DATA, 0, stream, b"test")
    c.frame(DATA, END_STREAM, stream, b"test")
    return stream


def bad_block(name, payload):
    ROWS.append((name, lambda conn: conn.headers(payload) and None, "C", (COMPRESSION_ERROR,)))


bad_block("index that is not there", request() + b"\xc6")
bad_block("index zero", request() + b"\x80")
bad_block("name index that is not there", request() + b"\x7f\x46\x01x")
bad_block("table size change at the end of a block", request() + b"\x21")
bad_block("table size above the setting", b"\x3f\xff\xff\x7f" + request())
bad_block("string padded with more than seven bits", request() + b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff")
bad_block("string padded with zeros", request() + b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90")
bad_block("string with the end symbol", request() + b"\x00\x85\xf2\xb2\x4a\x87\xff\xff\xff\xfd\x25\x42\x7f")


class Server:
    @classmethod
    def start(cls, *arguments):
        self = cls()
        self.folder = tempfile.TemporaryDirectory(prefix="walle-h2-")
        self.process = subprocess.Popen([PROGRAM, "--dir", self.folder.name, "--tls", "127.0.0.1:0", "--h2c",
                                         "127.0.0.1:0", "--workers", "1", "--log", "error", *arguments],
                                        stdout=subprocess.PIPE, text=True)
        self.ports = {}
        while len(self.ports) < 2:
            line = self.process.stdout.readline()
            found = re.match(r"listening (\w+) [\d.]+:(\d+)", line)
            if not found:
                raise AssertionError("the gateway did not start")
            self.ports[found.group(1)] = int(found.group(2))
        return self

    def stop(self):
        self.process.terminate()
        status = self.process.wait(60)
        self.process.stdout.close()
        self.folder.cleanup()
        return status


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server.start()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        assert status == 0, f"exit status {status}"

    def connections(self):
        """One connection over clear text, then one over TLS, each with its SETTINGS exchanged."""
        for name in ("h2c", "tls"):
            conn = Connection(self.server.ports[name], name == "tls")
            self.addCleanup(conn.socket.close)
            conn.wait(SETTINGS)
            conn.frame(SETTINGS, ACK, 0)
            yield conn
            conn.socket.close()

    def test_offences(self):
        self.assertGreaterEqual(len(ROWS), 75)
        wrong = []
        for name, send, kind, errors in ROWS:
            for conn in self.connections():
                stream = send(conn)
                what, error = conn.outcome(stream, replies=kind == "S" and "was answered" not in name)
                allowed = ("goaway", "rst") if kind == "S" else ("goaway",)
                if what not in allowed or error not in errors:
                    wrong.append((name, what, error))
                elif what == "goaway":
                    self.assertTrue(conn.is_closed(), name)
                elif conn.get()[0] != 204:
                    wrong.append((name, "the connection is not usable"))
        self.assertEqual(wrong, [])
        with Connection(self.server.ports["h2c"]) as conn:
            self.assertEqual(conn.get()[0], 204)

    def test_invalid_preface(self):
        with Connection(self.server.ports["h2c"], preface=False) as conn:
            conn.raw(b"INVALID CONNECTION PREFACE\r\n\r\n")
            self.assertIn(conn.outcome(), (("goaway", PROTOCOL_ERROR), ("closed", None)))
            self.assertTrue(conn.is_closed())

    def test_first_frame_is_settings(self):
        for conn in self.connections():
            pass
        with Connection(self.server.ports["h2c"]) as conn:
            self.assertEqual(conn.read().kind, SETTINGS)

    def test_what_must_be_ignored(self):
        for conn in self.connections():
            conn.frame(0xfe, 0xff, 0, b"unknown")
            conn.frame(0xfe, 0xff, 77, b"unknown")
            conn.frame(SETTINGS, 0, 0, setting(0xff, 1))
            conn.frame(PRIORITY, 0, 99, u32(0) + b"\x10")
            conn.frame(PRIORITY, 0, 1, u32(99) + b"\x10")
            conn.frame(PING, ACK, 0, b"nobodyas")
            self.assertEqual(conn.get()[0], 204)
            conn.frame(PING, 0x16, 0, b"12345678")
            self.assertEqual(conn.wait(PING).payload, b"12345678")
            self.assertEqual(conn.get()[0], 204)

    def test_header_block_in_pieces(self):
        for conn in self.connections():
            payload = request("/v1/checkin", "GET", ("a", "b" * 50))
            stream = conn.headers(payload[:10], END_STREAM)
            conn.frame(CONTINUATION, 0, stream, payload[10:20])
            conn.frame(CONTINUATION, END_HEADERS, stream, payload[20:])
            self.assertEqual(conn.reply(stream)[0], 204)

    def test_padding_priority_and_trailers(self):
        for conn in self.connections():
            stream = conn.headers(b"\x05" + u32(0) + b"\x10" + request("/x", "POST") + b"\0" * 5,
                                  END_HEADERS | PADDED | PRIORITY_FLAG)
            conn.frame(DATA, PADDED, stream, b"\x03abc\0\0\0")
            conn.headers(block(("x-checksum", "1")), END_STREAM | END_HEADERS, stream)
            self.assertEqual(conn.reply(stream), (200, b"3 bytes"))

    def test_largest_frame_is_taken(self):
        for conn in self.connections():
            stream = start(conn)
            conn.frame(DATA, END_STREAM, stream, b"a" * 16384)
            self.assertEqual(conn.reply(stream), (200, b"16384 bytes"))

    def test_flow_control_of_replies(self):
        for conn in self.connections():
            conn.frame(SETTINGS, 0, 0, setting(4, 1))
            stream = conn.headers(request("/some"))
            self.assertEqual(raw_h2.status_of(conn.wait(HEADERS, stream).payload), 200)
            self.assertEqual(len(conn.wait(DATA, stream).payload), 1)
            conn.frame(SETTINGS, 0, 0, setting(4, 4))
            self.assertEqual(len(conn.wait(DATA, stream).payload), 3)
            conn.frame(WINDOW_UPDATE, 0, stream, u32(5))
            self.assertEqual(len(conn.wait(DATA, stream).payload), 5)
            conn.frame(SETTINGS, 0, 0, setting(4, 0))  # the window is negative now
            conn.frame(WINDOW_UPDATE, 0, stream, u32(4 + 91))
            body = b""
            while len(body) < 91:
                body += conn.wait(DATA, stream).payload
            self.assertEqual(len(body), 91)

    def test_streams_above_the_limit(self):
        for conn in self.connections():  # the limit was acknowledged
            for _ in range(2048 + 1):
                conn.headers(request("/v1/push"))
            what, error = conn.outcome(-1)
            self.assertEqual((what, error), ("goaway", PROTOCOL_ERROR))
        with Connection(self.server.ports["h2c"]) as conn:  # it was not: the stream alone is refused
            for _ in range(2048):
                conn.headers(request("/v1/push"))
            stream = conn.headers(request("/x", "POST"), END_HEADERS)
            while True:
                frame = conn.read()
                if frame.kind == RST_STREAM:
                    break
            self.assertEqual((frame.stream, frame.error), (stream, REFUSED_STREAM))
            conn.frame(DATA, END_STREAM, stream, b"under way when it was refused")
            conn.frame(PING, 0, 0, b"12345678")
            self.assertEqual(conn.wait(PING).payload, b"12345678")

    def test_head_has_no_body(self):
        for conn in self.connections():
            stream = conn.headers(request("/some", "HEAD"))
            self.assertEqual(conn.reply(stream), (200, b""))


if __name__ == "__main__":
    unittest.main()
