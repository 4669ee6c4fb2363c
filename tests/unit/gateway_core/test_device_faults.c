// What is not taken of devices is counted, told in the log once an interval, and known by `why`.
#include "core_rig.h"

#include "svc/device/touches.h"
#include "svc/device/device_faults.h"
#include "svc/view/why.h"
#include "test_kit.h"

#define TASK   "t"
#define VICTIM 0x77u

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_start(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static uint64_t count_of(enum gw_fault_what what, const char *status)
{
    enum gw_fault_what which;
    const char *text;
    uint64_t count = 0;
    for (uint32_t i = 0; gw_faults_count(rig.core, i, &which, &text, &count); i++) {
        if (which == what && strcmp(text, status) == 0) {
            return count;
        }
    }
    fail_msg("no count of %s", status);
    return 0;
}

// A report that is too long, of a device that names itself.
static int too_long(uint64_t id)
{
    static uint8_t body[WIRE_REPORT_BYTES_MAX + 1];
    char hex[WIRE_DEVICE_HEX + 1];
    struct rig_exchange exchange;
    wire_device_hex(id, hex);
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/report");
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.has_certificate = rig.certified;
    exchange.exchange.request.certificate_device = id;
    exchange.exchange.request.body = body;
    exchange.exchange.request.body_bytes = sizeof(body);
    rig_run(&rig, &exchange);
    int status = exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    return status;
}

static void test_what_failed_is_known(void **state)
{
    (void)state;
    struct gw_fault fault;
    assert_false(gw_faults_last(rig.core, VICTIM, &fault));
    assert_int_equal(too_long(VICTIM), 413);
    assert_true(gw_faults_last(rig.core, VICTIM, &fault));
    assert_int_equal(fault.status, 413);
    assert_int_equal(fault.what, GW_FAULT_REPORT);
    assert_string_equal(fault.detail, "a report has at most 16384 bytes");
    assert_int_equal(fault.at_s, gw_core_now_s(rig.core));
    assert_int_equal(count_of(GW_FAULT_REPORT, "413"), 1);
    assert_int_equal(count_of(GW_FAULT_CHECKIN, "413"), 0);
}

// A device that shows who it is: what others send in its name is counted, and not laid to it.
static void test_strangers_say_nothing_of_others(void **state)
{
    (void)state;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct gw_fault fault;
    rig.certified = true;
    rig_device_init(&device, VICTIM);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    gw_worker_flush_touches(rig.worker.worker);
    rig.certified = false;
    assert_int_equal(too_long(VICTIM), 413);
    assert_false(gw_faults_last(rig.core, VICTIM, &fault));
    assert_int_equal(count_of(GW_FAULT_REPORT, "413"), 1);
}

static void test_why_says_it(void **state)
{
    (void)state;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_sha256 manifest;
    struct base_error error = {0};
    struct gw_why_view *view = calloc(1, sizeof(*view));
    assert_non_null(view);
    rig.certified = true;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    rig_device_init(&device, VICTIM);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    gw_worker_flush_touches(rig.worker.worker);
    rig_settle(&rig);
    assert_int_equal(gw_device_why(rig.core, VICTIM, BASE_STR(TASK), view, &error), BASE_OK);
    assert_int_equal(view->fault.what, GW_FAULT_NONE);
    struct gw_exchange answered = {.reply = {.status = 503}};
    char hex[WIRE_DEVICE_HEX + 1];
    wire_device_hex(VICTIM, hex);
    bool proven = true;
    answered.request.device = base_str_of(hex);
    answered.request.path = BASE_STR("/v1/checkin");
    answered.request.has_certificate = true;
    answered.request.certificate_device = VICTIM;
    answered.request.proven = &proven;
    gw_core_refused(rig.worker.worker, &answered);
    assert_int_equal(gw_device_why(rig.core, VICTIM, BASE_STR(TASK), view, &error), BASE_OK);
    assert_int_equal(view->fault.what, GW_FAULT_CHECKIN);
    assert_int_equal(view->fault.status, 503);
    free(view);
}

// Reports one outcome, of a rollout or (0) of none.
static int say(uint64_t seq, uint64_t rollout_id, const char *detail)
{
    static struct wire_report report;
    report = (struct wire_report){.device_id = VICTIM, .epoch = 1, .first_seq = seq, .count = 1};
    report.outcomes[0] = (struct wire_outcome){.kind = WIRE_OUTCOME_FAIL_VERIFY,
                                               .rollout_id = rollout_id,
                                               .fingerprint = 1,
                                               .detail = base_str_of(detail)};
    return rig_send_report(&rig, &report);
}

static void expect_disbelief(const char *detail)
{
    struct gw_fault fault;
    assert_true(gw_faults_last(rig.core, VICTIM, &fault));
    assert_int_equal(fault.what, GW_FAULT_DISBELIEF);
    assert_int_equal(fault.status, 0);
    assert_string_equal(fault.detail, detail);
    assert_int_equal(fault.at_s, gw_core_now_s(rig.core));
}

// What a device did not believe is of no rollout: it is said where one asks about the device.
static void test_what_it_does_not_believe(void **state)
{
    (void)state;
    rig.certified = true;
    assert_int_equal(say(1, 0, "snapshot: \x1b[2Jother bytes"), 204);
    expect_disbelief("snapshot: \\u001b[2Jother bytes");
    // Of a rollout that is not there nothing is said.
    assert_int_equal(say(2, 7, "else"), 204);
    expect_disbelief("snapshot: \\u001b[2Jother bytes");
    // Nor by who does not show to be the device.
    rig.certified = false;
    (void)say(3, 0, "a stranger's");
    expect_disbelief("snapshot: \\u001b[2Jother bytes");
}

// As many as there are places, and more: the newest are known, and nothing else is touched.
static void test_more_than_there_are_places(void **state)
{
    (void)state;
    struct gw_fault fault;
    for (uint64_t id = 1; id <= 2 * GW_FAULTS_MAX; id++) {
        rig_advance_s(&rig, 1);
        assert_int_equal(too_long(id), 413);
        assert_true(gw_faults_last(rig.core, id, &fault));
        assert_true(fault.device_id == id);
    }
    assert_int_equal(count_of(GW_FAULT_REPORT, "413"), 2 * GW_FAULTS_MAX);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_what_failed_is_known),
        CASE(test_strangers_say_nothing_of_others),
        CASE(test_why_says_it),
        CASE(test_what_it_does_not_believe),
        CASE(test_more_than_there_are_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
