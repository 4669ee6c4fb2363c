// Calls of devices through the gateway's core, without sockets, with a model that runs: answers,
// repeats, compressed bodies, quotas, and what each refusal says.
#include "core_rig.h"
#include "infer_kit.h"
#include "open_rig.h"

#include "base/alloc.h"
#include "infer/codec/pb_out.h"
#include "infer/device/device_call.h"
#include "infer/infer_private.h"
#include "infer/rest/infer_http.h"
#include "policy/bucket.h"
#include "wire/cloud/tensor_call.h"

#include <zstd.h>

#define KEY       "0123456789abcdef0123456789abcdef"
#define OTHER_KEY "ffffffffffffffffffffffffffffffff"
#define DEVICE    "0000000000000005"
#define ROWS_MAX  6000u // an answer of so many is not kept

struct world {
    struct rig rig;
    struct infer_kit kit;
    struct gw_infer_service *service;
    uint8_t body[WIRE_TENSOR_CALL_MAX + 1];
    size_t body_size;
    const char *type; // of the body
};

static void begin_with(struct world *world, uint64_t calls_per_min, uint64_t of_tenant)
{
    struct base_error error = {0};
    memset(world, 0, sizeof(*world));
    infer_kit_begin(&world->kit);
    infer_kit_add(&world->kit, "m", "7", NULL);
    const struct gw_infer_options options = {.models_dir = world->kit.dir,
                                             .threads = 1,
                                             .device_calls_per_min = calls_per_min,
                                             .quota = {.calls_per_minute = of_tenant}};
    assert_int_equal(gw_infer_service_new(&options, &world->service, &error), BASE_OK);
    rig_init(&world->rig);
    rig_start(&world->rig);
    gw_infer_install(world->rig.core, world->service, GW_METRICS_OPEN);
}

static void begin(struct world *world, uint64_t calls_per_min)
{
    begin_with(world, calls_per_min, 0);
}

static void end(struct world *world)
{
    rig_done(&world->rig);
    gw_infer_service_free(world->service);
    infer_kit_end(&world->kit);
}

// Rows (1, 2, 3) for "m", of which it makes (2, 0, 6).
static void body_make(struct world *world, const char *input, uint32_t rows)
{
    static float x[ROWS_MAX * 3];
    struct wire_tensor_call call = {.priority = 1, .deadline_ms = 60000, .count = 1};
    struct base_writer writer;
    for (uint32_t i = 0; i < rows * 3; i++) {
        x[i] = (float)(i % 3 + 1);
    }
    call.tensors[0] = (struct wire_tensor){.name = base_str_of(input),
                                           .dtype = 1,
                                           .rank = 2,
                                           .dims = {rows, 3},
                                           .data = (const uint8_t *)x,
                                           .bytes = rows * 3 * sizeof(float)};
    base_writer_init(&writer, world->body, sizeof(world->body));
    wire_tensor_call_write(&writer, &call);
    assert_int_equal(writer.status, BASE_OK);
    world->body_size = base_writer_size(&writer);
}

static void begin_asking(struct world *world, struct rig_exchange *exchange, const char *path,
                         const char *key, const char *device)
{
    struct gw_request *request = &exchange->exchange.request;
    rig_exchange_init(exchange, GW_METHOD_POST, path);
    request->body = world->body;
    request->body_bytes = world->body_size;
    request->content_type = base_str_of(world->type);
    request->device = base_str_of(device);
    request->idempotency_key = base_str_of(key);
    gw_core_handle(world->rig.worker.worker, &exchange->exchange);
}

static void wait_for(struct world *world, const struct rig_exchange *exchange)
{
    while (!exchange->finished) {
        (void)rig_pump(&world->rig);
        usleep(20);
    }
}

static void ask_as(struct world *world, struct rig_exchange *exchange, const char *path,
                   const char *key, const char *device)
{
    begin_asking(world, exchange, path, key, device);
    wait_for(world, exchange);
}

static void ask(struct world *world, struct rig_exchange *exchange, const char *path,
                const char *key, const char *type)
{
    world->type = type;
    ask_as(world, exchange, path, key, DEVICE);
}

