// Sessions that share one frame buffer write the same bytes as sessions that do not, also when they
// stop in the middle and others write meanwhile; trimming changes nothing that can be seen.
#include "http/memory/h2_memory.h"

#include "test_kit.h"

#define SESSIONS 8
#define ROUNDS   200
#define WIRE_MAX (64 * 1024)

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)id;
    (void)user;
    size_t size = (size_t)source->fd < room ? (size_t)source->fd : room;
    memset(out, 'a' + source->fd % 26, size);
    source->fd -= (int)size;
    if (source->fd == 0) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)size;
}

struct end {
    nghttp2_session *session;
    struct gw_h2_lease lease;
    uint8_t wire[WIRE_MAX];
    size_t wire_bytes;
};

// A client's preface and a GET on stream 1, by hand: SETTINGS, HEADERS with :method GET, :path /,
// :scheme http, :authority x.
static void open_stream(nghttp2_session *session)
{
    static const uint8_t bytes[] = {
        'P',  'R',  'I', ' ', '*',  ' ',  'H',  'T',  'T', 'P', '/',  '2',  '.',  '0',  '\r', '\n',
        '\r', '\n', 'S', 'M', '\r', '\n', '\r', '\n', 0,   0,   0,    4,    0,    0,    0,    0,
        0,    0,    0,   6,   1,    5,    0,    0,    0,   1,   0x82, 0x84, 0x86, 0x41, 1,    'x'};
    assert_int_equal(nghttp2_session_mem_recv(session, bytes, sizeof(bytes)), sizeof(bytes));
}

static void submit(nghttp2_session *session, int bytes)
{
    static const nghttp2_nv ok = {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "200", 7,
                                  3, NGHTTP2_NV_FLAG_NONE};
    nghttp2_data_provider provider = {.source = {.fd = bytes}, .read_callback = read_body};
    assert_int_equal(nghttp2_submit_response(session, 1, &ok, 1, &provider), 0);
}

// One piece of output; false when there is none.
static bool send_piece(struct end *end)
{
    const uint8_t *bytes = NULL;
    ssize_t size = nghttp2_session_mem_send(end->session, &bytes);
    assert_true(size >= 0);
    assert_true(end->wire_bytes + (size_t)size <= WIRE_MAX);
    if (size > 0) {
        memcpy(end->wire + end->wire_bytes, bytes, (size_t)size);
        end->wire_bytes += (size_t)size;
    }
    return size > 0;
}

static struct gw_h2_memory memory;
static struct end shared[SESSIONS];
static struct end alone[SESSIONS];

static void test_shared_and_alone_write_the_same(void **state)
{
    (void)state;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    assert_int_equal(nghttp2_option_new(&option), 0);
    assert_int_equal(gw_h2_memory_init(&memory, SESSIONS / 2), BASE_OK); // the others: heap
    for (uint32_t i = 0; i < SESSIONS; i++) {
        const struct gw_h2_session_make make = {callbacks, option, NULL};
        assert_int_equal(
            gw_h2_memory_session_new(&memory, &make, &shared[i].session, &shared[i].lease),
            BASE_OK);
        assert_true(shared[i].lease.shares);
        assert_int_equal(nghttp2_session_server_new2(&alone[i].session, callbacks, NULL, option),
                         0);
        open_stream(shared[i].session);
        open_stream(alone[i].session);
        submit(shared[i].session, 1000 + (int)i * 7000);
        submit(alone[i].session, 1000 + (int)i * 7000);
    }
    struct base_prng prng;
    base_prng_seed(&prng, 3);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t i = (uint32_t)base_prng_below(&prng, SESSIONS);
        gw_h2_memory_unpark(&memory, &shared[i].lease);
        bool more = true;
        for (uint64_t piece = base_prng_below(&prng, 3); more && piece > 0; piece--) {
            more = send_piece(&shared[i]);
            (void)send_piece(&alone[i]);
        }
        assert_int_equal(gw_h2_memory_park(&memory, &shared[i].lease), BASE_OK);
        memset(memory.frame_buffer, 0xee, GW_H2_FRAME_BUFFER_BYTES);
        gw_h2_memory_trim(&shared[i].lease);
    }
    for (uint32_t i = 0; i < SESSIONS; i++) {
        gw_h2_memory_unpark(&memory, &shared[i].lease);
        while (send_piece(&shared[i]) || send_piece(&alone[i])) {
        }
        assert_true(shared[i].wire_bytes > 1000 + i * 7000);
        assert_int_equal(shared[i].wire_bytes, alone[i].wire_bytes);
        assert_memory_equal(shared[i].wire, alone[i].wire, alone[i].wire_bytes);
        nghttp2_session_del(shared[i].session);
        gw_h2_memory_session_ended(&memory, &shared[i].lease);
        nghttp2_session_del(alone[i].session);
    }
    gw_h2_memory_done(&memory);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_and_alone_write_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
