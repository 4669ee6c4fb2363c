// Random lives of devices against the tunnel: streams that break anywhere, come back on the other
// worker while the old one still seems open, groups that fail, backups restored, clones that live
// on. Whatever happens: no number of an epoch is in the sink twice, what a device was told to be
// durable is there with its own content, and nothing is out of order. The devices here are a model
// of their own, with their own idea of the protocol.
#include "tunnel_rig.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODELS_MAX  24
#define BATCHES_MAX 4096
#define IDS         6
#define ROWS_MAX    200000

// A device, or a copy of one: what it made and what it believes.
struct model {
    bool alive;
    uint64_t id;
    uint32_t epoch;
    uint64_t tail;
    uint64_t next;
    uint64_t sent;                    // next to be sent on this stream
    uint64_t marks[BATCHES_MAX];      // content
    uint64_t hashes[BATCHES_MAX + 1]; // [n]: behind batch n - 1
    bool connected;
    bool welcomed;
    struct tunnel_rig_stream stream;
};

// What the sink has.
struct row {
    uint64_t id;
    uint32_t epoch;
    uint64_t number;
    uint64_t mark;
};

static struct tunnel_rig rig;
static struct model *models;
static struct row *rows;
static uint32_t row_count;
static struct base_prng prng;
static uint64_t next_mark;
static uint64_t forks;

static size_t payload_of(uint64_t mark, uint8_t *out, size_t capacity)
{
    return tunnel_rig_payload(1 + (uint32_t)(mark % 3), 40, mark, out, capacity);
}

static void keep(void *ctx, const struct gw_sink_batch *batch)
{
    (void)ctx;
    uint8_t payload[1024];
    uint8_t bytes[8] = {0};
    const uint8_t *sent = batch->batch.bytes;
    size_t size = batch->batch.sent_bytes;
    const char *quote = memchr(sent, '"', size);
    if (quote != NULL && (const uint8_t *)quote + 17 <= sent + size &&
        base_hex_decode((struct base_str){quote + 1, 16}, bytes, sizeof(bytes)) == BASE_OK) {
        uint64_t mark = 0;
        for (size_t i = 0; i < sizeof(bytes); i++) {
            mark = mark << 8 | bytes[i];
        }
        size_t own = mark < next_mark ? payload_of(mark, payload, sizeof(payload)) : 0;
        assert_true(own == size && memcmp(payload, sent, size) == 0);
        assert_true(row_count < ROWS_MAX);
        rows[row_count++] =
            (struct row){batch->device, batch->batch.epoch, batch->batch.number, mark};
        return;
    }
    fail_msg("content nobody made");
}

static const struct row *find_row(uint64_t id, uint32_t epoch, uint64_t number)
{
    for (uint32_t i = 0; i < row_count; i++) {
        if (rows[i].id == id && rows[i].epoch == epoch && rows[i].number == number) {
            return &rows[i];
        }
    }
    return NULL;
}

// ---- Devices

static void make_batch(struct model *model)
{
    uint8_t payload[1024];
    if (model->next == BATCHES_MAX) {
        return;
    }
    uint64_t mark = next_mark++;
    size_t size = payload_of(mark, payload, sizeof(payload));
    model->marks[model->next] = mark;
    model->hashes[model->next + 1] = wire_tunnel_chain(model->hashes[model->next], payload, size);
    model->next++;
}

static void open_epoch(struct model *model)
{
    // What is left moves to new numbers.
    uint64_t left = model->next - model->tail;
    uint64_t marks[BATCHES_MAX];
    memcpy(marks, model->marks + model->tail, left * sizeof(marks[0]));
    model->epoch =
        (model->epoch & 0xffff0000u) + 0x10000u + (uint32_t)base_prng_below(&prng, 0xffff);
    model->hashes[0] = wire_tunnel_chain_first(model->id, 2, model->epoch);
    model->tail = model->next = 0;
    for (uint64_t i = 0; i < left; i++) {
        uint8_t payload[1024];
        size_t size = payload_of(marks[i], payload, sizeof(payload));
        model->marks[i] = marks[i];
        model->hashes[i + 1] = wire_tunnel_chain(model->hashes[i], payload, size);
        model->next++;
    }
    forks++;
}

static void disconnect(struct model *model)
{
    if (model->connected) {
        tunnel_rig_close(&model->stream);
        model->connected = false;
        model->welcomed = false;
    }
}