static void refused(struct world *world, const char *path, const char *type, int status,
                    const char *reason)
{
    struct rig_exchange exchange;
    ask(world, &exchange, path, "", type);
    assert_int_equal(exchange.exchange.reply.status, status);
    assert_true(base_str_equal(rig_header(&exchange, WIRE_CLOUD_REASON), base_str_of(reason)));
    assert_true(exchange.exchange.reply.body_bytes > 0);
    rig_exchange_done(&exchange);
}

static void answered(struct rig_exchange *exchange, uint32_t rows)
{
    static const float want[3] = {2, 0, 6};
    const struct gw_reply *reply = &exchange->exchange.reply;
    struct wire_tensor_answer answer;
    assert_int_equal(reply->status, 200);
    assert_true(base_str_equal(rig_header(exchange, "content-type"), BASE_STR(WIRE_TENSOR_TYPE)));
    assert_int_equal(wire_tensor_answer_parse(reply->body, reply->body_bytes, &answer), BASE_OK);
    assert_true(base_str_equal(answer.version, BASE_STR("7")));
    assert_int_equal(answer.count, 1);
    assert_true(base_str_equal(answer.tensors[0].name, BASE_STR("y")));
    assert_int_equal(answer.tensors[0].rank, 2);
    assert_int_equal(answer.tensors[0].dims[0], rows);
    assert_int_equal(answer.tensors[0].bytes, rows * sizeof(want));
    for (uint32_t i = 0; i < rows; i++) {
        assert_memory_equal(answer.tensors[0].data + i * sizeof(want), want, sizeof(want));
    }
    rig_exchange_done(exchange);
}

static uint64_t runs_of_model(struct world *world)
{
    struct base_arena arena;
    struct gw_infer_row *rows = NULL;
    size_t count = 0;
    const struct gw_infer_call named = {.model = BASE_STR("m")};
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_infer_rows(world->service, &named, &arena, &rows, &count), BASE_OK);
    uint64_t runs = rows[0].figures.calls;
    base_arena_done(&arena);
    return runs;
}

static struct gw_device_figures figures(struct world *world)
{
    struct gw_device_figures out;
    gw_device_ledger_figures(gw_infer_ledger(world->service), &out);
    return out;
}

#define PATH "/v2/models/m/infer"

static void test_answers_and_repeats(void **state)
{
    (void)state;
    static struct world world;
    struct rig_exchange exchange;
    begin(&world, 0);
    body_make(&world, "x", 1);
    ask(&world, &exchange, PATH, KEY, WIRE_TENSOR_TYPE);
    answered(&exchange, 1);
    assert_int_equal(runs_of_model(&world), 1);
    ask(&world, &exchange, PATH, KEY, WIRE_TENSOR_TYPE);
    answered(&exchange, 1);
    assert_int_equal(runs_of_model(&world), 1); // from what was kept
    ask(&world, &exchange, PATH, OTHER_KEY, WIRE_TENSOR_TYPE);
    answered(&exchange, 1);
    assert_int_equal(runs_of_model(&world), 2);
    assert_int_equal(figures(&world).let[GW_DEVICE_CHARGED], 2);
    assert_int_equal(figures(&world).let[GW_DEVICE_KEPT], 1);
    ask(&world, &exchange, "/v2/models/m/versions/7/infer", "", WIRE_TENSOR_TYPE);
    answered(&exchange, 1);
    end(&world);
}

static void test_compressed(void **state)
{
    (void)state;
    static struct world world;
    struct rig_exchange exchange;
    uint8_t packed[4096];
    begin(&world, 0);
    body_make(&world, "x", 64);
    size_t size = ZSTD_compress(packed, sizeof(packed), world.body, world.body_size, 1);
    assert_false(ZSTD_isError(size));
    assert_true(size < world.body_size / 2);
    memcpy(world.body, packed, size);
    world.body_size = size;
    ask(&world, &exchange, PATH, "", WIRE_TENSOR_TYPE_PACKED);
    answered(&exchange, 64);
    // Cut, and of more bytes than a call may have.
    world.body_size = size - 1;
    refused(&world, PATH, WIRE_TENSOR_TYPE_PACKED, 400, "refused");
    uint8_t *zeros = calloc(1, WIRE_TENSOR_CALL_MAX + 1);
    world.body_size =
        ZSTD_compress(world.body, sizeof(world.body), zeros, WIRE_TENSOR_CALL_MAX + 1, 1);
    free(zeros);
    assert_false(ZSTD_isError(world.body_size));
    refused(&world, PATH, WIRE_TENSOR_TYPE_PACKED, 400, "refused");
    end(&world);
}

