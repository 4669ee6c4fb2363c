// The device's tunnel under a program of bytes: records, time, lost connections, a store that
// fails, a process that dies, and whatever bytes from the gateway, some of them with the right
// epoch and numbers so that they get far. The law holds after each.
//
// The first byte is the window, then operations: u8 what, arguments. See `run`.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/prng.h"
#include "mem/mem_kv.h"
#include "tunnel/tunnel.h"

#include <stdlib.h>
#include <string.h>

#define OPERATIONS_MAX 400

struct world {
    struct mem_kv kv;
    void *collect_memory;
    void *tunnel_memory;
    size_t tunnel_bytes;
    struct dev_tunnel_config config;
    struct dev_collect *collect;
    struct dev_tunnel *tunnel;
    uint64_t now_us;
    uint64_t random;
    bool open;
    bool busy;
};

static enum base_status port_open(void *ctx, uint32_t stream, uint8_t class_id)
{
    struct world *world = ctx;
    base_check(stream == 0);
    base_check(class_id < WIRE_TUNNEL_CLASSES);
    base_check(!world->open);
    world->open = true;
    return BASE_OK;
}

// What a device says is one whole frame, and one an honest gateway understands.
static enum base_status port_send(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size,
                                  bool early)
{
    struct world *world = ctx;
    enum wire_tunnel_type type;
    size_t payload = 0;
    (void)stream;
    (void)early;
    base_check(world->open);
    base_check(wire_tunnel_head(bytes, size, &type, &payload) == BASE_OK);
    base_check(size == WIRE_TUNNEL_HEAD + payload);
    base_check(type <= WIRE_TUNNEL_PING);
    if (type == WIRE_TUNNEL_BATCH) {
        struct wire_tunnel_batch batch;
        base_check(wire_tunnel_batch_parse(bytes + WIRE_TUNNEL_HEAD, payload, &batch) == BASE_OK);
    }
    return world->busy ? BASE_ERR_BUSY : BASE_OK;
}

static void port_close(void *ctx, uint32_t stream)
{
    struct world *world = ctx;
    (void)stream;
    world->open = false;
}

static uint64_t port_random(void *ctx)
{
    struct world *world = ctx;
    world->random = world->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return world->random;
}

static void boot(struct world *world)
{
    const struct dev_kv_port port = mem_kv_port(&world->kv);
    struct dev_tunnel_ports ports = {
        .random = {world, port_random},
        .transport = {world, port_open, port_send, port_close},
    };
    mem_kv_revive(&world->kv);
    world->open = false;
    base_check(dev_collect_init(world->collect_memory, dev_collect_bytes(), &port,
                                &world->collect) == BASE_OK);
    base_check(dev_collect_boot(world->collect, world->now_us) == BASE_OK);
    ports.collect = world->collect;
    base_check(dev_tunnel_init(world->tunnel_memory, world->tunnel_bytes, &world->config, &ports,
                               &world->tunnel) == BASE_OK);
    base_check(dev_tunnel_boot(world->tunnel, world->now_us) == BASE_OK);
}

static void offer(struct world *world, uint8_t class_id, uint8_t size)
{
    static const uint8_t body[256];
    const struct wire_upload_record record = {
        .class_id = class_id % WIRE_TUNNEL_CLASSES,
        .key = {BASE_STR("t"), BASE_STR("u"), (uint16_t)(size % 5)},
        .bytes = body,
        .size = size,
    };
    base_check(dev_tunnel_offer(world->tunnel, world->now_us, &record, NULL) == BASE_OK);
}

// What else of a batch is refused: none, a few, many, up to the last that a REJECT can name.
static uint64_t more_refused(uint8_t ahead)
{
    uint64_t mask = base_mix64(ahead);
    return ahead < 64 ? ahead / 8u : mask >> (ahead % 64);
}

