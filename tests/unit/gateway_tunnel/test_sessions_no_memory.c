// Every allocation of the tunnel and its sessions fails in its turn: nothing breaks, nothing leaks,
// nothing is acknowledged that is not there, and with memory again the device delivers everything.
#include "tunnel_rig.h"

#include "failing_heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICE  UINT64_C(0x77)
#define BATCHES 6

static struct tunnel_rig rig;
static struct tunnel_rig_stream stream;
static uint8_t payload[256 * 1024];
static uint8_t frame[300 * 1024];
static uint32_t rows;

static void keep(void *ctx, const struct gw_sink_batch *batch)
{
    (void)ctx;
    assert_int_equal(batch->batch.number, rows);
    rows++;
}

// The device's batches, one of them larger than a frame. Built without the armed heap.
static size_t build(struct tunnel_rig_device *device, size_t ends[BATCHES], uint8_t *out,
                    size_t capacity)
{
    size_t at = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        size_t size = tunnel_rig_payload(2, i == 3 ? 50000 : 300, i, payload, sizeof(payload));
        at += tunnel_rig_batch(device, payload, size, 2, out + at, capacity - at);
        ends[i] = at;
    }
    return at;
}

static bool out_write(void *ctx, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    (void)bytes;
    (void)size;
    return true;
}

static void out_end(void *ctx, bool reset)
{
    (void)reset;
    *(bool *)ctx = true;
}

// Sends all in pieces, as far as it goes; lands what got through.
static void try_to_deliver(const uint8_t *hello, size_t hello_size, size_t size)
{
    struct gw_session *session = NULL;
    bool ended = false;
    const struct gw_session_port port = {.ctx = &ended, .write = out_write, .end = out_end};
    if (gw_session_open(rig.workers[0].worker, DEVICE, 7, &port, &session) != BASE_OK) {
        return;
    }
    enum base_status status = gw_session_receive(session, hello, hello_size);
    for (size_t at = 0; at < size && status == BASE_OK && !ended; at += 1000) {
        status = gw_session_receive(session, frame + at, size - at < 1000 ? size - at : 1000);
        gw_tunnel_worker_flush(rig.workers[0].worker);
    }
    assert_int_equal(status, BASE_OK); // it is not the peer's fault
    gw_session_close(session);
}

static void deliver_rest(const struct tunnel_rig_device *all, const size_t *ends)
{
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_open(&rig, &stream, 1, DEVICE);
    tunnel_rig_greet(&stream, all, &welcome);
    assert_int_equal(welcome.high_water, rows);
    size_t from = rows > 0 ? ends[rows - 1] : 0;
    if (rows < BATCHES) {
        tunnel_rig_send(&stream, frame + from, ends[BATCHES - 1] - from);
    }
    (void)tunnel_rig_land(&rig, UINT32_MAX, BASE_OK);
    assert_int_equal(rows, BATCHES);
    tunnel_rig_close(&stream);
}

static void test_sessions(void **state)
{
    (void)state;
    size_t failures = 0;
    for (int once = 0; once < 2; once++) {
        bool failed = true;
        for (size_t allowed = 0; failed; allowed++) {
            struct tunnel_rig_device device;
            size_t ends[BATCHES];
            uint8_t hello[512];
            tunnel_rig_init(&rig);
            tunnel_rig_device(&device, DEVICE, 2, 1);
            size_t size = build(&device, ends, frame, sizeof(frame));
            size_t hello_size = tunnel_rig_hello(&device, hello);
            long live = failing_heap_live();
            tunnel_rig_start(&rig, false);
            rig.sink.keep = keep;
            rows = 0;
            failing_heap_arm(allowed, once == 1);
            try_to_deliver(hello, hello_size, size);
            failed = failing_heap_has_failed();
            (void)failing_heap_disarm();
            failures += failed;
            (void)tunnel_rig_land(&rig, UINT32_MAX, BASE_OK);
            assert_true(gw_tunnel_validate(rig.tunnel));
            deliver_rest(&device, ends);
            assert_true(gw_tunnel_validate(rig.tunnel));
            tunnel_rig_done(&rig);
            assert_int_equal(failing_heap_live(), live);
        }
    }
    print_message("%zu failures\n", failures);
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
