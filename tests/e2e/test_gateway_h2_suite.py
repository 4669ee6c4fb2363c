"""The cases of the public HTTP/2 conformance suite, by its numbering, against the gateway: clear text and TLS.

Each case is told in our words: what a client sends to `/` behind an exchange of SETTINGS, and what must come back.
Where the suite is content with a closed connection, this file wants the error code as well, and a connection that ends
must end in order: what was said arrives, then the end of the stream (over TLS its goodbye first), never a reset.
Cases marked * exist in the suite's strict mode or its newest sources alone; those marked + are ours.
"""
import os
import re
import socket
import subprocess
import tempfile
import time
import unittest

from h2_suite import (CANCEL, DUMMY, Peer, connection_error, data, depends, first_settings, ping_ack, ping_ack_or_end,
                      reply, reset_only, setting, settings_ack, stream_error, the_end, u32)
from raw_h2 import (ACK, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR,
                    FRAME_SIZE_ERROR, GOAWAY, NO_ERROR, PADDED, PING, PREFACE, PRIORITY, PRIORITY_FLAG,
                    PROTOCOL_ERROR, PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE,
                    Closed, integer, text)

BIN = os.environ.get("WALLE_BIN", "build/dev/bin")
CASES = []


def case(number, check, handshake=True):
    def add(function):
        CASES.append((f"{number} {function.__name__.strip('_').replace('_', ' ')}", function, check, handshake))
        return function
    return add


def frame_case(number, name, check, *frame):
    CASES.append((f"{number} {name}", lambda c: c.frame(*frame), check, True))


# ---- generic
@case("generic/1.1", first_settings, handshake=False)
def _preface(c):
    c.raw(PREFACE)
    c.frame(SETTINGS, 0, 0, setting(4, 65535))


@case("generic/2.1", ping_ack())
def _priority_of_an_idle_stream(c):
    c.frame(PRIORITY, 0, 1, depends(0))
    c.ping()


@case("generic/2.2", data())
def _window_update_when_half_closed(c):
    c.frame(SETTINGS, 0, 0, setting(4, 0))
    c.frame(WINDOW_UPDATE, 0, c.get(), u32(1))


@case("generic/2.3", data())
def _priority_when_half_closed(c):
    c.frame(SETTINGS, 0, 0, setting(4, 0))
    c.frame(PRIORITY, 0, c.get(), depends(0))
    c.frame(WINDOW_UPDATE, 0, 1, u32(1))


@case("generic/2.4", ping_ack())
def _reset_when_half_closed(c):
    c.frame(RST_STREAM, 0, c.get(), u32(CANCEL))
    c.ping()


@case("generic/2.5", ping_ack())
def _priority_when_closed(c):
    c.get()
    c.finish()
    c.frame(PRIORITY, 0, 1, depends(0))
    c.ping()


@case("generic/3.1.1", reply)
def _data(c):
    c.frame(DATA, END_STREAM, c.open(), b"test")


@case("generic/3.1.2", reply)
def _data_twice(c):
    c.frame(DATA, 0, c.open(), b"test")
    c.frame(DATA, END_STREAM, 1, b"test")


@case("generic/3.1.3", reply)
def _data_padded(c):
    c.frame(DATA, END_STREAM | PADDED, c.open(), b"\x06test" + bytes(6))


@case("generic/3.2.1", reply)
def _headers(c):
    c.get()


@case("generic/3.2.2", reply)
def _headers_padded(c):
    c.headers(b"\x08" + c.request() + bytes(8), END_STREAM | END_HEADERS | PADDED)


@case("generic/3.2.3", reply)
def _headers_with_priority(c):
    c.headers(depends(0) + c.request(), END_STREAM | END_HEADERS | PRIORITY_FLAG)


def priority_before_a_request(number, name, stream, payload):
    def send(c):
        c.frame(PRIORITY, 0, stream, payload)
        c.get()
    CASES.append((f"{number} {name}", send, reply, True))


priority_before_a_request("generic/3.3.1", "lowest priority", 1, depends(0, 0))
priority_before_a_request("generic/3.3.2", "highest priority", 1, depends(0))
priority_before_a_request("generic/3.3.3", "dependency", 3, depends(1, 0))
priority_before_a_request("generic/3.3.4", "exclusive dependency", 1, depends(0, 0, True))
priority_before_a_request("generic/3.3.5", "priority of a later stream", 3, depends(0))