static void test_refusals(void **state)
{
    (void)state;
    static struct world world;
    begin(&world, 1);
    // One call a minute, and none of these is one.
    body_make(&world, "x", 1);
    refused(&world, "/v2/models/none/infer", WIRE_TENSOR_TYPE, 404, "no_model");
    refused(&world, "/v2/models/m/versions/8/infer", WIRE_TENSOR_TYPE, 404, "no_model");
    assert_int_equal(figures(&world).given_back, 2);
    struct rig_exchange exchange;
    ask(&world, &exchange, PATH, KEY, WIRE_TENSOR_TYPE);
    answered(&exchange, 1);
    ask(&world, &exchange, PATH, OTHER_KEY, WIRE_TENSOR_TYPE);
    assert_int_equal(exchange.exchange.reply.status, 429);
    assert_true(base_str_equal(rig_header(&exchange, WIRE_CLOUD_REASON), BASE_STR("quota")));
    assert_true(base_str_equal(rig_header(&exchange, "retry-after"), BASE_STR("60")));
    rig_exchange_done(&exchange);
    assert_int_equal(runs_of_model(&world), 1);
    end(&world);
    begin(&world, 0);
    body_make(&world, "z", 1);
    refused(&world, PATH, WIRE_TENSOR_TYPE, 400, "refused");
    world.body_size = 3;
    refused(&world, PATH, WIRE_TENSOR_TYPE, 400, "refused");
    // What the model cannot read is charged: it was looked at.
    assert_int_equal(figures(&world).given_back, 0);
    end(&world);
}

// Without a device's id nobody is charged, and nothing runs.
static void test_nobody(void **state)
{
    (void)state;
    static struct world world;
    struct rig_exchange exchange;
    begin(&world, 0);
    body_make(&world, "x", 1);
    rig_exchange_init(&exchange, GW_METHOD_POST, PATH);
    exchange.exchange.request.body = world.body;
    exchange.exchange.request.body_bytes = world.body_size;
    exchange.exchange.request.content_type = BASE_STR(WIRE_TENSOR_TYPE);
    gw_core_handle(world.rig.worker.worker, &exchange.exchange);
    assert_true(exchange.finished);
    assert_int_equal(exchange.exchange.reply.status, 400);
    assert_true(base_str_equal(rig_header(&exchange, WIRE_CLOUD_REASON), BASE_STR("not_allowed")));
    rig_exchange_done(&exchange);
    assert_int_equal(runs_of_model(&world), 0);
    end(&world);
}

static int status_of(struct world *world, const char *path, const char *key, const char *device)
{
    struct rig_exchange exchange;
    world->type = WIRE_TENSOR_TYPE;
    ask_as(world, &exchange, path, key, device);
    int status = exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    return status;
}

// An answer that is too large to keep is made as often as the quota and the key's repeats say.
static void test_one_key_many_runs(void **state)
{
    (void)state;
    static struct world world;
    uint32_t ran = 0;
    begin(&world, 3);
    body_make(&world, "x", ROWS_MAX);
    for (int i = 0; i < 20; i++) {
        int status = status_of(&world, PATH, KEY, DEVICE);
        assert_true(status == 200 || status == 429);
        ran += status == 200;
    }
    assert_int_equal(ran, 3 + GW_DEVICE_REPEATS_MAX);
    assert_int_equal(runs_of_model(&world), ran);
    end(&world);
}

