// Workers on threads of their own, devices that come back on either while what they sent is still
// on its way, the real log: each batch is in it once and in order.
#include "tunnel_rig.h"

#include "base/check.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICES 8
#define ROUNDS  60

struct shared_device {
    pthread_mutex_t lock; // a device is in one place at a time
    struct tunnel_rig_device state;
    uint64_t hashes[ROUNDS * RIG_WORKERS * 8 + 1];
};

struct actor {
    uint32_t worker;
    uint64_t seed;
    struct tunnel_rig_stream stream;
};

static struct tunnel_rig rig;
static struct shared_device devices[DEVICES];

// HELLO, WELCOME (which may have to wait), what is not durable yet and some more, gone again.
static void visit(struct actor *actor, struct base_prng *prng, struct shared_device *device)
{
    uint8_t frame[2048];
    uint8_t payload[1024];
    enum wire_tunnel_type type;
    const uint8_t *bytes;
    size_t size;
    struct wire_tunnel_welcome welcome;
    tunnel_rig_open(&rig, &actor->stream, actor->worker, device->state.device);
    tunnel_rig_send(&actor->stream, frame, tunnel_rig_hello(&device->state, frame));
    while (!tunnel_rig_next(&actor->stream, &type, &bytes, &size)) {
        tunnel_rig_wait(&rig, actor->worker);
    }
    base_check(type == WIRE_TUNNEL_WELCOME);
    base_check(wire_tunnel_welcome_parse(bytes, size, &welcome) == BASE_OK);
    uint64_t high_water = welcome.classes[0].high_water;
    base_check(high_water == device->state.next); // all that was sent has landed
    base_check(welcome.classes[0].hash == device->hashes[high_water]);
    device->state.tail = high_water;
    device->state.tail_hash = device->hashes[high_water];
    for (uint64_t count = 1 + base_prng_below(prng, 5); count > 0; count--) {
        size = tunnel_rig_payload(1, 200, device->state.next, payload, sizeof(payload));
        size = tunnel_rig_batch(&device->state, payload, size, 1, frame, sizeof(frame));
        device->hashes[device->state.next] = device->state.next_hash;
        tunnel_rig_send(&actor->stream, frame, size);
        base_check(actor->stream.status == BASE_OK);
    }
    tunnel_rig_close(&actor->stream);
    (void)tunnel_rig_pump(&rig, actor->worker);
}

static void *act(void *arg)
{
    struct actor *actor = arg;
    struct base_prng prng;
    base_prng_seed(&prng, actor->seed);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct shared_device *device = &devices[base_prng_below(&prng, DEVICES)];
        pthread_mutex_lock(&device->lock);
        visit(actor, &prng, device);
        pthread_mutex_unlock(&device->lock);
    }
    return NULL;
}

static void check_log(void)
{
    uint64_t next[DEVICES] = {0};
    struct gw_segment_reader *reader;
    assert_int_equal(gw_segment_reader_open(gw_tunnel_log(rig.tunnel), &reader), BASE_OK);
    for (;;) {
        struct gw_sink_batch batch;
        uint64_t position;
        uint64_t behind;
        enum base_status status = gw_segment_reader_next(reader, &batch, &position, &behind);
        if (status == BASE_ERR_NOT_FOUND) {
            break;
        }
        assert_int_equal(status, BASE_OK);
        assert_true(batch.device >= 1 && batch.device <= DEVICES);
        assert_int_equal(batch.batch.number, next[batch.device - 1]);
        next[batch.device - 1]++;
    }
    gw_segment_reader_close(reader);
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(next[i], devices[i].state.next);
    }
}

static void test_two_workers(void **state)
{
    (void)state;
    static struct actor actors[RIG_WORKERS];
    pthread_t threads[RIG_WORKERS];
    print_message("seed 1000\n");
    tunnel_rig_init(&rig);
    rig.options.segment_bytes = GW_SEGMENT_BYTES_MIN;
    tunnel_rig_start(&rig, true);
    for (uint32_t i = 0; i < DEVICES; i++) {
        pthread_mutex_init(&devices[i].lock, NULL);
        tunnel_rig_device(&devices[i].state, i + 1, 2, 1);
        devices[i].hashes[0] = devices[i].state.next_hash;
    }
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        actors[i].worker = i;
        actors[i].seed = 1000 + i;
        assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    // Read back by a new process, as it were.
    tunnel_rig_stop(&rig);
    tunnel_rig_start(&rig, true);
    check_log();
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint64_t high_water = 0;
        uint64_t hash = 0;
        (void)gw_tunnel_high_water(rig.tunnel, &(struct gw_mark_key){i + 1, 2, 1}, &high_water,
                                   &hash);
        assert_int_equal(high_water, devices[i].state.next);
        assert_int_equal(hash, devices[i].hashes[high_water]);
    }
    assert_true(gw_tunnel_validate(rig.tunnel));
    tunnel_rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
