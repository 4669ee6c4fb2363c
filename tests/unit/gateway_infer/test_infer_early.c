// Calls that are refused by the beginning of their body: what is looked at, from which byte on it
// decides, and whose call goes on. The model's queue is full while one that never ends holds the
// only thread, so nothing here depends on a time.
#include "core_rig.h"
#include "infer_ask.h"

#include "infer/codec/pb_out.h"
#include "infer/infer_exchange.h"
#include "infer/rest/infer_http.h"

#define METHOD "/inference.GRPCInferenceService/ModelInfer"
#define TENSOR 4096 // bytes behind what decides

struct full {
    struct world world;
    struct rig rig;
    struct base_arena arena;
    struct ask *gate;
    struct ask *waits;
};

static void begin_full(struct full *full, const char *conf)
{
    memset(full, 0, sizeof(*full));
    begin(&full->world);
    add_endless(&full->world.kit, "gate");
    infer_kit_add(&full->world.kit, "m", "1", NULL);
    infer_kit_text(&full->world.kit, "m/model.conf", conf);
    infer_kit_add(&full->world.kit, "idle", "1", NULL);
    start(&full->world, 1);
    base_arena_init(&full->arena, base_alloc_heap(), 0, 0);
    rig_init(&full->rig);
    rig_start(&full->rig);
    gw_infer_install(full->rig.core, full->world.service, GW_METRICS_OPEN);
    full->gate = ask_new(&full->world, "gate", 1);
    gw_infer_submit(full->world.service, &full->gate->ticket);
    wait_until_runs(&full->world, "gate");
    full->waits = ask_new(&full->world, "m", 1);
    gw_infer_submit(full->world.service, &full->waits->ticket);
}

static void end_full(struct full *full)
{
    rig_done(&full->rig);
    gw_infer_service_free(full->world.service);
    full->world.service = NULL;
    ask_free(full->gate);
    ask_free(full->waits);
    base_arena_done(&full->arena);
    end(&full->world);
}

// The head of a call, as the transport asks about it. It wants to look at the body.
static void open_call(struct full *full, struct rig_exchange *exchange, const char *path)
{
    struct gw_head head = {0};
    rig_exchange_init(exchange, GW_METHOD_POST, path);
    if (path[1] == 'i') {
        exchange->exchange.request.content_type = BASE_STR("application/grpc");
    }
    assert_true(gw_core_head(full->rig.worker.worker, &exchange->exchange, &head));
    assert_true(head.looks);
}

static size_t wanted; // by the last look

static enum gw_early look(struct full *full, struct rig_exchange *exchange, const char *bytes,
                          size_t size)
{
    wanted = 0;
    return gw_core_early(full->rig.worker.worker, &exchange->exchange,
                         (struct base_str){bytes, size}, &wanted);
}

// ---- HTTP

// What becomes of a call with this JSON and binary tensors behind it. Before all of the JSON is
// there nothing is decided.
static enum gw_early ask_http(struct full *full, const char *model, const char *json)
{
    struct rig_exchange exchange;
    char path[64];
    char length[24];
    size_t size = strlen(json);
    char *body = base_arena_zalloc(&full->arena, size + TENSOR);
    memcpy(body, json, size);
    snprintf(path, sizeof(path), "/v2/models/%s/infer", model);
    int digits = snprintf(length, sizeof(length), "%zu", size);
    open_call(full, &exchange, path);
    exchange.exchange.request.infer_json = (struct base_str){length, (size_t)digits};
    enum gw_early early = look(full, &exchange, body, size + TENSOR);
    for (size_t cut = 0; cut < size && early == GW_EARLY_REFUSED; cut++) {
        assert_int_equal(look(full, &exchange, body, cut), GW_EARLY_MORE);
        assert_int_equal(wanted, size);
    }
    if (early == GW_EARLY_REFUSED) {
        assert_int_equal(exchange.exchange.reply.status, 429);
        assert_true(rig_header(&exchange, "retry-after").size > 0);
    }
    rig_exchange_done(&exchange);
    return early;
}