// A key that was of a call is of no other one: of another model, version or body.
static void test_one_key_other_calls(void **state)
{
    (void)state;
    static struct world world;
    begin(&world, 2);
    body_make(&world, "x", 1);
    assert_int_equal(status_of(&world, PATH, KEY, DEVICE), 200);
    assert_int_equal(status_of(&world, "/v2/models/none/infer", KEY, DEVICE), 422);
    assert_int_equal(status_of(&world, "/v2/models/m/versions/7/infer", KEY, DEVICE), 422);
    body_make(&world, "x", 2);
    assert_int_equal(status_of(&world, PATH, KEY, DEVICE), 422);
    assert_int_equal(figures(&world).let[GW_DEVICE_OTHER], 3);
    assert_int_equal(runs_of_model(&world), 1);
    // None of them gave back what they were not charged, nor were they charged.
    assert_int_equal(figures(&world).given_back, 0);
    assert_int_equal(status_of(&world, PATH, OTHER_KEY, DEVICE), 200);
    assert_int_equal(status_of(&world, PATH, "", DEVICE), 429);
    end(&world);
}

// A repeat that comes before the call's end runs nothing and costs nothing.
static void test_a_repeat_that_comes_early(void **state)
{
    (void)state;
    static struct world world;
    struct rig_exchange first;
    struct rig_exchange repeat;
    begin(&world, 2);
    body_make(&world, "x", ROWS_MAX); // read by a thread, so it ends when the rig is pumped
    world.type = WIRE_TENSOR_TYPE;
    begin_asking(&world, &first, PATH, KEY, DEVICE);
    begin_asking(&world, &repeat, PATH, KEY, DEVICE);
    assert_false(first.finished);
    assert_true(repeat.finished);
    assert_int_equal(repeat.exchange.reply.status, 409);
    assert_true(base_str_equal(rig_header(&repeat, WIRE_CLOUD_REASON), BASE_STR("busy")));
    rig_exchange_done(&repeat);
    wait_for(&world, &first);
    assert_int_equal(first.exchange.reply.status, 200);
    rig_exchange_done(&first);
    assert_int_equal(runs_of_model(&world), 1);
    assert_int_equal(status_of(&world, PATH, OTHER_KEY, DEVICE), 200);
    assert_int_equal(status_of(&world, PATH, "", DEVICE), 429);
    end(&world);
}

// A model that goes between a call and its repeat: the repeat was not charged, and gives nothing
// back.
static void test_a_repeat_that_does_not_run(void **state)
{
    (void)state;
    static struct world world;
    struct base_error error = {0};
    begin(&world, 1);
    body_make(&world, "x", ROWS_MAX);
    assert_int_equal(status_of(&world, PATH, KEY, DEVICE), 200);
    assert_int_equal(gw_infer_unload(world.service, BASE_STR("m"), &error), BASE_OK);
    assert_int_equal(status_of(&world, PATH, KEY, DEVICE), 503);
    assert_int_equal(figures(&world).given_back, 0);
    assert_int_equal(status_of(&world, PATH, OTHER_KEY, DEVICE), 429);
    end(&world);
}

// Who shows no credential pays as a tenant does, whatever it calls itself.
static void test_many_names(void **state)
{
    (void)state;
    static struct world world;
    struct rig_exchange exchange;
    char name[17];
    begin_with(&world, 2, 3);
    body_make(&world, "x", 1);
    world.type = WIRE_TENSOR_TYPE;
    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof(name), "%016x", i + 1);
        ask_as(&world, &exchange, PATH, "", name);
        assert_int_equal(exchange.exchange.reply.status, i < 3 ? 200 : 429);
        if (i >= 3) {
            assert_true(
                base_str_equal(rig_header(&exchange, WIRE_CLOUD_REASON), BASE_STR("quota")));
            assert_true(rig_header(&exchange, "retry-after").size > 0);
        }
        rig_exchange_done(&exchange);
    }
    assert_int_equal(runs_of_model(&world), 3);
    end(&world);
}

// ---- A device that shows itself and calls as other callers do

#define SERVICE "/inference.GRPCInferenceService/"

static void show_itself(struct gw_request *request, uint64_t device)
{
    request->has_certificate = true;
    request->certificate_device = device;
}

