// The whole core under load from several workers at once, with its control thread: check-ins,
// reports, blobs, hint streams and operators' calls. Meant for the thread sanitizer; the counters
// must come out right in any build.
#include "core_rig.h"

#include "base/clock.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WORKERS 3
#define DEVICES 120 // of each worker
#define ROLLOUT 0x5

static const struct rig_stage stages[] = {
    {"gray", POL_STAGE_GRAY, 3000, NULL, NULL, 10, 0, 1000},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 10, 0, 1000},
};

static const enum wire_outcome_kind steps[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                               WIRE_OUTCOME_RAN};

struct lane {
    struct rig rig; // its own view: the shared core and a worker of its own
    uint32_t number;
    struct gw_rollout_view rollout;
    char blob_path[128];
    struct rig_device devices[DEVICES];
    struct gw_hint hints[DEVICES];
    uint32_t took;
    uint32_t hinted;
};

static bool write_hint(void *ctx, struct gw_hint *hint, struct base_str text)
{
    struct lane *lane = ctx;
    (void)hint;
    lane->hinted += base_str_starts(text, BASE_STR("event: hint\n"));
    return true;
}

static void subscribe(struct lane *lane, uint32_t i)
{
    struct rig_exchange exchange;
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    wire_device_hex(lane->devices[i].id, hex);
    rig_exchange_init(&exchange, GW_METHOD_GET, "/v1/push");
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.profile = rig_device_profile(&lane->devices[i], true, text);
    rig_run(&lane->rig, &exchange);
    gw_worker_subscribe(lane->rig.worker.worker, &exchange.exchange, &lane->hints[i]);
    rig_exchange_done(&exchange);
}

static void visit(struct lane *lane, uint32_t i)
{
    struct rig_device *device = &lane->devices[i];
    struct rig_exchange exchange;
    struct wire_offers offers;
    (void)rig_checkin(&lane->rig, device, true, &exchange, &offers);
    uint32_t took = rig_device_take(device, &offers);
    rig_exchange_done(&exchange);
    if (took == 0) {
        return;
    }
    lane->took++;
    rig_exchange_init(&exchange, GW_METHOD_GET, lane->blob_path);
    exchange.exchange.request.accept_encoding = i % 2 == 0 ? BASE_STR("zstd") : BASE_STR("");
    rig_run(&lane->rig, &exchange);
    (void)exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    (void)rig_report(&lane->rig, device, &lane->rollout, steps, 3);
}

static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    struct gw_worker *worker = lane->rig.worker.worker;
    gw_worker_on_hint(worker, write_hint, NULL, lane);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&lane->devices[i], base_mix64(lane->number * 1000 + i));
        rig_device_attr(&lane->devices[i], "os", i % 2 == 0 ? "ios" : "android");
        subscribe(lane, i);
    }
    // Until every device has the version: the stages advance meanwhile.
    for (uint32_t round = 0; lane->took < DEVICES; round++) {
        for (uint32_t i = 0; i < DEVICES; i++) {
            visit(lane, i);
        }
        struct rig_exchange exchange;
        rig_exchange_init(&exchange, GW_METHOD_GET, "/metrics");
        rig_run(&lane->rig, &exchange);
        rig_exchange_done(&exchange);
        gw_worker_latency(worker, round);
        (void)rig_pump(&lane->rig);
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        gw_worker_unsubscribe(worker, &lane->hints[i]);
    }
    while (rig_pump(&lane->rig)) {
    }
    return NULL;
}

// ---- Operators' calls go through a worker, as they do in the gateway.

struct operation {
    struct gw_control_call call;
    struct rig *rig;
    int what;
    bool done;
    struct gw_rollout_view view;
    struct wire_sha256 manifest;
};

static void run_operation(struct gw_core *core, struct gw_control_call *self)
{
    struct operation *operation = (struct operation *)self;
    struct base_error error = {0};
    (void)core;
    switch (operation->what) {
    case 0:
        rig_version(operation->rig, "t", "1.0.0", &operation->manifest);
        assert_int_equal(rig_rollout(operation->rig, ROLLOUT, "t", &operation->manifest, NULL, NULL,
                                     stages, 2, &operation->view, &error),
                         BASE_OK);
        break;
    case 1:
        assert_int_equal(gw_rollout_command(core, ROLLOUT, POL_COMMAND_START, NULL, &error),
                         BASE_OK);
        break;
    default:
        assert_int_equal(gw_rollout_get(core, ROLLOUT, &operation->view), BASE_OK);
        break;
    }
}

static void operation_done(struct gw_worker *worker, struct gw_control_call *self)
{
    (void)worker;
    ((struct operation *)self)->done = true;
}

static void operate(struct rig *rig, int what, struct operation *out)
{
    memset(out, 0, sizeof(*out));
    out->rig = rig;
    out->what = what;
    out->call.run = run_operation;
    out->call.done = operation_done;
    assert_int_equal(gw_control_post(rig->worker.worker, &out->call), BASE_OK);
    while (!out->done) {
        if (!rig_pump(rig)) {
            usleep(50);
        }
    }
}

static void test_everything_at_once(void **state)
{
    (void)state;
    struct rig rig;
    static struct lane lanes[WORKERS];
    pthread_t threads[WORKERS];
    struct operation operation;
    char hex[WIRE_SHA256_HEX + 1];
    rig_init(&rig);
    struct gw_core_options options = {.dir = rig.dir,
                                      .commit_delay_us = 500,
                                      .tick_ms = 5,
                                      .control_thread = true,
                                      .clock = *base_clock_real()};
    struct base_error error = {0};
    rig.control_thread = true;
    assert_int_equal(gw_core_new(&options, &rig.core, &error), BASE_OK);
    rig_worker_start(&rig.worker, rig.core);
    operate(&rig, 0, &operation);
    wire_sha256_hex(&operation.manifest, hex);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct lane *lane = &lanes[i];
        memset(lane, 0, sizeof(*lane));
        lane->rig.core = rig.core;
        lane->rig.control_thread = true;
        lane->number = i + 1;
        lane->rollout = operation.view;
        snprintf(lane->blob_path, sizeof(lane->blob_path), "/v1/blob/%s", hex);
        rig_worker_start(&lane->rig.worker, rig.core);
        assert_int_equal(pthread_create(&threads[i], NULL, run_lane, lane), 0);
    }
    operate(&rig, 1, &operation);
    uint32_t took = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        took += lanes[i].took;
        rig_worker_stop(&lanes[i].rig.worker);
    }
    assert_int_equal(took, WORKERS * DEVICES);
    do {
        operate(&rig, 2, &operation);
        usleep(1000);
    } while (operation.view.state != POL_ROLLOUT_COMPLETED);
    assert_int_equal(operation.view.counts.succeeded, WORKERS * DEVICES);
    assert_int_equal(operation.view.counts.offered, WORKERS * DEVICES);
    assert_int_equal(operation.view.counts.failed, 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