static void test_http(void **state)
{
    static const struct {
        const char *model;
        const char *json;
        enum gw_early early;
    } cases[] = {
        {"m", "{\"inputs\":[]}", GW_EARLY_REFUSED},
        {"m", "{\"parameters\":{\"priority\":1},\"inputs\":[{\"x\":[1,{}]}]}", GW_EARLY_REFUSED},
        {"m", "{\"inputs\":[{}],\"parameters\":{\"a\":2,\"priority\":3}}", GW_EARLY_REFUSED},
        {"m", "{\"inputs\":[{}],\"parameters\":{\"priority\":0}}", GW_EARLY_GO_ON},
        {"m", "{\"parameters\":{\"priority\":4}}", GW_EARLY_GO_ON}, // whoever reads it all refuses
        {"m", "{\"inputs\":[}", GW_EARLY_GO_ON},
        {"m", "{} {}", GW_EARLY_GO_ON},
        {"idle", "{\"inputs\":[]}", GW_EARLY_GO_ON},
        {"none", "{\"inputs\":[]}", GW_EARLY_GO_ON},
    };
    struct full full;
    uint64_t refused = 0;
    (void)state;
    begin_full(&full, "queue = 1");
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        if (ask_http(&full, cases[i].model, cases[i].json) != cases[i].early) {
            fail_msg("%s: not %d", cases[i].json, (int)cases[i].early);
        }
        refused += cases[i].early == GW_EARLY_REFUSED;
        assert_int_equal(figures_of(&full.world, "m").refused, refused);
    }
    assert_int_equal(figures_of(&full.world, "m").waiting, 1); // nothing was kept
    assert_int_equal(place_of(full.waits), 0);
    end_full(&full);
}

// All of a body that is JSON alone is read: what it says may come last. So is JSON that would take
// long to read. Other paths are not looked at.
static void test_what_is_not_looked_at(void **state)
{
    static const char *const paths[] = {"/v2/models/m/infer", "/v2/models/m/infer",
                                        "/v2/repository/index", METHOD};
    static const char *const lengths[] = {"", "65537", "13", ""};
    struct full full;
    (void)state;
    begin_full(&full, "queue = 1");
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        struct rig_exchange exchange;
        open_call(&full, &exchange, paths[i]);
        exchange.exchange.request.infer_json = base_str_of(lengths[i]);
        if (i == 3) {
            exchange.exchange.request.content_type = BASE_STR("text/plain");
        }
        assert_int_equal(look(&full, &exchange, "{\"inputs\":[]}", 13), GW_EARLY_GO_ON);
        rig_exchange_done(&exchange);
    }
    assert_int_equal(figures_of(&full.world, "m").refused, 0);
    end_full(&full);
}

// ---- gRPC

static void put_number(struct gw_pb_out *out, const char *name, uint64_t value)
{
    size_t entry = gw_pb_begin(out, 4);
    gw_pb_text(out, 1, base_str_of(name));
    uint8_t parameter[11] = {0x10}; // int64_param, which is said even where it is 0
    size_t size = 1;
    for (; value > 0x7f; value >>= 7) {
        parameter[size++] = (uint8_t)(value | 0x80);
    }
    parameter[size++] = (uint8_t)value;
    memcpy(gw_pb_bytes(out, 2, size), parameter, size);
    gw_pb_end(out, entry);
}

// A call of "m", and how many of its bytes decide.
static struct base_str grpc_frame(struct full *full, const char *name, uint64_t value,
                                  size_t *out_decides)
{
    struct gw_pb_out out;
    struct base_str frame;
    for (int whole = 0; whole < 2; whole++) {
        gw_pb_out_init(&out, &full->arena, 0);
        gw_pb_text(&out, 1, BASE_STR("m"));
        if (name != NULL) {
            put_number(&out, name, value);
        }
        if (whole == 1) {
            memset(gw_pb_bytes(&out, 5, TENSOR), 0xff, TENSOR);
        }
        assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
        *out_decides = whole == 0 ? frame.size + 1 : *out_decides;
    }
    return frame;
}

static enum gw_early ask_grpc(struct full *full, const char *name, uint64_t value,
                              const char *timeout)
{
    struct rig_exchange exchange;
    size_t decides = 0;
    struct base_str frame = grpc_frame(full, name, value, &decides);
    open_call(full, &exchange, METHOD);
    exchange.exchange.request.grpc_timeout = base_str_of(timeout);
    for (size_t cut = 0; cut < decides; cut++) {
        assert_int_equal(look(full, &exchange, frame.data, cut), GW_EARLY_MORE);
        assert_int_equal(wanted, 2 * cut);
    }
    enum gw_early early = look(full, &exchange, frame.data, decides);
    if (early == GW_EARLY_REFUSED) {
        assert_true(base_str_equal(rig_header(&exchange, "grpc-status"), BASE_STR("8")));
        assert_true(rig_header(&exchange, "grpc-retry-pushback-ms").size > 0);
    }
    rig_exchange_done(&exchange);
    return early;
}