static void json_make(struct world *world)
{
    static const char json[] = "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\","
                               "\"shape\":[1,3],\"data\":[1,2,3]}]}";
    world->body_size = sizeof(json) - 1;
    memcpy(world->body, json, world->body_size);
}

// A framed ModelInferRequest of one row.
static void frame_make(struct world *world, const char *model)
{
    static const int64_t shape[2] = {1, 3};
    static const float x[3] = {1, 2, 3};
    struct base_arena arena;
    struct gw_pb_out out;
    struct base_str frame;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    gw_pb_out_init(&out, &arena, 0);
    gw_pb_text(&out, 1, base_str_of(model));
    size_t mark = gw_pb_begin(&out, 5);
    gw_pb_text(&out, 1, BASE_STR("x"));
    gw_pb_text(&out, 2, BASE_STR("FP32"));
    gw_pb_packed(&out, 3, shape, 2);
    gw_pb_end(&out, mark);
    memcpy(gw_pb_bytes(&out, 7, sizeof(x)), x, sizeof(x));
    assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
    memcpy(world->body, frame.data, frame.size);
    world->body_size = frame.size;
    base_arena_done(&arena);
}

// Asks as the device; what is answered stays in the exchange.
static void ask_itself(struct world *world, struct rig_exchange *exchange, const char *path,
                       uint64_t device)
{
    struct gw_request *request = &exchange->exchange.request;
    rig_exchange_init(exchange, GW_METHOD_POST, path);
    request->body = world->body;
    request->body_bytes = world->body_size;
    request->content_type = base_str_of(world->type);
    show_itself(request, device);
    gw_core_handle(world->rig.worker.worker, &exchange->exchange);
    wait_for(world, exchange);
}

static int status_itself(struct world *world, const char *path, uint64_t device)
{
    struct rig_exchange exchange;
    ask_itself(world, &exchange, path, device);
    int status = exchange.exchange.reply.status;
    assert_int_equal(rig_header(&exchange, "retry-after").size > 0, status == 429);
    rig_exchange_done(&exchange);
    return status;
}

static void expect_grpc(struct world *world, const char *status, bool pushed_back)
{
    struct rig_exchange exchange;
    ask_itself(world, &exchange, SERVICE "ModelInfer", 5);
    const struct gw_reply *reply = &exchange.exchange.reply;
    struct base_str is =
        reply->trailer_count > 0 ? reply->trailers[0].value : rig_header(&exchange, "grpc-status");
    assert_true(base_str_equal(is, base_str_of(status)));
    assert_int_equal(rig_header(&exchange, "grpc-retry-pushback-ms").size > 0, pushed_back);
    rig_exchange_done(&exchange);
}

// The quota is the device's, in whichever form it calls: what it used up in one it has in none.
static void test_a_device_is_charged_in_every_form(void **state)
{
    (void)state;
    static struct world world;
    struct rig_exchange exchange;
    begin(&world, 3);
    world.type = "application/json";
    json_make(&world);
    assert_int_equal(status_itself(&world, "/v2/models/none/infer", 5), 404); // given back
    assert_int_equal(figures(&world).given_back, 1);
    assert_int_equal(status_itself(&world, PATH, 5), 200);
    world.type = "application/grpc";
    frame_make(&world, "none");
    expect_grpc(&world, "5", false); // given back
    assert_int_equal(figures(&world).given_back, 2);
    frame_make(&world, "m");
    expect_grpc(&world, "0", false);
    expect_grpc(&world, "0", false);
    expect_grpc(&world, "8", true);
    world.type = "application/json";
    json_make(&world);
    assert_int_equal(status_itself(&world, PATH, 5), 429);
    assert_int_equal(status_itself(&world, PATH, 6), 200); // another device
    world.type = WIRE_TENSOR_TYPE;
    body_make(&world, "x", 1);
    ask_itself(&world, &exchange, PATH, 5);
    assert_int_equal(exchange.exchange.reply.status, 429);
    assert_true(base_str_equal(rig_header(&exchange, WIRE_CLOUD_REASON), BASE_STR("quota")));
    rig_exchange_done(&exchange);
    assert_int_equal(runs_of_model(&world), 4);
    assert_int_equal(figures(&world).let[GW_DEVICE_OVER], 3);
    end(&world);
}

