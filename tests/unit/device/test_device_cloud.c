// Calls of models in the cloud, on the runtime that ships: what is refused at once, order,
// deadlines, a second try under the same key, and what a gateway's answers come to.
#include "core/cloud/device_cloud.h"
#include "core/base/runtime.h"
#include "device_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALLS 12

struct asked {
    struct dev_cloud_call call;
    uint8_t answer[256];
    uint32_t ends;
    enum wire_cloud_why why;
    uint32_t tries;
    char detail[64];
};

static struct rig rig;
static struct asked asked[CALLS];
static uint32_t order[CALLS]; // calls as they ended
static uint32_t ended;

static void on_end(void *ctx, const struct dev_cloud_end *end)
{
    struct asked *self = ctx;
    self->ends++;
    self->why = end->why;
    self->tries = end->tries;
    assert_int_equal(end->answer != NULL, end->why == WIRE_CLOUD_ANSWERED);
    assert_true(end->detail.size < sizeof(self->detail));
    memcpy(self->detail, end->detail.size > 0 ? end->detail.data : "", end->detail.size);
    self->detail[end->detail.size] = '\0';
    order[ended++] = (uint32_t)(self - asked);
}

static void begin(void)
{
    memset(asked, 0, sizeof(asked));
    ended = 0;
    rig_init(&rig);
    rig.config.cloud_calls_max = 8;
    rig_boot(&rig);
    rig_run(&rig, 1000000);
}

static void end(void)
{
    rig_done(&rig);
}

static uint64_t now_us(void)
{
    return rig.port.clock.mono_us;
}

static void tick(void)
{
    (void)dev_tick(rig.runtime, now_us());
}

static void later(uint64_t us)
{
    mem_clock_advance(&rig.port, us);
    tick();
}

static enum wire_cloud_why ask(uint32_t index, uint32_t priority, uint32_t deadline_ms)
{
    struct asked *self = &asked[index];
    self->call = (struct dev_cloud_call){
        .model = BASE_STR("big"),
        .priority = priority,
        .deadline_ms = deadline_ms,
        .body = (const uint8_t *)"body",
        .body_bytes = 4,
        .answer = self->answer,
        .answer_capacity = sizeof(self->answer),
        .ctx = self,
        .on_end = on_end,
    };
    return dev_cloud_infer(rig.runtime, &self->call);
}

static struct mem_exchange *sent(void)
{
    return mem_exchange_find(&rig.port, "/v2/models/big/infer");
}

static void answer(int status, const char *reason, uint32_t retry_after_s, struct base_span body)
{
    struct mem_exchange *exchange = sent();
    assert_non_null(exchange);
    const struct dev_response_head head = {.status = status,
                                           .content_bytes = body.size,
                                           .retry_after_s = retry_after_s,
                                           .reason = base_str_of(reason)};
    mem_exchange_answer(&rig.port, rig.runtime, exchange, &head, body);
}

static struct base_span good(void)
{
    static uint8_t bytes[64];
    static const uint8_t data[4] = {1, 2, 3, 4};
    struct wire_tensor_answer out = {.version = BASE_STR("1"), .count = 1};
    struct base_writer writer;
    out.tensors[0] = (struct wire_tensor){
        .name = BASE_STR("y"), .dtype = 1, .rank = 1, .dims = {1}, .data = data, .bytes = 4};
    base_writer_init(&writer, bytes, sizeof(bytes));
    wire_tensor_answer_write(&writer, &out);
    assert_int_equal(writer.status, BASE_OK);
    return (struct base_span){bytes, base_writer_size(&writer)};
}

static void ends_as(uint32_t index, enum wire_cloud_why why)
{
    assert_int_equal(asked[index].ends, 1);
    assert_string_equal(wire_cloud_word(asked[index].why), wire_cloud_word(why));
}

