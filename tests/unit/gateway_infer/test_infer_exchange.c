// The service behind the gateway's core, without sockets: large bodies are read on the service's
// threads and not on the worker's, each method of gRPC answers when memory runs out at every place
// in turn, and whom a call counts for in a release.
#include "core_rig.h"
#include "failing_heap.h"
#include "infer_kit.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "infer/codec/pb_out.h"
#include "infer/infer_exchange.h"
#include "infer/rest/infer_http.h"
#include "infer/rest/infer_text.h"

#define SERVICE "/inference.GRPCInferenceService/"

struct world {
    struct rig rig;
    struct infer_kit kit;
    struct gw_infer_service *service;
    struct base_arena arena; // of messages
};

static void begin(struct world *world)
{
    struct base_error error = {0};
    memset(world, 0, sizeof(*world));
    infer_kit_begin(&world->kit);
    infer_kit_add(&world->kit, "m", "1", NULL);
    const struct gw_infer_options options = {.models_dir = world->kit.dir, .threads = 1};
    assert_int_equal(gw_infer_service_new(&options, &world->service, &error), BASE_OK);
    base_arena_init(&world->arena, base_alloc_heap(), 0, 0);
    rig_init(&world->rig);
    rig_start(&world->rig);
    gw_infer_install(world->rig.core, world->service, GW_METRICS_OPEN);
}

static void end(struct world *world)
{
    rig_done(&world->rig);
    gw_infer_service_free(world->service);
    base_arena_done(&world->arena);
    infer_kit_end(&world->kit);
}

// A framed ModelInferRequest of rows (1, 2, 3).
static struct base_str infer_frame(struct world *world, uint32_t rows)
{
    static const float x[3] = {1, 2, 3};
    const int64_t shape[2] = {rows, 3};
    struct gw_pb_out out;
    struct base_str frame;
    gw_pb_out_init(&out, &world->arena, 0);
    gw_pb_text(&out, 1, BASE_STR("m"));
    size_t mark = gw_pb_begin(&out, 5);
    gw_pb_text(&out, 1, BASE_STR("x"));
    gw_pb_text(&out, 2, BASE_STR("FP32"));
    gw_pb_packed(&out, 3, shape, 2);
    gw_pb_end(&out, mark);
    uint8_t *raw = gw_pb_bytes(&out, 7, rows * sizeof(x));
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(raw + i * sizeof(x), x, sizeof(x));
    }
    assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
    return frame;
}

static struct base_str name_frame(struct world *world, const char *name)
{
    struct gw_pb_out out;
    struct base_str frame;
    gw_pb_out_init(&out, &world->arena, 0);
    gw_pb_text(&out, 1, base_str_of(name));
    assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
    return frame;
}

static void ask(struct rig_exchange *exchange, const char *path, struct base_str body)
{
    struct gw_request *request = &exchange->exchange.request;
    rig_exchange_init(exchange, GW_METHOD_POST, path);
    request->body = (const uint8_t *)body.data;
    request->body_bytes = body.size;
    if (strncmp(path, SERVICE, sizeof(SERVICE) - 1) == 0) {
        request->content_type = BASE_STR("application/grpc");
    }
}

static bool says(struct base_str text, const char *word)
{
    return memmem(text.data, text.size, word, strlen(word)) != NULL;
}

// ---- Where a body is read

// The worker's thread is this one, which runs no messages before the pump: an answer that is there
// before was made by reading the body here.
static void check_where(struct world *world, const char *path, struct base_str body, bool here)
{
    struct rig_exchange exchange;
    ask(&exchange, path, body);
    gw_core_handle(world->rig.worker.worker, &exchange.exchange);
    assert_int_equal(exchange.finished, here);
    while (!exchange.finished) {
        (void)rig_pump(&world->rig);
        usleep(20);
    }
    if (exchange.exchange.request.content_type.size > 0) {
        assert_true(base_str_equal(rig_header(&exchange, "grpc-status"), BASE_STR("3")));
        assert_true(says(rig_header(&exchange, "grpc-message"), "protobuf"));
    } else {
        const struct gw_reply *reply = &exchange.exchange.reply;
        assert_int_equal(reply->status, 400);
        assert_true(says((struct base_str){(const char *)reply->body, reply->body_bytes}, "error"));
    }
    rig_exchange_done(&exchange);
}

