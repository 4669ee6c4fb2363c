// 100,000 hostile calls of models in one process, in JSON, with binary tensors, over gRPC and over
// one stream of it: cut, damaged, lying about their sizes. Each is answered or refused with a
// reason, and as much memory is in use behind them as after the first ten thousand.
#include "failing_heap.h"
#include "infer_kit.h"
#include "open_rig.h"

#include "infer/codec/pb_out.h"

#include <unistd.h>

#define CALLS        100000u
#define CALLS_FIRST  10000u // what is kept for later, such as plans, is there then
#define GROWTH_MAX   80l    // allocations: one of a thousand calls that left one would show
#define BODY_MAX     8192u
#define DAMAGES_MAX  4u
#define SERVICE_PATH "/inference.GRPCInferenceService/ModelInfer"
#define JSON                                                                                       \
    "{\"id\":\"a\",\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,3],"             \
    "\"data\":[1,2,3]}],\"parameters\":{\"priority\":2}}"
#define BINARY_JSON                                                                                \
    "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,3],"                          \
    "\"parameters\":{\"binary_data_size\":12}}]}"

enum how { AS_JSON, AS_BINARY, AS_GRPC, AS_STREAM, HOW_COUNT };

struct world {
    struct rig rig;
    struct infer_kit kit;
    struct gw_infer_service *service;
    struct base_prng prng;
    struct base_arena arena;
    struct base_str good[HOW_COUNT];
    uint32_t answered;
    uint32_t refused;
};

static struct base_str good_message(struct world *world)
{
    static const float x[3] = {1, 2, 3};
    const int64_t shape[2] = {1, 3};
    struct gw_pb_out out;
    struct base_str frame;
    gw_pb_out_init(&out, &world->arena, 0);
    gw_pb_text(&out, 1, BASE_STR("m"));
    gw_pb_text(&out, 3, BASE_STR("a"));
    size_t mark = gw_pb_begin(&out, 5);
    gw_pb_text(&out, 1, BASE_STR("x"));
    gw_pb_text(&out, 2, BASE_STR("FP32"));
    gw_pb_packed(&out, 3, shape, 2);
    gw_pb_end(&out, mark);
    memcpy(gw_pb_bytes(&out, 7, sizeof(x)), x, sizeof(x));
    assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
    return frame;
}

static void begin(struct world *world)
{
    struct base_error error = {0};
    memset(world, 0, sizeof(*world));
    test_seed(&world->prng);
    infer_kit_begin(&world->kit);
    infer_kit_add(&world->kit, "m", "1", NULL);
    const struct gw_infer_options options = {.models_dir = world->kit.dir, .threads = 1};
    assert_int_equal(gw_infer_service_new(&options, &world->service, &error), BASE_OK);
    base_arena_init(&world->arena, base_alloc_heap(), 0, 0);
    rig_init(&world->rig);
    rig_start(&world->rig);
    gw_infer_install(world->rig.core, world->service, GW_METRICS_OPEN);
    world->good[AS_JSON] = BASE_STR(JSON);
    world->good[AS_BINARY] = BASE_STR(BINARY_JSON "\0\0\x80?\0\0\0@\0\0@@");
    world->good[AS_GRPC] = world->good[AS_STREAM] = good_message(world);
}

static void end(struct world *world)
{
    rig_done(&world->rig);
    gw_infer_service_free(world->service);
    base_arena_done(&world->arena);
    infer_kit_end(&world->kit);
}

static uint32_t below(struct world *world, size_t bound)
{
    return (uint32_t)base_prng_below(&world->prng, bound);
}

// Puts `count` bytes, each of them `byte` or (-1) any, at `at`.
static size_t insert(struct world *world, uint8_t *body, size_t size, size_t count, int byte)
{
    size_t at = below(world, size + 1);
    count = count < BODY_MAX - size ? count : BODY_MAX - size;
    memmove(body + at + count, body + at, size - at);
    for (size_t i = 0; i < count; i++) {
        body[at + i] = (uint8_t)(byte >= 0 ? (uint32_t)byte : below(world, 256));
    }
    return size + count;
}