@case("generic/3.4.1", ping_ack())
def _reset(c):
    c.frame(RST_STREAM, 0, c.open("GET"), u32(CANCEL))
    c.ping()


@case("generic/3.5.1", settings_ack)
def _settings(c):
    values = ((1, 4096), (2, 1), (3, 100), (4, 65535), (5, 16384), (6, 100))
    c.frame(SETTINGS, 0, 0, b"".join(setting(*value) for value in values))


@case("generic/3.7.1", ping_ack(b"pingpong"))
def _ping(c):
    c.ping(b"pingpong")


@case("generic/3.8.1", ping_ack_or_end)
def _goaway(c):
    c.frame(GOAWAY, 0, 0, u32(0) + u32(NO_ERROR) + b"goodbye")
    c.ping()


@case("generic/3.9.1", ping_ack())
def _window_update_of_the_connection(c):
    c.frame(WINDOW_UPDATE, 0, 0, u32(1))
    c.ping()


@case("generic/3.9.2", reply)
def _window_update_of_a_stream(c):
    c.frame(WINDOW_UPDATE, 0, c.get(), u32(1))


@case("generic/3.10.1", reply)
def _continuation(c):
    payload = c.request()
    c.headers(payload[:5], END_STREAM)
    c.frame(CONTINUATION, END_HEADERS, 1, payload[5:])


@case("generic/3.10.2", reply)
def _continuation_twice(c):
    payload = c.request()
    c.headers(payload[:5], END_STREAM)
    c.frame(CONTINUATION, 0, 1, payload[5:10])
    c.frame(CONTINUATION, END_HEADERS, 1, payload[10:])


@case("generic/4.1", reply)
def _get(c):
    c.get()


@case("generic/4.2", reply)
def _head(c):
    c.headers(c.request("HEAD"))


@case("generic/4.3", reply)
def _post(c):
    c.frame(DATA, END_STREAM, c.open(), b"test")


@case("generic/4.4", reply)
def _post_with_trailers(c):
    c.frame(DATA, 0, c.open("POST", ("trailer", "x-test")), b"test")
    c.headers(c.fields(("x-test", "ok")), stream=1)


def block_case(number, name, before=b"", after=b"", check=reply):
    CASES.append((f"{number} {name}", lambda c: c.headers(before + c.request() + after), check, True))


AGENT, TEST, PLAIN = b"\x87\xb5\x05\xb1\x61\xcc\x5a\x93", b"\x85\xf2\xb2\x4a\x84\xff", text("walle")
CODED = b"\x84\x9c\x48\xac\xa4"  # six letters in five bytes' Huffman code
block_case("generic/5.1", "indexed field", after=b"\xba")
for kind, first, last in (("with indexing", 0x40, 2), ("without indexing", 0x00, 6), ("never indexed", 0x10, 10)):
    NAMES = (("known name", text("user-agent") + PLAIN), ("known name coded", AGENT + CODED),
             ("indexed name", None), ("new name", text("x-test") + PLAIN), ("new name coded", TEST + CODED))
    index = integer(58, 6 if first else 4, first) if first == 0x40 else integer(58, 4, first)
    for at, (name, field) in enumerate(NAMES):
        place = last + min(at, 1) if at < 3 else last + at - 1
        block_case(f"generic/5.{place}{'+' if at == 2 else ''}", f"{name} {kind}",
                   after=index + CODED if field is None else bytes([first]) + field)
block_case("generic/5.14", "table size change", before=b"\x3f\x61")
block_case("generic/5.15", "two table size changes", before=b"\x3f\x61\x3f\xe1\x1f")


# ---- http2: starting, frames, header blocks
case("http2/3.5.1", first_settings, handshake=False)(_preface)


@case("http2/3.5.2", the_end, handshake=False)
def _wrong_preface(c):
    c.raw(b"INVALID CONNECTION PREFACE\r\n\r\n")


@case("http2/4.1.1", ping_ack())
def _unknown_type(c):
    c.frame(0x16, 0, 0, bytes(8))
    c.ping()


@case("http2/4.1.2", ping_ack())
def _unknown_flags(c):
    c.ping(flags=0x16)


frame_case("http2/4.1.3", "reserved bit", ping_ack(), PING, 0x16, 1 << 31, bytes(8))


@case("http2/4.2.1", reply)
def _largest_data(c):
    c.frame(DATA, END_STREAM, c.open(), b"x" * c.limits.get(5, 16384))