static void test_an_answer(void **state)
{
    (void)state;
    begin();
    assert_int_equal(ask(0, 0, 500), WIRE_CLOUD_ANSWERED);
    assert_int_equal(asked[0].ends, 0);
    tick();
    const struct mem_exchange *exchange = sent();
    assert_non_null(exchange);
    assert_int_equal(exchange->method, DEV_METHOD_POST);
    assert_string_equal(exchange->content_type, WIRE_TENSOR_TYPE);
    assert_int_equal(strlen(exchange->idempotency_key), WIRE_CLOUD_KEY_BYTES);
    assert_true(exchange->urgent);
    assert_memory_equal(exchange->body, "body", 4);
    answer(200, "", 0, good());
    ends_as(0, WIRE_CLOUD_ANSWERED);
    assert_int_equal(asked[0].tries, 1);
    struct dev_cloud_view view;
    dev_cloud_look(rig.runtime, BASE_STR("big"), &view);
    assert_int_equal(view.answered, 1);
    assert_int_equal(view.refused, 0);
    end();
}

static void test_refused_at_once(void **state)
{
    (void)state;
    begin();
    uint32_t started = rig.port.http.started;
    assert_int_equal(ask(0, WIRE_TENSOR_PRIORITIES, 500), WIRE_CLOUD_REFUSED);
    assert_int_equal(ask(0, 1, 0), WIRE_CLOUD_REFUSED);
    assert_int_equal(ask(0, 1, WIRE_TENSOR_DEADLINE_MS + 1), WIRE_CLOUD_REFUSED);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(ask(i, 1, 500), WIRE_CLOUD_ANSWERED);
    }
    assert_int_equal(ask(8, 0, 500), WIRE_CLOUD_BUSY);
    assert_int_equal(rig.port.http.started, started);
    dev_stop(rig.runtime);
    for (uint32_t i = 0; i < 8; i++) {
        ends_as(i, WIRE_CLOUD_CLOSED);
    }
    rig_kill(&rig);
    rig.config.cloud_calls_max = 0;
    rig_boot(&rig);
    memset(asked, 0, sizeof(asked));
    assert_int_equal(ask(0, 1, 500), WIRE_CLOUD_NOT_ALLOWED);
    dev_cloud_cancel(rig.runtime, &asked[0].call);
    struct dev_cloud_view view;
    dev_cloud_look(rig.runtime, BASE_STR("big"), &view);
    assert_int_equal(view.why, WIRE_CLOUD_NOT_ALLOWED);
    end();
}

// By priority, then as they came; four at a time.
static void test_order(void **state)
{
    (void)state;
    static const uint32_t priorities[8] = {3, 1, 0, 1, 2, 0, 3, 2};
    static const uint32_t want[8] = {2, 5, 1, 3, 4, 7, 0, 6};
    begin();
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(ask(i, priorities[i], 1000), WIRE_CLOUD_ANSWERED);
    }
    tick();
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t open = 0;
        for (uint32_t k = 0; k < 8; k++) {
            open += asked[k].call.exchange != 0 && asked[k].ends == 0;
        }
        assert_int_equal(open, 8 - i < DEV_CLOUD_UNDER_WAY ? 8 - i : DEV_CLOUD_UNDER_WAY);
        // The one sent first has the lowest number.
        struct mem_exchange *first = NULL;
        for (uint32_t k = 0; k < MEM_EXCHANGES_MAX; k++) {
            struct mem_exchange *exchange = &rig.port.http.exchanges[k];
            if (exchange->state == MEM_EXCHANGE_OPEN && strncmp(exchange->path, "/v2/", 4) == 0 &&
                (first == NULL || exchange->id < first->id)) {
                first = exchange;
            }
        }
        assert_non_null(first);
        const struct dev_response_head head = {.status = 200, .content_bytes = good().size};
        mem_exchange_answer(&rig.port, rig.runtime, first, &head, good());
    }
    assert_int_equal(ended, 8);
    assert_memory_equal(order, want, sizeof(want));
    end();
}