static size_t damage(struct world *world, uint8_t *body, size_t size)
{
    static const int bombs[] = {'[', '9', '{', 0xff, 0x80, ' '};
    for (uint32_t left = 1 + below(world, DAMAGES_MAX); left > 0; left--) {
        size_t at = below(world, size + 1);
        size_t cut = 1 + below(world, 20);
        switch (below(world, 5)) {
        case 0:
            size = at;
            break;
        case 1:
            size = insert(world, body, size, 1 + below(world, 9), -1);
            break;
        case 2:
            size = insert(world, body, size, 2000, bombs[below(world, TEST_COUNT(bombs))]);
            break;
        case 3:
            cut = cut < size - at ? cut : size - at;
            memmove(body + at, body + at + cut, size - at - cut);
            size -= cut;
            break;
        default:
            if (at < size) {
                body[at] ^= (uint8_t)(1u << below(world, 8));
            }
        }
    }
    return size;
}

static void count(struct world *world, bool answered)
{
    world->answered += answered;
    world->refused += !answered;
}

static void call(struct world *world, enum how how, const uint8_t *body, size_t size)
{
    struct rig_exchange exchange;
    struct gw_request *request = &exchange.exchange.request;
    const struct gw_reply *reply = &exchange.exchange.reply;
    rig_exchange_init(&exchange, GW_METHOD_POST,
                      how == AS_GRPC ? SERVICE_PATH : "/v2/models/m/infer");
    request->content_type = how == AS_GRPC ? BASE_STR("application/grpc") : BASE_STR("");
    if (how == AS_BINARY) {
        static const char *const sizes[] = {"76", "0", "88", "9223372036854775808", "-1"};
        request->infer_json = base_str_of(sizes[below(world, 2) == 0 ? 0 : below(world, 5)]);
    }
    request->body = body;
    request->body_bytes = size;
    rig_run(&world->rig, &exchange);
    if (how == AS_GRPC) {
        struct base_str status = rig_header(&exchange, "grpc-status");
        assert_int_equal(reply->status, 200);
        assert_true(status.size == 0 || rig_header(&exchange, "grpc-message").size > 0);
        count(world, status.size == 0);
    } else {
        assert_true(reply->status == 200 || (reply->status >= 400 && reply->status < 500));
        assert_true(reply->body_bytes > 0); // a result or {"error"}
        count(world, reply->status == 200);
    }
    rig_exchange_done(&exchange);
}

static void stream(struct world *world, const uint8_t *body, size_t size)
{
    struct open_rig open;
    assert_true(open_rig_start(&open, &world->rig, ""));
    for (size_t at = 0; at < size && !open.exchange.finished;) {
        at += open_rig_write(&open, body + at, size - at);
    }
    if (below(world, 8) == 0) {
        open_rig_leave(&open, &world->rig);
        count(world, false);
    } else {
        if (!open.exchange.finished) {
            open.calls->input_ended(&open.exchange.exchange);
        }
        open_rig_drain(&open, &world->rig);
        count(world, base_str_equal(open_rig_status(&open), BASE_STR("0")));
    }
    open_rig_done(&open);
}

static void test_memory_stays_where_it_was(void **state)
{
    struct world world;
    uint8_t body[BODY_MAX];
    long before = 0;
    (void)state;
    begin(&world);
    for (uint32_t i = 0; i < CALLS; i++) {
        if (i == CALLS_FIRST) {
            before = failing_heap_live();
        }
        enum how how = (enum how)below(&world, HOW_COUNT);
        memcpy(body, world.good[how].data, world.good[how].size);
        size_t size = damage(&world, body, world.good[how].size);
        if (how == AS_STREAM) {
            stream(&world, body, size);
        } else {
            call(&world, how, body, size);
        }
    }
    long grown = failing_heap_live() - before;
    print_message("%u answered, %u refused, %ld allocations more than after %u\n", world.answered,
                  world.refused, grown, CALLS_FIRST);
    assert_true(world.refused > CALLS / 2);
    assert_true(world.answered > CALLS / 100);
    assert_true(grown <= GROWTH_MAX);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_stays_where_it_was)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