@case("http2/4.2.2", stream_error(FRAME_SIZE_ERROR))
def _too_large_data(c):
    c.frame(DATA, END_STREAM, c.open(), b"x" * (c.limits.get(5, 16384) + 1))


@case("http2/4.2.3", connection_error(FRAME_SIZE_ERROR))
def _too_large_headers(c):
    c.get(*((f"x-dummy{i}", "x" * 4000) for i in range(5)))


@case("http2/4.3.1", connection_error(COMPRESSION_ERROR))
def _broken_block(c):
    c.headers(b"\x40")


@case("http2/4.3.2", connection_error(PROTOCOL_ERROR))
def _priority_within_a_block(c):
    c.headers(c.request(), 0)
    c.frame(PRIORITY, 0, 1, depends(0))
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))


@case("http2/4.3.3", connection_error(PROTOCOL_ERROR))
def _headers_within_a_block(c):
    c.headers(c.request(), 0)
    c.get(stream=3)
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))


# ---- http2: streams' states
frame_case("http2/5.1.1", "data when idle", connection_error(PROTOCOL_ERROR), DATA, END_STREAM, 1, b"test")


@case("http2/5.1.2", connection_error(PROTOCOL_ERROR))
def _reset_when_idle(c):
    c.frame(RST_STREAM, 0, 1, u32(CANCEL))


frame_case("http2/5.1.3", "window update when idle", connection_error(PROTOCOL_ERROR), WINDOW_UPDATE, 0, 1, u32(100))


@case("http2/5.1.4", connection_error(PROTOCOL_ERROR))
def _continuation_when_idle(c):
    c.frame(CONTINUATION, END_HEADERS, 1, c.request())


@case("http2/5.1.5", stream_error(STREAM_CLOSED))
def _data_when_half_closed(c):
    c.frame(DATA, END_STREAM, c.get(), b"test")


@case("http2/5.1.6", stream_error(STREAM_CLOSED))
def _headers_when_half_closed(c):
    c.get()
    c.get()


@case("http2/5.1.7", stream_error(STREAM_CLOSED, PROTOCOL_ERROR))
def _continuation_when_half_closed(c):
    payload = c.request()
    c.headers(payload)
    c.frame(CONTINUATION, END_HEADERS, 1, payload)


@case("http2/5.1.8", stream_error(STREAM_CLOSED))
def _data_when_reset(c):
    c.frame(RST_STREAM, 0, c.open("GET"), u32(CANCEL))
    c.frame(DATA, END_STREAM, 1, b"test")


@case("http2/5.1.9", stream_error(STREAM_CLOSED))
def _headers_when_reset(c):
    c.frame(RST_STREAM, 0, c.open("GET"), u32(CANCEL))
    c.get()


@case("http2/5.1.10", stream_error(STREAM_CLOSED, PROTOCOL_ERROR))
def _continuation_when_reset(c):
    c.frame(RST_STREAM, 0, c.open("GET"), u32(CANCEL))
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))


@case("http2/5.1.11", connection_error(STREAM_CLOSED))
def _data_when_closed(c):
    c.get()
    c.finish()
    c.frame(DATA, END_STREAM, 1, b"test")


@case("http2/5.1.12", connection_error(STREAM_CLOSED))
def _headers_when_closed(c):
    payload = c.request()
    c.headers(payload)
    c.finish()
    c.headers(payload, stream=1)


@case("http2/5.1.13", connection_error(STREAM_CLOSED, PROTOCOL_ERROR))
def _continuation_when_closed(c):
    c.get()
    c.finish()
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))


@case("http2/5.1.1.1", connection_error(PROTOCOL_ERROR))
def _even_stream(c):
    c.get(stream=2)


@case("http2/5.1.1.2", connection_error(PROTOCOL_ERROR))
def _lower_stream(c):
    c.get(stream=5)
    c.get(stream=3)


@case("http2/5.1.1.3*", stream_error(STREAM_CLOSED))
def _same_stream(c):
    c.get(stream=5)
    c.get(stream=5)


@case("http2/5.1.2.1", stream_error(PROTOCOL_ERROR, REFUSED_STREAM))
def _too_many_streams(c):
    c.frame(SETTINGS, 0, 0, setting(4, 0))
    payload = c.request()
    for stream in range(1, 2 * c.limits[3] + 2, 2):
        c.headers(payload, stream=stream)