// A frame whose class, epoch and number fit, and whose rest is the input's.
static void say_fitting(struct world *world, uint8_t kind, uint8_t class_id, uint8_t ahead)
{
    struct dev_tunnel_stats stats;
    uint8_t frame[256];
    size_t size = 0;
    dev_tunnel_stats(world->tunnel, &stats);
    class_id %= WIRE_TUNNEL_CLASSES;
    const struct dev_tunnel_class_stats *of = &stats.classes[class_id];
    const struct wire_tunnel_ack ack = {class_id, WIRE_TUNNEL_DURABLE, of->epoch, of->tail + ahead,
                                        0};
    const struct wire_tunnel_reject reject = {class_id, of->tail + ahead % 8,
                                              ahead % 3 == 0 ? WIRE_TUNNEL_NO_RECORD : ahead % 5,
                                              -100, ahead % 3 == 0 ? 0 : more_refused(ahead)};
    const struct wire_tunnel_fork fork = {class_id, of->epoch, of->tail, 0};
    struct wire_tunnel_welcome welcome = {.class_count = WIRE_TUNNEL_CLASSES};
    for (uint8_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        welcome.classes[i] = (struct wire_tunnel_welcome_class){
            .class_id = i,
            .epoch = stats.classes[i].epoch,
            .high_water = stats.classes[i].tail,
            // Of an epoch nothing was acknowledged in, the hash can be known.
            .hash = wire_tunnel_chain_first(world->config.device_id, i, stats.classes[i].epoch),
            .credit_bytes = 1000 * (uint32_t)ahead,
            .credit_records = ahead,
        };
    }
    enum base_status status = BASE_OK;
    switch (kind % 4) {
    case 0:
        status = wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size);
        break;
    case 1:
        status = wire_tunnel_reject_encode(&reject, frame, sizeof frame, &size);
        break;
    case 2:
        status = wire_tunnel_fork_encode(&fork, frame, sizeof frame, &size);
        break;
    default:
        status = wire_tunnel_welcome_encode(&welcome, frame, sizeof frame, &size);
        break;
    }
    if (status == BASE_OK && world->open) {
        dev_tunnel_on_bytes(world->tunnel, 0, world->now_us, frame, size);
    }
}

static void cut(struct world *world, uint8_t how)
{
    if (world->open) {
        world->open = false;
        dev_tunnel_on_closed(world->tunnel, 0, world->now_us, BASE_ERR_CLOSED, how % 4);
    }
}

static void say_raw(struct world *world, struct base_reader *input, uint8_t size)
{
    size_t left = base_reader_left(input);
    size_t take = size < left ? size : left;
    const uint8_t *bytes = base_reader_bytes(input, take);
    if (world->open && bytes != NULL) {
        dev_tunnel_on_bytes(world->tunnel, 0, world->now_us, bytes, take);
    }
}

static void run(struct world *world, struct base_reader *input)
{
    uint8_t what = base_reader_u8(input);
    uint8_t a = base_reader_u8(input);
    uint8_t b = base_reader_u8(input);
    switch (what % 12) {
    case 0:
    case 1:
        offer(world, a, b);
        break;
    case 2:
        world->now_us += (uint64_t)a * 1000 * (b % 64 + 1);
        break;
    case 3:
        say_fitting(world, a, a >> 4, b);
        break;
    case 4:
        say_raw(world, input, a);
        break;
    case 5:
        cut(world, a);
        break;
    case 6:
        world->kv.fail_at = world->kv.commits + 1 + a % 4;
        break;
    case 7:
        boot(world); // the process died
        break;
    case 8:
        world->busy = a % 2 == 1;
        dev_tunnel_on_writable(world->tunnel, 0, world->now_us);
        break;
    case 9:
        dev_tunnel_flush(world->tunnel, world->now_us);
        break;
    case 10:
        dev_tunnel_wake(world->tunnel, world->now_us);
        break;
    default:
        dev_tunnel_on_open(world->tunnel, 0, world->now_us);
        break;
    }
    if (what >= 128) {
        (void)dev_tunnel_step(world->tunnel, world->now_us);
    }
    base_check(dev_tunnel_validate(world->tunnel));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_reader input;
    base_reader_init(&input, data, size);
    struct world world = {.now_us = 1000000, .random = size};
    world.config = (struct dev_tunnel_config){
        .device_id = 1,
        .one_stream = true,
        .batch_bytes_max = 256,
        .open_bytes = 256,
        .open_records = 4,
        .window = 1 + base_reader_u8(&input) % WIRE_TUNNEL_WINDOW,
        .quota_bytes = {4000, 4000, 4000, 4000},
    };
    world.tunnel_bytes = dev_tunnel_bytes(&world.config);
    world.tunnel_memory = malloc(world.tunnel_bytes);
    world.collect_memory = malloc(dev_collect_bytes());
    base_check(world.tunnel_memory != NULL && world.collect_memory != NULL);
    mem_kv_init(&world.kv);
    boot(&world);
    for (unsigned i = 0; i < OPERATIONS_MAX && base_reader_left(&input) > 0; i++) {
        run(&world, &input);
    }
    dev_tunnel_stop(world.tunnel);
    mem_kv_done(&world.kv);
    free(world.tunnel_memory);
    free(world.collect_memory);
    return 0;
}