// Each message of a stream is a call of the device, and so are those of its next stream.
static void test_a_device_is_charged_for_each_message(void **state)
{
    (void)state;
    static struct world world;
    begin(&world, 3);
    frame_make(&world, "m");
    for (uint32_t k = 0; k < 2; k++) {
        struct open_rig open;
        assert_true(open_rig_start_as(&open, &world.rig, 5));
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(open_rig_write(&open, world.body, world.body_size), world.body_size);
        }
        open.calls->input_ended(&open.exchange.exchange);
        open_rig_drain(&open, &world.rig);
        assert_true(base_str_equal(open_rig_status(&open), BASE_STR("0")));
        bool refused = memmem(open.answers.data, open.answers.size, GW_DEVICE_OVER_TEXT,
                              strlen(GW_DEVICE_OVER_TEXT)) != NULL;
        assert_int_equal(refused, k == 1);
        open_rig_done(&open);
    }
    assert_int_equal(runs_of_model(&world), 3);
    assert_int_equal(figures(&world).let[GW_DEVICE_OVER], 1);
    end(&world);
}

// A tenant that had its quota costs its devices nothing.
static void test_a_tenants_refusal_costs_a_device_nothing(void **state)
{
    (void)state;
    static struct world world;
    begin_with(&world, 5, 1);
    world.type = "application/json";
    json_make(&world);
    assert_int_equal(status_itself(&world, PATH, 5), 200);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(status_itself(&world, PATH, 5), 429);
    }
    assert_int_equal(figures(&world).let[GW_DEVICE_OVER], 0);
    assert_int_equal(figures(&world).given_back, 10);
    end(&world);
}

// No instance of the model runs while it is held.
static void hold(struct world *world, bool held)
{
    pthread_mutex_lock(&world->service->lock);
    struct gw_infer_version *version =
        gw_infer_find(world->service, BASE_STR("m"), BASE_STR(""), NULL);
    version->running += held ? version->instances : -version->instances;
    pthread_cond_broadcast(&world->service->work);
    pthread_mutex_unlock(&world->service->lock);
}

// A call that found no place in the queue did not run: its device may call once more.
static void test_a_full_queue_costs_nothing(void **state)
{
    (void)state;
    static struct world world;
    struct base_error error = {0};
    struct rig_exchange first;
    struct rig_exchange second;
    begin(&world, 2);
    infer_kit_text(&world.kit, "m/model.conf", "queue = 1\n");
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
    body_make(&world, "x", 1);
    world.type = WIRE_TENSOR_TYPE;
    hold(&world, true);
    begin_asking(&world, &first, PATH, KEY, DEVICE);
    ask(&world, &second, PATH, OTHER_KEY, WIRE_TENSOR_TYPE);
    assert_false(first.finished);
    assert_int_equal(second.exchange.reply.status, 429);
    assert_true(base_str_equal(rig_header(&second, WIRE_CLOUD_REASON), BASE_STR("busy")));
    assert_true(rig_header(&second, "retry-after").size > 0);
    rig_exchange_done(&second);
    assert_int_equal(figures(&world).given_back, 1);
    hold(&world, false);
    wait_for(&world, &first);
    answered(&first, 1);
    assert_int_equal(status_of(&world, PATH, OTHER_KEY, DEVICE), 200);
    assert_int_equal(status_of(&world, PATH, "", DEVICE), 429); // both are spent
    assert_int_equal(figures(&world).given_back, 1);
    end(&world);
}

// A body of more than a call may have is refused before it is charged, packed or not.
static void test_large_bodies(void **state)
{
    (void)state;
    static struct world world;
    begin(&world, 1);
    world.body_size = WIRE_TENSOR_CALL_MAX + 1;
    refused(&world, PATH, WIRE_TENSOR_TYPE, 413, "too_large");
    refused(&world, PATH, WIRE_TENSOR_TYPE_PACKED, 413, "too_large");
    assert_int_equal(figures(&world).let[GW_DEVICE_CHARGED], 0);
    world.body_size = WIRE_TENSOR_CALL_MAX;
    refused(&world, PATH, WIRE_TENSOR_TYPE, 400, "refused");
    end(&world);
}