static void test_deadlines(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 5; i++) { // one waits
        assert_int_equal(ask(i, 1, 100), WIRE_CLOUD_ANSWERED);
    }
    tick();
    uint32_t cancelled = rig.port.http.cancelled;
    uint64_t due_us = dev_tick(rig.runtime, now_us());
    assert_int_equal(due_us, now_us() + 100000);
    later(99999);
    assert_int_equal(ended, 0);
    later(1);
    assert_int_equal(ended, 5);
    for (uint32_t i = 0; i < 5; i++) {
        ends_as(i, WIRE_CLOUD_LATE);
    }
    assert_int_equal(rig.port.http.cancelled, cancelled + 4);
    assert_null(sent());
    // Now it is known that 100 ms are too few.
    assert_int_equal(ask(5, 1, 99), WIRE_CLOUD_SLOW);
    assert_int_equal(ask(6, 1, 200), WIRE_CLOUD_ANSWERED);
    tick();
    later(1000);
    answer(200, "", 0, good());
    ends_as(6, WIRE_CLOUD_ANSWERED);
    struct dev_cloud_view view;
    dev_cloud_look(rig.runtime, BASE_STR("big"), &view);
    assert_int_equal(view.why, WIRE_CLOUD_ANSWERED);
    assert_in_range(view.expected_us, 70000, 80000);
    dev_cloud_look(rig.runtime, BASE_STR("other"), &view);
    assert_int_equal(view.expected_us, 0);
    // What is old is forgotten: a call finds out.
    later(DEV_CLOUD_ESTIMATE_US);
    assert_int_equal(ask(7, 1, 1), WIRE_CLOUD_ANSWERED);
    end();
}

// A lost connection: once more, under the same key; then the way is known to be down, and a growing
// pause later one call finds out.
static void test_lost_connections(void **state)
{
    (void)state;
    char key[40];
    begin();
    assert_int_equal(ask(0, 1, 5000), WIRE_CLOUD_ANSWERED);
    assert_int_equal(ask(1, 1, 5000), WIRE_CLOUD_ANSWERED);
    tick();
    struct mem_exchange *exchange = sent();
    memcpy(key, exchange->idempotency_key, sizeof(key));
    mem_exchange_end(&rig.port, rig.runtime, exchange, BASE_ERR_CLOSED);
    tick();
    assert_int_equal(asked[0].ends, 0);
    exchange = sent();
    if (strcmp(exchange->idempotency_key, key) != 0) { // the other one may lie in front
        mem_exchange_end(&rig.port, rig.runtime, exchange, BASE_ERR_CLOSED);
        tick();
        exchange = sent();
    }
    assert_string_equal(exchange->idempotency_key, key);
    answer(200, "", 0, good());
    ends_as(0, WIRE_CLOUD_ANSWERED);
    assert_int_equal(asked[0].tries, 2);
    while (sent() != NULL) {
        mem_exchange_end(&rig.port, rig.runtime, sent(), BASE_ERR_CLOSED);
        tick();
    }
    ends_as(1, WIRE_CLOUD_OFFLINE);
    assert_int_equal(asked[1].tries, 2);

    uint32_t started = rig.port.http.started;
    assert_int_equal(ask(2, 1, 5000), WIRE_CLOUD_OFFLINE);
    assert_int_equal(rig.port.http.started, started);
    later(3000000); // the longest first pause
    assert_int_equal(ask(3, 1, 5000), WIRE_CLOUD_ANSWERED);
    assert_int_equal(ask(4, 1, 5000), WIRE_CLOUD_OFFLINE); // one finds out
    tick();
    answer(200, "", 0, good());
    ends_as(3, WIRE_CLOUD_ANSWERED);
    assert_int_equal(ask(5, 1, 5000), WIRE_CLOUD_ANSWERED);
    end();
}

