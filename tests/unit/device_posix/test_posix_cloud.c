// Calls of models in the cloud between the task worker's thread and the loop: answered, refused at
// once, ended by the run's end at each of its places, and not let go. The runtime is the one that
// ships, on the memory port.
#include "device_rig.h"
#include "posix/run/posix_cloud.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FLOATS 500

static struct rig rig;
static struct posix_cloud *cloud;
static atomic_uint waits; // that the worker told the loop of

struct worker {
    pthread_t thread;
    struct dev_vm_cloud_port port;
    bool looks;
    enum wire_cloud_why why;
    struct dev_vm_cloud_end end;
    struct dev_vm_cloud_state state;
    uint8_t body[4096];
    size_t size;
};

static struct worker worker;

static void wake(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&waits, 1);
}

static void *work(void *ctx)
{
    struct worker *self = ctx;
    const struct dev_vm_cloud_call call = {.model = BASE_STR("big"),
                                           .bytes = self->body,
                                           .size = self->size,
                                           .priority = 1,
                                           .deadline_ms = 1000};
    if (self->looks) {
        self->state = self->port.look(self->port.ctx, BASE_STR("big"));
    } else {
        self->why = self->port.infer(self->port.ctx, &call, &self->end);
    }
    return NULL;
}

static void begin(uint32_t calls_max)
{
    rig_init(&rig);
    rig.config.cloud_calls_max = calls_max;
    rig_boot(&rig);
    rig_run(&rig, 1000000);
    assert_int_equal(posix_cloud_new(NULL, wake, &cloud), BASE_OK);
    posix_cloud_open(cloud, NULL);
}

static void end(void)
{
    posix_cloud_free(cloud);
    rig_done(&rig);
}

static void start(bool looks)
{
    static uint8_t zeros[FLOATS * 4];
    struct wire_tensor_call call = {.priority = 1, .deadline_ms = 1000, .count = 1};
    struct base_writer writer;
    call.tensors[0] = (struct wire_tensor){.name = BASE_STR("x"),
                                           .dtype = 1,
                                           .rank = 1,
                                           .dims = {FLOATS},
                                           .data = zeros,
                                           .bytes = sizeof(zeros)};
    memset(&worker, 0, sizeof(worker));
    base_writer_init(&writer, worker.body, sizeof(worker.body));
    wire_tensor_call_write(&writer, &call);
    worker.size = base_writer_size(&writer);
    worker.port = posix_cloud_port(cloud);
    worker.looks = looks;
    atomic_store(&waits, 0);
    assert_int_equal(pthread_create(&worker.thread, NULL, work, &worker), 0);
}

static void wait_for_it(void)
{
    while (atomic_load(&waits) == 0) {
        (void)usleep(100);
    }
}

static void join(void)
{
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
}

static struct mem_exchange *sent(void)
{
    (void)dev_tick(rig.runtime, rig.port.clock.mono_us);
    return mem_exchange_find(&rig.port, "/v2/models/big/infer");
}

static void test_answered(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct wire_tensor_answer answer = {.version = BASE_STR("1")};
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    wire_tensor_answer_write(&writer, &answer);
    begin(4);
    for (int i = 0; i < 3; i++) {
        start(false);
        wait_for_it();
        assert_true(posix_cloud_serve(cloud, rig.runtime));
        assert_false(posix_cloud_serve(cloud, rig.runtime)); // it is there already
        struct mem_exchange *exchange = sent();
        assert_non_null(exchange);
        assert_string_equal(exchange->content_type, WIRE_TENSOR_TYPE_PACKED);
        assert_true(exchange->body_bytes < worker.size / 4);
        const struct dev_response_head head = {.status = 200, .content_bytes = sizeof(bytes)};
        mem_exchange_answer(&rig.port, rig.runtime, exchange, &head,
                            (struct base_span){bytes, base_writer_size(&writer)});
        join();
        assert_int_equal(worker.why, WIRE_CLOUD_ANSWERED);
        assert_int_equal(worker.end.size, base_writer_size(&writer));
        assert_memory_equal(worker.end.answer, bytes, worker.end.size);
    }
    end();
}

static void test_refused_by_the_gateway(void **state)
{
    (void)state;
    begin(4);
    start(false);
    wait_for_it();
    assert_true(posix_cloud_serve(cloud, rig.runtime));
    const struct dev_response_head head = {.status = 404, .reason = BASE_STR("no_model")};
    mem_exchange_answer(&rig.port, rig.runtime, sent(), &head,
                        (struct base_span){(const uint8_t *)"no such", 7});
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_NO_MODEL);
    assert_string_equal(worker.end.detail, "no such");
    assert_null(worker.end.answer);
    end();
}

static void test_refused_at_once(void **state)
{
    (void)state;
    begin(0);
    start(false);
    wait_for_it();
    assert_false(posix_cloud_serve(cloud, rig.runtime));
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_NOT_ALLOWED);
    start(false);
    wait_for_it();
    assert_false(posix_cloud_serve(cloud, NULL));
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_OFFLINE);
    start(true);
    wait_for_it();
    assert_false(posix_cloud_serve(cloud, rig.runtime));
    join();
    assert_int_equal(worker.state.why, WIRE_CLOUD_NOT_ALLOWED);
    end();
}

// The run ends before the loop saw the call, while it is under way, and before it is made.
static void test_closed(void **state)
{
    (void)state;
    begin(4);
    start(false);
    wait_for_it();
    posix_cloud_close(cloud);
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_CLOSED);
    start(false); // still closed
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_CLOSED);
    assert_int_equal(atomic_load(&waits), 0);
    posix_cloud_open(cloud, NULL);
    start(false);
    wait_for_it();
    assert_true(posix_cloud_serve(cloud, rig.runtime));
    assert_non_null(sent());
    posix_cloud_close(cloud);
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_CLOSED);
    assert_null(sent());
    posix_cloud_open(cloud, NULL);
    start(false);
    wait_for_it();
    assert_true(posix_cloud_serve(cloud, rig.runtime));
    dev_stop(rig.runtime); // the runtime ends under it
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_CLOSED);
    end();
}

static enum wire_cloud_why may(void *ctx, const struct dev_vm_cloud_call *call,
                               const struct wire_tensor_call *parsed, char *out_detail,
                               size_t detail_size)
{
    (void)ctx;
    assert_int_equal(parsed->count, 1);
    assert_true(base_str_equal(call->model, BASE_STR("big")));
    (void)snprintf(out_detail, detail_size, "x may not leave");
    return WIRE_CLOUD_NOT_ALLOWED;
}

static void test_not_let_go(void **state)
{
    (void)state;
    begin(4);
    posix_cloud_open(cloud, &(struct posix_cloud_leave){.may = may});
    start(false);
    join();
    assert_int_equal(worker.why, WIRE_CLOUD_NOT_ALLOWED);
    assert_string_equal(worker.end.detail, "x may not leave");
    assert_int_equal(atomic_load(&waits), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answered),        cmocka_unit_test(test_refused_by_the_gateway),
        cmocka_unit_test(test_refused_at_once), cmocka_unit_test(test_closed),
        cmocka_unit_test(test_not_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