static void connect(struct model *model, uint32_t worker)
{
    uint8_t frame[512];
    disconnect(model);
    const struct tunnel_rig_device hello = {.device = model->id,
                                            .class_id = 2,
                                            .epoch = model->epoch,
                                            .next = model->next,
                                            .tail = model->tail,
                                            .tail_hash = model->hashes[model->tail]};
    tunnel_rig_open(&rig, &model->stream, worker, model->id);
    model->connected = true;
    model->welcomed = false;
    model->sent = model->tail;
    tunnel_rig_send(&model->stream, frame, tunnel_rig_hello(&hello, frame));
    assert_int_equal(model->stream.status, BASE_OK);
}

static void send_one(struct model *model, bool broken)
{
    uint8_t payload[1024];
    uint8_t frame[2048];
    if (!model->connected || model->sent == model->next || model->stream.ended) {
        return;
    }
    uint64_t number = model->sent++;
    size_t size = payload_of(model->marks[number], payload, sizeof(payload));
    struct tunnel_rig_device device = {.device = model->id,
                                       .class_id = 2,
                                       .epoch = model->epoch,
                                       .next = number,
                                       .next_seq = number * 3,
                                       .next_hash = model->hashes[number]};
    size = tunnel_rig_batch(&device, payload, size, 1 + (uint32_t)(model->marks[number] % 3), frame,
                            sizeof(frame));
    if (broken) {
        size = (size_t)base_prng_below(&prng, size);
    }
    size_t half = (size_t)base_prng_below(&prng, size + 1);
    tunnel_rig_send(&model->stream, frame, half);
    tunnel_rig_send(&model->stream, frame + half, size - half);
    assert_int_equal(model->stream.status, BASE_OK);
    if (broken) {
        disconnect(model);
    }
}

// The device believes that all below is durable: then it must be, and be its own.
static void believe(struct model *model, uint64_t high_water)
{
    assert_true(high_water <= model->next);
    for (uint64_t i = model->tail; i < high_water; i++) {
        const struct row *row = find_row(model->id, model->epoch, i);
        assert_non_null(row);
        assert_int_equal(row->mark, model->marks[i]);
    }
    model->tail = high_water > model->tail ? high_water : model->tail;
}

static bool on_welcome(struct model *model, const uint8_t *payload, size_t size)
{
    struct wire_tunnel_welcome welcome;
    assert_int_equal(wire_tunnel_welcome_parse(payload, size, &welcome), BASE_OK);
    const struct wire_tunnel_welcome_class *class = &welcome.classes[0];
    model->welcomed = true;
    if (class->high_water < model->tail || class->high_water > model->next ||
        class->hash != model->hashes[class->high_water]) {
        return false;
    }
    believe(model, class->high_water);
    return true;
}

static void read_frames(struct model *model)
{
    enum wire_tunnel_type type;
    const uint8_t *payload;
    size_t size;
    bool good = true;
    while (model->connected && good && tunnel_rig_next(&model->stream, &type, &payload, &size)) {
        struct wire_tunnel_ack ack;
        switch (type) {
        case WIRE_TUNNEL_WELCOME:
            good = on_welcome(model, payload, size);
            break;
        case WIRE_TUNNEL_ACK:
            assert_int_equal(wire_tunnel_ack_parse(payload, size, &ack), BASE_OK);
            assert_int_equal(ack.epoch, model->epoch);
            believe(model, ack.high_water);
            break;
        case WIRE_TUNNEL_FORK:
            good = false;
            break;
        case WIRE_TUNNEL_DRAIN:
        case WIRE_TUNNEL_CREDIT:
            break;
        default:
            fail_msg("frame %d", type);
        }
    }
    if (!good) {
        disconnect(model);
        open_epoch(model);
    } else if (model->connected && model->stream.ended) {
        disconnect(model);
    }
}

static struct model *pick(void)
{
    uint32_t start = (uint32_t)base_prng_below(&prng, MODELS_MAX);
    for (uint32_t i = 0; i < MODELS_MAX; i++) {
        struct model *model = &models[(start + i) % MODELS_MAX];
        if (model->alive) {
            return model;
        }
    }
    return NULL;
}

// A copy of a device as it is now: lives on as a clone, or takes the other's place later.
static void copy(const struct model *from)
{
    for (uint32_t i = 0; i < MODELS_MAX; i++) {
        struct model *model = &models[i];
        if (!model->alive) {
            *model = *from;
            model->connected = false;
            model->welcomed = false;
            return;
        }
    }
}