@case("http2/5.3.1.1", stream_error(PROTOCOL_ERROR))
def _headers_depend_on_themselves(c):
    c.headers(depends(1) + c.request(), END_STREAM | END_HEADERS | PRIORITY_FLAG)


frame_case("http2/5.3.1.2", "priority depends on itself", stream_error(PROTOCOL_ERROR), PRIORITY, 0, 1, depends(1))


frame_case("http2/5.4.1.1", "error then the end", the_end, PING, 0, 3, bytes(8))
frame_case("http2/5.4.1.2*", "error has a last word", connection_error(PROTOCOL_ERROR), PING, 0, 3, bytes(8))


@case("http2/5.4.1+", connection_error(PROTOCOL_ERROR))
def _error_with_much_behind_it(c):
    c.frame(PING, 0, 3, bytes(8))
    for _ in range(64):
        c.frame(DATA, 0, 1, bytes(16384))


case("http2/5.5.1", ping_ack())(_unknown_type)


@case("http2/5.5.2", connection_error(PROTOCOL_ERROR))
def _unknown_type_within_a_block(c):
    c.headers(c.request(), END_STREAM)
    c.frame(0x16, 0, 0, bytes(8))


# ---- http2: each type of frame
frame_case("http2/6.1.1", "data on no stream", connection_error(PROTOCOL_ERROR), DATA, END_STREAM, 0, b"test")


@case("http2/6.1.2", stream_error(STREAM_CLOSED))
def _data_behind_the_end(c):
    c.headers(c.request("POST"))
    c.frame(DATA, END_STREAM, 1, b"test")


@case("http2/6.1.3", connection_error(PROTOCOL_ERROR))
def _data_padding_too_long(c):
    c.frame(DATA, END_STREAM | PADDED, c.open("POST", ("content-length", "4")), b"\x06Test")


case("http2/6.2.1", connection_error(PROTOCOL_ERROR))(_priority_within_a_block)
case("http2/6.2.2", connection_error(PROTOCOL_ERROR))(_headers_within_a_block)


@case("http2/6.2.3", connection_error(PROTOCOL_ERROR))
def _headers_on_no_stream(c):
    c.get(stream=0)


@case("http2/6.2.4", connection_error(PROTOCOL_ERROR))
def _headers_padding_too_long(c):
    payload = c.request()
    c.headers(bytes([len(payload) + 2]) + payload, END_STREAM | END_HEADERS | PADDED)


frame_case("http2/6.3.1", "priority on no stream", connection_error(PROTOCOL_ERROR), PRIORITY, 0, 0, depends(0))


@case("http2/6.3.2", stream_error(FRAME_SIZE_ERROR))
def _priority_of_wrong_length(c):
    c.frame(PRIORITY, 0, c.get(), u32(1 << 31 | 1))


priority_before_a_request("http2/6.3.3*", "priority of a later stream", 3, depends(0))


frame_case("http2/6.4.1", "reset on no stream", connection_error(PROTOCOL_ERROR), RST_STREAM, 0, 0, u32(CANCEL))


case("http2/6.4.2", connection_error(PROTOCOL_ERROR))(_reset_when_idle)


@case("http2/6.4.3", connection_error(FRAME_SIZE_ERROR))
def _reset_of_wrong_length(c):
    c.frame(RST_STREAM, 0, c.get(), bytes(3))


frame_case("http2/6.5.1", "settings ack with payload", connection_error(FRAME_SIZE_ERROR), SETTINGS, ACK, 0, b"\0")
frame_case("http2/6.5.2", "settings on a stream", connection_error(PROTOCOL_ERROR), SETTINGS, 0, 1, setting(3, 100))
frame_case("http2/6.5.3", "settings of wrong length", connection_error(FRAME_SIZE_ERROR), SETTINGS, 0, 0, b"\0\3\0")


@case("http2/6.5.3+", connection_error(PROTOCOL_ERROR, FRAME_SIZE_ERROR))
def _settings_of_wrong_length_cut_short(c):
    c.raw(b"\0\0\x09" + bytes([SETTINGS, 0]) + u32(0) + setting(3, 100) + b"\0\2")


def settings_case(number, name, key, value, check):
    CASES.append((f"{number} {name}", lambda c: c.frame(SETTINGS, 0, 0, setting(key, value)), check, True))