static void test_grpc(void **state)
{
    struct full full;
    (void)state;
    begin_full(&full, "queue = 1");
    assert_int_equal(ask_grpc(&full, NULL, 0, ""), GW_EARLY_REFUSED);
    assert_int_equal(ask_grpc(&full, "priority", 1, ""), GW_EARLY_REFUSED);
    assert_int_equal(ask_grpc(&full, "priority", 0, ""), GW_EARLY_GO_ON);
    assert_int_equal(figures_of(&full.world, "m").refused, 2);
    end_full(&full);
}

// With room in the queue, a call is refused that would wait longer than it may.
static void test_timeouts(void **state)
{
    struct full full;
    (void)state;
    begin_full(&full, "queue = 9");
    pthread_mutex_lock(&full.world.service->lock);
    gw_infer_find(full.world.service, BASE_STR("m"), BASE_STR(""), NULL)->batch_us = 1000000;
    pthread_mutex_unlock(&full.world.service->lock);
    assert_int_equal(ask_http(&full, "m", "{\"parameters\":{\"timeout\":1999999}}"),
                     GW_EARLY_REFUSED);
    assert_int_equal(ask_http(&full, "m", "{\"parameters\":{\"timeout\":2000000}}"),
                     GW_EARLY_GO_ON);
    assert_int_equal(ask_http(&full, "m", "{}"), GW_EARLY_GO_ON);
    assert_int_equal(ask_grpc(&full, "timeout", 1999999, ""), GW_EARLY_REFUSED);
    assert_int_equal(ask_grpc(&full, "timeout", 2000000, "1999999u"), GW_EARLY_REFUSED);
    assert_int_equal(ask_grpc(&full, "timeout", 1999999, "9S"), GW_EARLY_REFUSED);
    assert_int_equal(ask_grpc(&full, "timeout", 2000000, "9S"), GW_EARLY_GO_ON);
    end_full(&full);
}

// ---- Where bodies are read

// Tensors in binary weigh little: such a call is in the queue at once, with its priority.
static void test_binary_tensors_are_light(void **state)
{
    static const size_t tensors[] = {GW_INFER_READ_HERE_MAX, 12 * GW_INFER_READ_HERE_MAX,
                                     16 * GW_INFER_READ_HERE_MAX};
    struct full full;
    (void)state;
    begin_full(&full, "queue = 9");
    for (uint32_t i = 0; i < TEST_COUNT(tensors); i++) {
        struct rig_exchange exchange;
        char json[256];
        char length[24];
        size_t bytes = tensors[i] / 12 * 12;
        int size = snprintf(json, sizeof(json),
                            "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[%zu,3],"
                            "\"parameters\":{\"binary_data_size\":%zu}}]}",
                            bytes / 12, bytes);
        char *body = base_arena_zalloc(&full.arena, (size_t)size + bytes);
        memcpy(body, json, (size_t)size);
        rig_exchange_init(&exchange, GW_METHOD_POST, "/v2/models/m/infer");
        int digits = snprintf(length, sizeof(length), "%d", size);
        exchange.exchange.request.infer_json = (struct base_str){length, (size_t)digits};
        exchange.exchange.request.body = (const uint8_t *)body;
        exchange.exchange.request.body_bytes = (size_t)size + bytes;
        gw_core_handle(full.rig.worker.worker, &exchange.exchange);
        bool light = i < 2;
        assert_int_equal(figures_of(&full.world, "m").waiting, 2 + (light ? 0 : -1));
        assert_int_equal(full.world.service->unread.count, light ? 0 : 1);
        exchange.exchange.gone(&exchange.exchange);
        while (!exchange.finished) {
            (void)rig_pump(&full.rig);
        }
        rig_exchange_done(&exchange);
    }
    end_full(&full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http),
        cmocka_unit_test(test_what_is_not_looked_at),
        cmocka_unit_test(test_grpc),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_binary_tensors_are_light),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