static void act(uint32_t step)
{
    struct model *model = pick();
    uint64_t dice = base_prng_below(&prng, 1000);
    if (dice < 250) {
        make_batch(model);
    } else if (dice < 550) {
        send_one(model, false);
    } else if (dice < 580) {
        send_one(model, true);
    } else if (dice < 640) {
        connect(model, (uint32_t)base_prng_below(&prng, RIG_WORKERS));
    } else if (dice < 660) {
        disconnect(model);
    } else if (dice < 800) {
        (void)tunnel_rig_land(&rig, 1 + (uint32_t)base_prng_below(&prng, 4), BASE_OK);
    } else if (dice < 810) {
        (void)tunnel_rig_land(&rig, UINT32_MAX, BASE_ERR_IO); // a group fails, all of it
    } else if (dice < 815) {
        copy(model);
    } else if (dice < 818 && step > 100) { // restored: goes back to where another copy is
        struct model *other = pick();
        if (other != model && other->id == model->id) {
            disconnect(model);
            model->alive = false;
        }
    } else {
        read_frames(model);
    }
}

static void check_rows(void)
{
    for (uint32_t i = 0; i < row_count; i++) {
        for (uint32_t k = i + 1; k < row_count; k++) {
            if (rows[i].id == rows[k].id && rows[i].epoch == rows[k].epoch) {
                assert_int_not_equal(rows[i].number, rows[k].number);
            }
        }
        if (rows[i].number > 0) { // in order
            const struct row *before = find_row(rows[i].id, rows[i].epoch, rows[i].number - 1);
            assert_true(before != NULL && before < &rows[i]);
        }
    }
}

// In the end everybody delivers everything.
static void settle_all(void)
{
    for (uint32_t round = 0; round < 2000; round++) {
        bool rest = false;
        for (uint32_t i = 0; i < MODELS_MAX; i++) {
            struct model *model = &models[i];
            if (!model->alive) {
                continue;
            }
            read_frames(model);
            if (model->tail == model->next) {
                disconnect(model);
                continue;
            }
            rest = true;
            if (!model->connected) {
                connect(model, i % RIG_WORKERS);
                read_frames(model);
            }
            while (model->connected && model->welcomed && model->sent < model->next &&
                   !model->stream.ended) {
                send_one(model, false);
            }
            (void)tunnel_rig_land(&rig, UINT32_MAX, BASE_OK);
            read_frames(model);
        }
        if (!rest) {
            return;
        }
    }
    fail_msg("not everything was delivered");
}

static void live(uint64_t seed, uint32_t steps)
{
    base_prng_seed(&prng, seed);
    row_count = 0;
    next_mark = 1;
    forks = 0;
    tunnel_rig_init(&rig);
    tunnel_rig_start(&rig, false);
    rig.sink.keep = keep;
    memset(models, 0, MODELS_MAX * sizeof(*models));
    for (uint32_t i = 0; i < IDS; i++) {
        models[i].alive = true;
        models[i].id = base_mix64(seed + i);
        models[i].epoch = 0x10000u + i;
        models[i].hashes[0] = wire_tunnel_chain_first(models[i].id, 2, models[i].epoch);
    }
    for (uint32_t step = 0; step < steps; step++) {
        act(step);
        if (step % 500 == 0) {
            assert_true(gw_tunnel_validate(rig.tunnel));
        }
    }
    settle_all();
    check_rows();
    assert_true(gw_tunnel_validate(rig.tunnel));
    for (uint32_t i = 0; i < MODELS_MAX; i++) {
        disconnect(&models[i]);
    }
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.violations_total, 0);
    assert_int_equal(stats.memory_bytes, 0);
    tunnel_rig_done(&rig);
}

static void test_lives(void **state)
{
    (void)state;
    const char *more = getenv("WALLE_TUNNEL_LIVES");
    uint64_t lives = 8;
    if (more != NULL && base_str_u64(base_str_of(more), &lives) != BASE_OK) {
        fail_msg("WALLE_TUNNEL_LIVES is a number");
    }
    uint64_t all_forks = 0;
    uint64_t all_rows = 0;
    for (uint64_t i = 0; i < lives; i++) {
        uint64_t seed = 77 + i;
        print_message("seed %llu\n", (unsigned long long)seed);
        live(seed, 3000);
        all_forks += forks;
        all_rows += row_count;
    }
    print_message("%llu rows, %llu forks\n", (unsigned long long)all_rows,
                  (unsigned long long)all_forks);
    assert_true(all_forks > 0);
}