settings_case("http2/6.5.2.1", "push neither on nor off", 2, 2, connection_error(PROTOCOL_ERROR))
settings_case("http2/6.5.2.2", "initial window too large", 4, 1 << 31, connection_error(FLOW_CONTROL_ERROR))
settings_case("http2/6.5.2.3", "largest frame too small", 5, 16383, connection_error(PROTOCOL_ERROR))
settings_case("http2/6.5.2.4", "largest frame too large", 5, 1 << 24, connection_error(PROTOCOL_ERROR))


@case("http2/6.5.2.5", ping_ack())
def _unknown_setting(c):
    c.frame(SETTINGS, 0, 0, setting(0xff, 1))
    c.ping()


@case("http2/6.5.3.1", data(1))
def _two_initial_windows_in_one_frame(c):
    c.frame(SETTINGS, 0, 0, setting(4, 100) + setting(4, 1))
    c.next(SETTINGS)
    c.get()


settings_case("http2/6.5.3.2", "settings are acknowledged", 2, 0, settings_ack)
case("http2/6.7.1", ping_ack(b"pingpong"))(_ping)


@case("http2/6.7.2", ping_ack(b"question"))
def _ping_ack_has_no_answer(c):
    c.ping(b"nobodyas", ACK)
    c.ping(b"question")


frame_case("http2/6.7.3", "ping on a stream", connection_error(PROTOCOL_ERROR), PING, 0, 1, bytes(8))
frame_case("http2/6.7.4", "ping of wrong length", connection_error(FRAME_SIZE_ERROR), PING, 0, 0, bytes(6))


@case("http2/6.7.4+", connection_error(PROTOCOL_ERROR, FRAME_SIZE_ERROR))
def _ping_of_wrong_length_on_a_stream(c):
    c.frame(PING, 0, 1, bytes(6))


frame_case("http2/6.8.1", "goaway on a stream", connection_error(PROTOCOL_ERROR), GOAWAY, 0, 1, u32(0) + u32(NO_ERROR))
frame_case("http2/6.9.1", "window update of zero", connection_error(PROTOCOL_ERROR), WINDOW_UPDATE, 0, 0, u32(0))


@case("http2/6.9.2", stream_error(PROTOCOL_ERROR))
def _window_update_of_zero_on_a_stream(c):
    c.frame(WINDOW_UPDATE, 0, c.open("GET"), u32(0))


@case("http2/6.9.3", connection_error(FRAME_SIZE_ERROR))
def _window_update_of_wrong_length(c):
    c.frame(WINDOW_UPDATE, 0, 0, b"\0\0\1")


@case("http2/6.9.1.1", data(1))
def _window_of_one(c):
    c.window(1)
    c.get()


@case("http2/6.9.1.2", connection_error(FLOW_CONTROL_ERROR))
def _connection_window_over_the_maximum(c):
    for _ in range(2):
        c.frame(WINDOW_UPDATE, 0, 0, u32(0x7fffffff))


@case("http2/6.9.1.3", reset_only(FLOW_CONTROL_ERROR))
def _stream_window_over_the_maximum(c):
    c.open("GET")
    for _ in range(2):
        c.frame(WINDOW_UPDATE, 0, 1, u32(0x7fffffff))


@case("http2/6.9.2.1", data(1))
def _window_opened_behind_the_request(c):
    c.window(0)
    c.get()
    c.window(1)


@case("http2/6.9.2.2", data(1))
def _negative_window(c):
    c.window(3)
    c.get()
    c.next(DATA)
    c.window(2)
    c.frame(WINDOW_UPDATE, 0, 1, u32(2))


settings_case("http2/6.9.2.3", "initial window too large", 4, 1 << 31, connection_error(FLOW_CONTROL_ERROR))


@case("http2/6.10.1", reply)
def _continuations_with_large_fields(c):
    c.headers(c.request(), END_STREAM)
    c.frame(CONTINUATION, 0, 1, c.fields(DUMMY))
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))


@case("http2/6.10.2", connection_error(PROTOCOL_ERROR))
def _data_behind_an_open_continuation(c):
    c.headers(c.request("POST"), 0)
    c.frame(CONTINUATION, 0, 1, c.fields(DUMMY))
    c.frame(DATA, END_STREAM, 1, b"test")


@case("http2/6.10.3", connection_error(PROTOCOL_ERROR))
def _continuation_on_no_stream(c):
    c.headers(c.request(), END_STREAM)
    c.frame(CONTINUATION, END_HEADERS, 0, c.fields(DUMMY))