static void line_add(void *ctx, const char *text)
{
    char *all = ctx;
    size_t used = strlen(all);
    (void)snprintf(all + used, 4096 - used, "%s", text);
}

static void test_metrics(void **state)
{
    (void)state;
    static struct world world;
    struct rig_exchange exchange;
    char all[4096] = "";
    begin(&world, 1);
    body_make(&world, "x", 1);
    ask(&world, &exchange, PATH, KEY, WIRE_TENSOR_TYPE);
    answered(&exchange, 1);
    ask(&world, &exchange, PATH, KEY, WIRE_TENSOR_TYPE);
    answered(&exchange, 1);
    refused(&world, PATH, WIRE_TENSOR_TYPE, 429, "quota");
    gw_device_call_metrics(world.service, line_add, all);
    assert_non_null(strstr(all, "walle_infer_device_calls_total{let=\"charged\"} 1\n"));
    assert_non_null(strstr(all, "walle_infer_device_calls_total{let=\"kept\"} 1\n"));
    assert_non_null(strstr(all, "walle_infer_device_calls_total{let=\"over_quota\"} 1\n"));
    end(&world);
}

// Half of the callers have version 8.
static void release_half(struct world *world)
{
    struct base_error error = {0};
    const struct gw_infer_call serves = {.model = BASE_STR("m"), .version = BASE_STR("7")};
    const struct gw_infer_trial_wish wish = {.candidate = BASE_STR("8"),
                                             .split = {.salt = 9, .share = POL_BUCKET_COUNT / 2}};
    infer_kit_add(&world->kit, "m", "8", NULL);
    infer_kit_text(&world->kit, "m/model.conf", "versions = all\n");
    assert_int_equal(gw_infer_load(world->service, serves.model, &error), BASE_OK);
    assert_int_equal(gw_infer_serve(world->service, &serves, &error), BASE_OK);
    assert_int_equal(gw_infer_trial_set(world->service, serves.model, &wish), BASE_OK);
}

// The version that answers a call with this key, '7' or '8'.
static char version_of(struct world *world, const char *device, uint32_t number)
{
    char key[33];
    struct rig_exchange exchange;
    struct wire_tensor_answer answer;
    (void)snprintf(key, sizeof(key), "%032x", number);
    world->type = WIRE_TENSOR_TYPE;
    ask_as(world, &exchange, PATH, key, device);
    const struct gw_reply *reply = &exchange.exchange.reply;
    assert_int_equal(wire_tensor_answer_parse(reply->body, reply->body_bytes, &answer), BASE_OK);
    assert_int_equal(answer.version.size, 1);
    char version = answer.version.data[0];
    rig_exchange_done(&exchange);
    return version;
}

// Each call of a device has a key of its own, and all of them the same version.
static void test_a_device_stays_on_one_version(void **state)
{
    (void)state;
    static struct world world;
    uint32_t candidates = 0;
    uint32_t number = 0;
    begin(&world, 0);
    release_half(&world);
    body_make(&world, "x", 1);
    for (uint32_t i = 0; i < 32; i++) {
        char device[17];
        (void)snprintf(device, sizeof(device), "%016x", i + 1);
        char version = version_of(&world, device, number++);
        candidates += version == '8';
        for (uint32_t call = 0; call < 8; call++) {
            assert_int_equal(version_of(&world, device, number++), version);
        }
    }
    assert_in_range(candidates, 6, 26);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_and_repeats),
        cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_one_key_many_runs),
        cmocka_unit_test(test_one_key_other_calls),
        cmocka_unit_test(test_a_repeat_that_comes_early),
        cmocka_unit_test(test_a_repeat_that_does_not_run),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_a_device_is_charged_in_every_form),
        cmocka_unit_test(test_a_device_is_charged_for_each_message),
        cmocka_unit_test(test_a_tenants_refusal_costs_a_device_nothing),
        cmocka_unit_test(test_a_full_queue_costs_nothing),
        cmocka_unit_test(test_large_bodies),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_a_device_stays_on_one_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