// Marks come back as they were: with the checkpoint, without it, and with a damaged one.
static void test_restart(void **state)
{
    (void)state;
    base_prng_seed(&prng, 5);
    tunnel_rig_init(&rig);
    rig.options.segment_bytes = GW_SEGMENT_BYTES_MIN;
    struct tunnel_rig_device devices[40];
    for (uint32_t i = 0; i < 40; i++) {
        tunnel_rig_device(&devices[i], base_mix64(i), (uint8_t)(i % 4), 7);
    }
    for (uint32_t round = 0; round < 8; round++) {
        tunnel_rig_start(&rig, true);
        for (uint32_t i = 0; i < 40; i++) {
            struct tunnel_rig_stream *stream = &models[0].stream;
            struct wire_tunnel_welcome_class welcome;
            uint8_t frame[8192];
            uint8_t payload[4096];
            tunnel_rig_open(&rig, stream, i % 2, devices[i].device);
            tunnel_rig_greet(stream, &devices[i], &welcome);
            assert_int_equal(welcome.high_water, devices[i].next);
            assert_int_equal(welcome.hash, devices[i].next_hash);
            for (uint64_t n = base_prng_below(&prng, 6); n > 0; n--) {
                size_t size = tunnel_rig_payload(1, 2000, n, payload, sizeof(payload));
                size = tunnel_rig_batch(&devices[i], payload, size, 1, frame, sizeof(frame));
                tunnel_rig_send(stream, frame, size);
            }
            uint64_t high_water = 0;
            uint64_t hash;
            while (devices[i].next > 0 && high_water < devices[i].next) {
                (void)tunnel_rig_pump(&rig, i % 2);
                (void)gw_tunnel_high_water(
                    rig.tunnel, &(struct gw_mark_key){devices[i].device, devices[i].class_id, 7},
                    &high_water, &hash);
            }
            devices[i].tail = devices[i].next;
            devices[i].tail_hash = devices[i].next_hash;
            tunnel_rig_close(stream);
        }
        assert_true(gw_tunnel_validate(rig.tunnel));
        tunnel_rig_stop(&rig);
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/checkpoint", rig.dir);
        if (round % 3 == 1) {
            (void)remove(path);
        } else if (round % 3 == 2) {
            FILE *file = fopen(path, "r+b");
            assert_non_null(file);
            assert_int_equal(fseek(file, 1000, SEEK_SET), 0);
            assert_int_equal(fputc(0x5a, file), 0x5a);
            assert_int_equal(fclose(file), 0);
        }
    }
    tunnel_rig_done(&rig);
}

// What a mark costs, with two classes each.
static void test_mark_bytes(void **state)
{
    (void)state;
    tunnel_rig_init(&rig);
    tunnel_rig_start(&rig, false);
    const uint32_t count = 20000;
    uint8_t frame[2048];
    uint8_t payload[256];
    size_t size = tunnel_rig_payload(1, 20, 1, payload, sizeof(payload));
    for (uint32_t i = 0; i < count; i++) {
        for (uint8_t class_id = 1; class_id < 3; class_id++) {
            struct tunnel_rig_device device;
            struct tunnel_rig_stream *stream = &models[0].stream;
            tunnel_rig_device(&device, base_mix64(i), class_id, 3);
            tunnel_rig_open(&rig, stream, 0, device.device);
            tunnel_rig_send(stream, frame, tunnel_rig_hello(&device, frame));
            tunnel_rig_send(stream, frame,
                            tunnel_rig_batch(&device, payload, size, 1, frame, sizeof(frame)));
            (void)tunnel_rig_land(&rig, 1, BASE_OK);
            tunnel_rig_close(stream);
        }
    }
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.marks, 2 * count);
    double each = (double)stats.mark_bytes / (double)stats.marks;
    print_message("%.1f bytes a device and class, tables and free slots included\n", each);
    assert_true(each < 52); // 24 of mark, 8 of key, at least 68 % full; the shards themselves
    assert_true(gw_tunnel_validate(rig.tunnel));
    tunnel_rig_done(&rig);
}

int main(void)
{
    models = calloc(MODELS_MAX, sizeof(*models));
    rows = calloc(ROWS_MAX, sizeof(*rows));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_mark_bytes),
    };
    int failed = models != NULL && rows != NULL ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    free(models);
    free(rows);
    return failed;
}