@case("http2/6.10.4", connection_error(PROTOCOL_ERROR))
def _continuation_behind_whole_headers(c):
    c.get()
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))


@case("http2/6.10.5", connection_error(PROTOCOL_ERROR))
def _continuation_behind_the_last_one(c):
    c.headers(c.request(), END_STREAM)
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))
    c.frame(CONTINUATION, END_HEADERS, 1, c.fields(DUMMY))


@case("http2/6.10.6", connection_error(PROTOCOL_ERROR))
def _continuation_behind_data(c):
    c.headers(c.request("POST"), 0)
    c.frame(DATA, END_STREAM, 1, b"test")
    c.frame(CONTINUATION, 0, 1, c.fields(DUMMY))
    c.frame(CONTINUATION, END_HEADERS, 0, c.fields(DUMMY))


@case("http2/7.1", ping_ack_or_end)
def _goaway_with_an_unknown_error(c):
    c.frame(GOAWAY, 0, 0, u32(0) + u32(0xff))
    c.ping()


@case("http2/7.2", ping_ack())
def _reset_with_an_unknown_error(c):
    c.frame(RST_STREAM, 0, c.open(), u32(0xff))
    c.ping()


# ---- http2: requests
@case("http2/8.1.1", stream_error(PROTOCOL_ERROR))
def _trailers_that_do_not_end_the_stream(c):
    c.frame(DATA, 0, c.open(), b"test")
    c.headers(c.fields(("x-test", "ok")), END_HEADERS, 1)


def malformed(number, name, change):
    def send(c):
        c.headers(c.fields(*change(c.pseudo())))
    CASES.append((f"{number} {name}", send, stream_error(PROTOCOL_ERROR), True))


def without(name):
    return lambda fields: [field for field in fields if field[0] != name]


def twice(name):
    return lambda fields: fields + [field for field in fields if field[0] == name]


malformed("http2/8.1.2.1", "upper case name", lambda fields: fields + [("X-TEST", "ok")])
malformed("http2/8.1.2.1.1", "unknown pseudo header", lambda fields: fields + [(":test", "ok")])
malformed("http2/8.1.2.1.2", "pseudo header of responses", lambda fields: fields + [(":status", "200")])


@case("http2/8.1.2.1.3", stream_error(PROTOCOL_ERROR))
def _pseudo_header_in_trailers(c):
    c.frame(DATA, 0, c.open(), b"test")
    c.headers(c.fields((":method", "POST")), END_HEADERS, 1)


malformed("http2/8.1.2.1.4", "pseudo headers behind others", lambda fields: [("x-test", "ok")] + fields)
malformed("http2/8.1.2.2.1", "connection", lambda fields: fields + [("connection", "keep-alive")])
malformed("http2/8.1.2.2.2", "te", lambda fields: fields + [("trailers", "test"), ("te", "trailers, deflate")])
malformed("http2/8.1.2.3.1", "empty path", lambda fields: without(":path")(fields) + [(":path", "")])
malformed("http2/8.1.2.3.2", "no method", without(":method"))
malformed("http2/8.1.2.3.3", "no scheme", without(":scheme"))
malformed("http2/8.1.2.3.4", "no path", without(":path"))
malformed("http2/8.1.2.3.5", "two methods", twice(":method"))
malformed("http2/8.1.2.3.6", "two schemes", twice(":scheme"))
malformed("http2/8.1.2.3.7+", "two unlike methods", lambda fields: fields + [(":method", "/")])
malformed("http2/8.1.2.3.7", "two paths", twice(":path"))


@case("http2/8.1.2.6.1", stream_error(PROTOCOL_ERROR))
def _content_length_is_wrong(c):
    c.frame(DATA, END_STREAM, c.open("POST", ("content-length", "1")), b"test")


@case("http2/8.1.2.6.2", stream_error(PROTOCOL_ERROR))
def _content_length_of_two_frames_is_wrong(c):
    c.frame(DATA, 0, c.open("POST", ("content-length", "1")), b"test")
    c.frame(DATA, END_STREAM, 1, b"test")


@case("http2/8.2.1", connection_error(PROTOCOL_ERROR))
def _push_from_a_client(c):
    c.frame(PUSH_PROMISE, END_HEADERS, 1, u32(3) + c.request())


@case("http2/8.2.1+", connection_error(PROTOCOL_ERROR))
def _push_from_a_client_on_an_open_stream(c):
    c.open("GET")
    c.frame(PUSH_PROMISE, END_HEADERS, 1, u32(3) + c.request())