static void test_where_bodies_are_read(void **state)
{
    struct world world;
    struct gw_pb_out out;
    struct base_str frame;
    (void)state;
    begin(&world);
    const size_t large = GW_INFER_READ_HERE_MAX + 1;
    char *blanks = base_arena_alloc(&world.arena, large);
    memset(blanks, ' ', large);
    check_where(&world, "/v2/models/m/infer", (struct base_str){blanks, large - 1}, true);
    check_where(&world, "/v2/models/m/infer", (struct base_str){blanks, large}, false);
    for (int more = 0; more < 2; more++) { // a field that says it is longer than the message
        gw_pb_out_init(&out, &world.arena, 0);
        size_t size = GW_INFER_READ_HERE_MAX - 4 + (size_t)more;
        uint8_t *bytes = gw_pb_bytes(&out, 9, size);
        memset(bytes, 0xff, size);
        bytes[-1] = 0x7f;
        assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
        check_where(&world, SERVICE "ModelInfer", frame, more == 0);
    }
    end(&world);
}

static void add_line(void *ctx, const char *text)
{
    assert_int_equal(base_buffer_add(ctx, text, strlen(text)), BASE_OK);
}

// A body that is none counts for the model of its path, wherever it was read; a message that says
// no model counts for none.
static void test_malformed_calls_are_counted(void **state)
{
    struct world world;
    struct base_buffer lines;
    (void)state;
    begin(&world);
    const size_t large = GW_INFER_READ_HERE_MAX + 1;
    char *blanks = base_arena_alloc(&world.arena, large);
    memset(blanks, ' ', large);
    check_where(&world, "/v2/models/m/infer", (struct base_str){blanks, 1}, true);
    check_where(&world, "/v2/models/m/versions/1/infer", (struct base_str){blanks, large}, false);
    check_where(&world, SERVICE "ModelInfer", BASE_STR("\0\0\0\0\1\xff"), true);
    base_buffer_init(&lines, base_alloc_heap(), 65536);
    gw_infer_metrics(world.service, add_line, &lines);
    assert_true(says((struct base_str){(const char *)lines.data, lines.size},
                     "walle_infer_calls_total{model=\"m\",version=\"1\",result=\"invalid\"} 2\n"));
    base_buffer_done(&lines);
    end(&world);
}

// ---- What an answer keeps

// Of a call that is answered: all but the answer is given back, and that takes about its size.
static void check_kept(struct world *world, const char *path, struct base_str body)
{
    struct rig_exchange exchange;
    ask(&exchange, path, body);
    rig_run(&world->rig, &exchange);
    const struct gw_infer_exchange *call = exchange.exchange.keeper;
    size_t bytes = exchange.exchange.reply.body_bytes;
    assert_int_equal(exchange.exchange.reply.status, 200);
    assert_null(call->arena.chunk);
    if (bytes <= GW_INFER_SMALL_ANSWER) {
        assert_null(call->written.chunk);
    } else if (call->written.used_bytes < bytes || call->written.used_bytes > 2 * bytes + 1) {
        fail_msg("%zu bytes for an answer of %zu", call->written.used_bytes, bytes);
    }
    rig_exchange_done(&exchange);
}

static struct base_str infer_json(struct world *world, uint32_t rows)
{
    static const char head[] = "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[";
    size_t room = sizeof(head) + 64 + rows * (sizeof("0,0,0,") - 1);
    char *text = base_arena_alloc(&world->arena, room);
    int size = snprintf(text, room, "%s%u,3],\"data\":[", head, rows);
    for (uint32_t i = 0; i < rows; i++) {
        size += snprintf(text + size, room - (size_t)size, "%s0,0,0", i > 0 ? "," : "");
    }
    size += snprintf(text + size, room - (size_t)size, "]}]}");
    return (struct base_str){text, (size_t)size};
}

static void test_an_answer_keeps_nothing_else(void **state)
{
    static const uint32_t rows[] = {1, 500, 6000}; // small; read here; read by another thread
    struct world world;
    (void)state;
    begin(&world);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        check_kept(&world, SERVICE "ModelInfer", infer_frame(&world, rows[i]));
        check_kept(&world, "/v2/models/m/infer", infer_json(&world, rows[i]));
    }
    end(&world);
}

// ---- No memory