// No connection can be had, or there is no room on it.
static void test_requests_that_do_not_start(void **state)
{
    (void)state;
    begin();
    rig.port.http.refuse = BASE_ERR_LIMIT;
    assert_int_equal(ask(0, 1, 100), WIRE_CLOUD_ANSWERED);
    uint64_t due_us = dev_tick(rig.runtime, now_us());
    assert_int_equal(due_us, now_us() + DEV_CLOUD_AGAIN_US);
    rig.port.http.refuse = BASE_OK;
    later(DEV_CLOUD_AGAIN_US);
    assert_non_null(sent());
    answer(200, "", 0, good());
    ends_as(0, WIRE_CLOUD_ANSWERED);
    rig.port.http.refuse = BASE_ERR_IO;
    assert_int_equal(ask(1, 1, 100), WIRE_CLOUD_ANSWERED);
    tick();
    ends_as(1, WIRE_CLOUD_OFFLINE);
    assert_int_equal(ask(2, 1, 100), WIRE_CLOUD_OFFLINE);
    end();
}

// The gateway still runs the call of a connection that was lost: it is asked for again under its
// key, after a pause that keeps no other call, until the deadline.
static void test_a_call_that_still_runs(void **state)
{
    (void)state;
    char key[40];
    begin();
    assert_int_equal(ask(0, 1, 2000), WIRE_CLOUD_ANSWERED);
    tick();
    memcpy(key, sent()->idempotency_key, sizeof(key));
    mem_exchange_end(&rig.port, rig.runtime, sent(), BASE_ERR_CLOSED);
    tick();
    for (uint32_t i = 0; i < 2; i++) {
        answer(409, "busy", 0, (struct base_span){(const uint8_t *)"runs", 4});
        assert_int_equal(dev_tick(rig.runtime, now_us()), now_us() + DEV_CLOUD_REPEAT_US);
        assert_null(sent());
        assert_int_equal(asked[0].ends, 0);
        assert_int_equal(ask(1, 1, 1000), WIRE_CLOUD_ANSWERED);
        tick();
        assert_string_not_equal(sent()->idempotency_key, key);
        answer(200, "", 0, good());
        ends_as(1, WIRE_CLOUD_ANSWERED);
        asked[1].ends = 0;
        later(DEV_CLOUD_REPEAT_US - 1);
        assert_null(sent());
        later(1);
        assert_string_equal(sent()->idempotency_key, key);
    }
    answer(200, "", 0, good());
    ends_as(0, WIRE_CLOUD_ANSWERED);
    assert_int_equal(asked[0].tries, 4);
    // Whatever a gateway says, the deadline ends it.
    assert_int_equal(ask(2, 1, 700), WIRE_CLOUD_ANSWERED);
    tick();
    answer(409, "busy", 0, (struct base_span){(const uint8_t *)"runs", 4});
    later(DEV_CLOUD_REPEAT_US);
    answer(409, "busy", 0, (struct base_span){(const uint8_t *)"runs", 4});
    later(DEV_CLOUD_REPEAT_US);
    assert_null(sent());
    ends_as(2, WIRE_CLOUD_LATE);
    // The pause is of the call that it was said of, not of its memory.
    assert_int_equal(ask(3, 1, 2000), WIRE_CLOUD_ANSWERED);
    tick();
    answer(409, "busy", 0, (struct base_span){(const uint8_t *)"runs", 4});
    dev_cloud_cancel(rig.runtime, &asked[3].call);
    assert_int_equal(dev_cloud_infer(rig.runtime, &asked[3].call), WIRE_CLOUD_ANSWERED);
    tick();
    assert_non_null(sent());
    end();
}

struct refusal {
    int status;
    const char *reason;
    enum wire_cloud_why why;
    uint32_t retry_after_s;
    enum wire_cloud_why next; // of the call behind it
};