# ---- hpack
BROKEN = connection_error(COMPRESSION_ERROR)
block_case("hpack/2.3.3.1", "index behind both tables", after=b"\xc6", check=BROKEN)
block_case("hpack/2.3.3.2", "name's index behind both tables", after=b"\x7f\x07\0", check=BROKEN)
block_case("hpack/4.2.1", "table size change at the end", after=b"\x21", check=BROKEN)
block_case("hpack/5.2.1", "padding of more than seven bits", after=b"\0" + TEST + b"\x84\x49\x50\x9f\xff", check=BROKEN)
block_case("hpack/5.2.2", "padding of zeros", after=b"\0" + TEST + b"\x83\x49\x50\x90", check=BROKEN)
block_case("hpack/5.2.3", "end symbol", after=b"\0" + TEST + b"\x87\xff\xff\xff\xfd\x25\x42\x7f", check=BROKEN)
block_case("hpack/6.1.1", "index zero", after=b"\x80", check=BROKEN)


@case("hpack/6.3.1", BROKEN)
def _table_size_above_the_setting(c):
    c.headers(integer(c.limits.get(1, 4096) + 1, 5, 0x20) + c.request())


class Suite:
    """Every case against one program. A cut-off or a silence is a failure with the case's name."""
    program = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="walle-h2-suite-")
        cls.process = subprocess.Popen([os.path.join(BIN, cls.program), "--dir", cls.folder.name, "--tls",
                                        "127.0.0.1:0", "--h2c", "127.0.0.1:0", "--workers", "1", "--log", "error"],
                                       stdout=subprocess.PIPE, text=True)
        cls.ports = {}
        while len(cls.ports) < 2:
            line = cls.process.stdout.readline()
            assert line, "the gateway did not start"
            found = re.match(r"listening (\w+) [\d.]+:(\d+)", line)
            if found:  # else: what it says besides at its first start
                cls.ports[found.group(1)] = int(found.group(2))

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        status = cls.process.wait(60)
        cls.process.stdout.close()
        cls.folder.cleanup()
        assert status == 0, f"exit status {status}"

    def connect(self, tls, handshake=True, together=False):
        c = Peer(self.ports["tls" if tls else "h2c"], tls, handshake, together)
        self.addCleanup(c.socket.close)
        if handshake:
            c.shake_hands()
        return c

    def run_case(self, tls, together, send, check, handshake):
        c = self.connect(tls, handshake, together)
        try:
            send(c)
            check(c)
            return None
        except Closed:
            return "closed" if c.orderly else "reset or cut off"
        except TimeoutError:
            return "silence"
        except AssertionError as error:
            return str(error)
        finally:
            c.socket.close()

    def run_all(self, tls):
        wrong = []
        for together in (False, True):  # each frame by itself, and all of a case in one piece
            for name, send, check, handshake in CASES:
                what = self.run_case(tls, together, send, check, handshake)
                if what:
                    wrong.append((name, together, what))
        self.assertEqual(wrong, [])

    def test_the_number_of_cases(self):
        numbers = {name.split()[0] for name, *_ in CASES}
        self.assertEqual(len(numbers), len(CASES))
        self.assertEqual(len([number for number in numbers if number[-1] not in "*+"]), 146)

    def test_clear_text(self):
        self.run_all(False)

    def test_tls(self):
        self.run_all(True)

    def test_a_peer_that_stays_is_left(self):
        """The socket goes even when the client never closes its own."""
        for tls in (False, True):
            c = self.connect(tls)
            c.frame(PING, 0, 3, bytes(8))
            the_end(c)
            with socket.socket(fileno=os.dup(c.socket.fileno())) as plain:
                deadline = time.monotonic() + 60
                with self.assertRaises((BrokenPipeError, ConnectionResetError)):
                    while time.monotonic() < deadline:
                        plain.sendall(b"x")
                        time.sleep(0.02)

    def test_replies_have_a_body(self):
        """Cases of flow control need five bytes of data at least: the suite leaves them out otherwise."""
        for tls in (False, True):
            with self.connect(tls) as c:
                self.assertGreaterEqual(c.body_length(), 5)


class Gateway(Suite, unittest.TestCase):
    program = "walle-gateway"


class GatewayOnStub(Suite, unittest.TestCase):
    program = "walle-gateway-stub"


if __name__ == "__main__":
    unittest.main()