// Whether an allocation failed.
static bool answered_with(struct world *world, const char *method, struct base_str frame,
                          size_t allowed)
{
    struct rig_exchange exchange;
    char path[80];
    snprintf(path, sizeof(path), SERVICE "%s", method);
    ask(&exchange, path, frame);
    failing_heap_arm(allowed, false);
    rig_run(&world->rig, &exchange);
    bool failed = failing_heap_has_failed();
    (void)failing_heap_disarm();
    const struct gw_reply *reply = &exchange.exchange.reply;
    struct base_str status = rig_header(&exchange, "grpc-status");
    if (reply->status == 200 && status.size == 0) {
        assert_true(reply->body_bytes >= GW_PB_FRAME_BYTES);
        assert_int_equal(reply->trailer_count, 1);
        assert_true(base_str_equal(reply->trailers[0].value, BASE_STR("0")));
    } else {
        assert_true(failed);
        assert_true(reply->status == 503 || base_str_equal(status, BASE_STR("14")) ||
                    base_str_equal(status, BASE_STR("13")));
    }
    rig_exchange_done(&exchange);
    return failed;
}

static void test_no_memory(void **state)
{
    static const struct {
        const char *method;
        const char *name;
        uint32_t rows; // of ModelInfer
        size_t least;  // that failed
    } cases[] = {
        {"ModelInfer", "", 1, 5},     {"ModelInfer", "", 6000, 5},   {"ServerLive", "", 0, 1},
        {"ServerReady", "", 0, 1},    {"ServerMetadata", "", 0, 1},  {"ModelReady", "m", 0, 1},
        {"ModelMetadata", "m", 0, 5}, {"RepositoryIndex", "", 0, 2},
    };
    struct world world;
    (void)state;
    begin(&world);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct base_str frame = cases[i].rows > 0 ? infer_frame(&world, cases[i].rows)
                                                  : name_frame(&world, cases[i].name);
        size_t allowed = 0;
        (void)answered_with(&world, cases[i].method, frame, SIZE_MAX); // what is kept is there
        long live = failing_heap_live();
        while (answered_with(&world, cases[i].method, frame, allowed)) {
            assert_int_equal(failing_heap_live(), live);
            allowed++;
        }
        assert_true(allowed >= cases[i].least);
    }
    end(&world);
}

// ---- Whom a call counts for

// Of a call that shows `head`, over a connection of `peer`, with all that a caller may choose.
static uint64_t who_of(struct world *world, struct gw_head head, uint64_t peer, const char *chosen)
{
    static const struct gw_infer_protocol protocol;
    struct rig_exchange exchange;
    struct gw_request *request = &exchange.exchange.request;
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v2/models/m/infer");
    request->peer = peer;
    request->idempotency_key = base_str_of(chosen);
    request->credential = base_str_of(chosen);
    request->authorization = base_str_of(chosen);
    const struct gw_infer_exchange *self = gw_infer_exchange_new(
        world->service, world->rig.worker.worker, &exchange.exchange, &head, &protocol);
    assert_non_null(self);
    uint64_t who = self->ticket.who;
    rig_exchange_done(&exchange);
    assert_true(who != 0);
    return who;
}

// For what was proven, or else for its connection: never for what anybody may choose. A device and
// an operator of one number are two, and so are they and an address.
static void test_whom_a_call_counts_for(void **state)
{
    static const struct gw_head nobody = {.id = 5, .proof = GW_PROOF_NONE};
    static const struct gw_head device = {.id = 5, .proof = GW_PROOF_CREDENTIAL};
    static const struct gw_head certified = {.id = 5, .proof = GW_PROOF_CERTIFICATE};
    static const struct gw_head operator_of = {.id = 5, .proof = GW_PROOF_TOKEN};
    const struct gw_head others[] = {{.id = 6, .proof = GW_PROOF_CREDENTIAL},
                                     {.id = 6, .proof = GW_PROOF_TOKEN}};
    struct world world;
    (void)state;
    begin(&world);
    const uint64_t whos[] = {who_of(&world, nobody, 5, ""),    who_of(&world, nobody, 6, ""),
                             who_of(&world, device, 5, ""),    who_of(&world, operator_of, 5, ""),
                             who_of(&world, others[0], 5, ""), who_of(&world, others[1], 5, "")};
    for (size_t i = 0; i < TEST_COUNT(whos); i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(whos[i] != whos[k]);
        }
    }
    const struct gw_head named = {.id = 7, .proof = GW_PROOF_NONE};
    assert_true(who_of(&world, named, 5, "chosen") == whos[0]);
    assert_true(who_of(&world, device, 6, "chosen") == whos[2]);
    assert_true(who_of(&world, certified, 7, "chosen") == whos[2]);
    assert_true(who_of(&world, operator_of, 6, "chosen") == whos[3]);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_bodies_are_read),
        cmocka_unit_test(test_malformed_calls_are_counted),
        cmocka_unit_test(test_an_answer_keeps_nothing_else),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_whom_a_call_counts_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