static void test_refusals(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {400, "refused", WIRE_CLOUD_REFUSED, 0, WIRE_CLOUD_ANSWERED},
        {401, "", WIRE_CLOUD_NOT_ALLOWED, 0, WIRE_CLOUD_NOT_ALLOWED},
        {403, "", WIRE_CLOUD_NOT_ALLOWED, 0, WIRE_CLOUD_NOT_ALLOWED},
        {404, "", WIRE_CLOUD_NO_MODEL, 0, WIRE_CLOUD_ANSWERED},
        {409, "", WIRE_CLOUD_FAILED, 0, WIRE_CLOUD_ANSWERED},
        {413, "", WIRE_CLOUD_TOO_LARGE, 0, WIRE_CLOUD_ANSWERED},
        {429, "quota", WIRE_CLOUD_QUOTA, 7, WIRE_CLOUD_QUOTA},
        {429, "", WIRE_CLOUD_BUSY, 7, WIRE_CLOUD_BUSY},
        {429, "answered", WIRE_CLOUD_BUSY, 0, WIRE_CLOUD_ANSWERED}, // no word of a refusal
        {503, "no_model", WIRE_CLOUD_NO_MODEL, 0, WIRE_CLOUD_ANSWERED},
        {504, "", WIRE_CLOUD_LATE, 0, WIRE_CLOUD_ANSWERED},
        {500, "", WIRE_CLOUD_FAILED, 0, WIRE_CLOUD_ANSWERED},
        {302, "", WIRE_CLOUD_FAILED, 0, WIRE_CLOUD_ANSWERED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        assert_int_equal(ask(0, 1, 500), WIRE_CLOUD_ANSWERED);
        tick();
        answer(cases[i].status, cases[i].reason, cases[i].retry_after_s,
               (struct base_span){(const uint8_t *)"why so", 6});
        ends_as(0, cases[i].why);
        assert_string_equal(asked[0].detail, "why so");
        assert_int_equal(ask(1, 1, 500), cases[i].next);
        if (cases[i].retry_after_s > 0) {
            later(cases[i].retry_after_s * 1000000ull);
            assert_int_equal(ask(2, 1, 500), WIRE_CLOUD_ANSWERED);
        }
        end();
    }
}

static void test_answers_that_make_no_sense(void **state)
{
    (void)state;
    uint8_t long_one[300] = {0};
    begin();
    assert_int_equal(ask(0, 1, 500), WIRE_CLOUD_ANSWERED);
    tick();
    answer(200, "", 0, (struct base_span){(const uint8_t *)"nonsense", 8});
    ends_as(0, WIRE_CLOUD_FAILED);
    assert_string_equal(asked[0].detail, "");
    assert_int_equal(ask(1, 1, 500), WIRE_CLOUD_ANSWERED);
    tick();
    answer(200, "", 0, (struct base_span){long_one, sizeof(long_one)});
    ends_as(1, WIRE_CLOUD_TOO_LARGE);
    end();
}

static void test_cancel(void **state)
{
    (void)state;
    begin();
    assert_int_equal(ask(0, 1, 500), WIRE_CLOUD_ANSWERED);
    dev_cloud_cancel(rig.runtime, &asked[0].call); // it waits
    assert_int_equal(ask(1, 1, 500), WIRE_CLOUD_ANSWERED);
    tick();
    assert_non_null(sent());
    dev_cloud_cancel(rig.runtime, &asked[1].call); // it is under way
    assert_null(sent());
    dev_cloud_cancel(rig.runtime, &asked[1].call);
    later(1000000);
    assert_int_equal(ended, 0);
    struct dev_cloud_view view;
    dev_cloud_look(rig.runtime, BASE_STR("big"), &view);
    assert_int_equal(view.calls, 0);
    end();
}

// Another part's request that no gateway answers tells it as well, and its next answer too.
static void test_others_tell(void **state)
{
    (void)state;
    begin();
    rig.hold_checkins = true;
    dev_checkin_now(rig.runtime);
    tick();
    struct mem_exchange *exchange = mem_exchange_find(&rig.port, "/v1/checkin");
    assert_non_null(exchange);
    mem_exchange_end(&rig.port, rig.runtime, exchange, BASE_ERR_CLOSED);
    assert_int_equal(ask(0, 1, 500), WIRE_CLOUD_OFFLINE);
    rig.hold_checkins = false;
    rig.run_on = true;
    rig_run(&rig, 600000000);
    assert_int_equal(ask(1, 1, 500), WIRE_CLOUD_ANSWERED);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer),
        cmocka_unit_test(test_refused_at_once),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_lost_connections),
        cmocka_unit_test(test_a_call_that_still_runs),
        cmocka_unit_test(test_requests_that_do_not_start),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_answers_that_make_no_sense),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_others_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
