// Devices as principals: enrolment, credentials and certificates at every door, revocation with its
// streams, and the walls between tenants. A core without sockets; sent as the transport sends it.
#include "core_rig.h"

#include "svc/access/credentials.h"
#include "svc/access/operators_private.h"
#include "svc/device/preview.h"
#include "wire/enrolment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct secret {
    char text[GW_SECRET_TEXT_BYTES + 1];
    char bearer[GW_SECRET_TEXT_BYTES + 8];
    uint64_t id;
};

static struct secret enrol_token(struct rig *rig, uint16_t tenant, uint32_t uses_max)
{
    struct secret out;
    struct gw_token_view view;
    struct base_error error = {0};
    struct gw_token_view wish = {
        .role = GW_ROLE_ENROL, .tenant = tenant, .uses_max = uses_max, .name = "factory"};
    assert_int_equal(gw_token_create(rig->core, &wish, &view, out.text, &error), BASE_OK);
    snprintf(out.bearer, sizeof(out.bearer), "Bearer %s", out.text);
    out.id = view.id;
    return out;
}

static uint16_t tenant_of(struct rig *rig, const char *name)
{
    struct gw_tenant tenant;
    struct base_error error = {0};
    bool created = false;
    assert_int_equal(gw_tenant_create(rig->core, base_str_of(name), &tenant, &created, &error),
                     BASE_OK);
    return tenant.id;
}

// Status of an enrolment; with 201 the credential is in `out`. `id` 0: the gateway draws it.
static int enrol(struct rig *rig, const char *bearer, uint64_t id, char *out, uint64_t *out_id)
{
    struct rig_exchange exchange;
    char hex[WIRE_DEVICE_HEX + 1];
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/enroll");
    exchange.exchange.request.authorization = base_str_of(bearer);
    if (id != 0) {
        wire_device_hex(id, hex);
        exchange.exchange.request.device = base_str_of(hex);
    }
    rig_run(rig, &exchange);
    const struct gw_reply *reply = &exchange.exchange.reply;
    int status = reply->status;
    if (status == 201) {
        struct wire_enrolment enrolment;
        assert_int_equal(wire_enrolment_parse(reply->body, reply->body_bytes, &enrolment), BASE_OK);
        assert_true(id == 0 || enrolment.device_id == id);
        assert_int_equal(enrolment.credential.size, GW_SECRET_TEXT_BYTES);
        if (out != NULL) {
            memcpy(out, enrolment.credential.data, enrolment.credential.size);
            out[enrolment.credential.size] = 0;
        }
        if (out_id != NULL) {
            *out_id = enrolment.device_id;
        }
    }
    rig_exchange_done(&exchange);
    return status;
}

static int checkin(struct rig *rig, uint64_t id)
{
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_device_init(&device, id);
    int status = rig_checkin(rig, &device, true, &exchange, &offers);
    rig_exchange_done(&exchange);
    return status;
}

static int send_to(struct rig *rig, enum gw_method method, const char *path, uint64_t id)
{
    struct rig_exchange exchange;
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    struct rig_device device;
    rig_device_init(&device, id);
    wire_device_hex(id, hex);
    rig_exchange_init(&exchange, method, path);
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.credential = base_str_of(rig->credential);
    exchange.exchange.request.profile = rig_device_profile(&device, true, text);
    rig_run(rig, &exchange);
    int status = exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    return status;
}

static int report(struct rig *rig, uint64_t id)
{
    struct wire_report report = {.device_id = id, .epoch = 1, .first_seq = 1, .count = 1};
    report.outcomes[0] = (struct wire_outcome){.kind = WIRE_OUTCOME_RAN, .rollout_id = 99};
    return rig_send_report(rig, &report);
}

// Every door of a device with the credential the rig has: the same answer at each.
static void expect_doors(struct rig *rig, uint64_t id, int refusal)
{
    char blob[96] = "/v1/blob/";
    memset(blob + 9, 'a', 64);
    int checked = checkin(rig, id);
    int pushed = send_to(rig, GW_METHOD_GET, "/v1/push", id);
    int pulled = send_to(rig, GW_METHOD_GET, blob, id);
    int reported = report(rig, id);
    if (refusal != 0) {
        assert_int_equal(checked, refusal);
        assert_int_equal(pushed, refusal);
        assert_int_equal(pulled, refusal);
        assert_int_equal(reported, refusal);
    } else {
        assert_int_equal(checked, 204);
        assert_int_equal(pushed, 200);
        assert_int_equal(pulled, 404); // let in; there is no such blob
        assert_int_equal(reported, 204);
    }
}

// A row that says how often its device was reset says it of one that was.
static void test_rows_are_read_as_written(void **state)
{
    (void)state;
    uint8_t row[GW_CREDENTIAL_ROW_MAX];
    for (unsigned i = 0; i < 4; i++) {
        struct gw_credential written = {.state = GW_CREDENTIAL_PENDING,
                                        .tenant = 3,
                                        .enrolled_s = 4,
                                        .changed_s = 5,
                                        .token_id = 6,
                                        .keyed = (i & 1) != 0,
                                        .resets = i / 2 * 7};
        struct gw_credential read = {0};
        written.hash.bytes[31] = 8;
        size_t size = gw_credential_encode(&written, row);
        assert_int_equal(gw_credential_decode(row, size, &read), BASE_OK);
        assert_int_equal(read.resets, written.resets);
        assert_int_equal(read.keyed, written.keyed);
        assert_int_equal(read.token_id, 6);
        assert_int_equal(read.hash.bytes[31], 8);
        assert_int_equal(gw_credential_decode(row, size - 1, &read), BASE_ERR_CORRUPT);
        if (written.resets > 0) {
            memset(row + size - sizeof(uint32_t), 0, sizeof(uint32_t));
            assert_int_equal(gw_credential_decode(row, size, &read), BASE_ERR_CORRUPT);
        }
        written.state = GW_CREDENTIAL_TOKEN; // shown: by which key it was made is over
        size = gw_credential_encode(&written, row);
        assert_int_equal(gw_credential_decode(row, size, &read), BASE_OK);
        assert_false(read.keyed);
        row[0]++;
        assert_int_equal(gw_credential_decode(row, size, &read), BASE_ERR_CORRUPT);
        row[0] = 0;
        assert_int_equal(gw_credential_decode(row, size, &read), BASE_ERR_CORRUPT);
        row[0] = 5;
        assert_int_equal(gw_credential_decode(row, size, &read), BASE_ERR_CORRUPT);
    }
}

static void settle(struct rig *rig)
{
    for (int i = 0; i < 3; i++) {
        rig_settle(rig);
    }
}

static void test_credential_opens_every_door(void **state)
{
    (void)state;
    struct rig rig;
    char credential[64] = "";
    char other[64] = "";
    rig_init(&rig);
    rig_start(&rig);
    struct secret token = enrol_token(&rig, 0, 0);
    expect_doors(&rig, 42, 0); // a stranger, where strangers are served
    assert_int_equal(enrol(&rig, token.bearer, 42, credential, NULL), 201);
    assert_int_equal(enrol(&rig, token.bearer, 43, other, NULL), 201);
    assert_string_not_equal(credential, other);
    expect_doors(&rig, 42, 401); // known now: it has to show itself
    static const char *const wrong[] = {"", "x", "wdt_",
                                        "wat_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        rig.credential = wrong[i];
        expect_doors(&rig, 42, 401);
    }
    rig.credential = other; // another device's
    expect_doors(&rig, 42, 401);
    for (size_t i = 0; i < GW_SECRET_TEXT_BYTES; i++) { // every character counts
        char bent[64];
        memcpy(bent, credential, sizeof(bent));
        bent[i] = bent[i] == 'A' ? 'B' : 'A';
        rig.credential = bent;
        // The last character carries two bits more than there are: they may not be used either.
        assert_int_equal(checkin(&rig, 42), 401);
    }
    rig.credential = credential;
    expect_doors(&rig, 42, 0);
    expect_doors(&rig, 44, 401); // a stranger with somebody's credential
    rig.credential = NULL;
    expect_doors(&rig, 44, 0);
    // After a restart nothing is different.
    settle(&rig);
    rig_stop(&rig);
    rig_start(&rig);
    expect_doors(&rig, 42, 401);
    rig.credential = credential;
    expect_doors(&rig, 42, 0);
    rig_done(&rig);
}

static void test_required_keeps_strangers_out(void **state)
{
    (void)state;
    struct rig rig;
    char credential[64] = "";
    uint64_t id = 0;
    rig_init(&rig);
    rig.device_auth_required = true;
    rig_start(&rig);
    expect_doors(&rig, 42, 401);
    struct secret token = enrol_token(&rig, 0, 0);
    assert_int_equal(enrol(&rig, token.bearer, 0, credential, &id),
                     201); // the gateway draws the id
    assert_true(id != 0);
    rig.credential = credential;
    expect_doors(&rig, id, 0);
    rig_done(&rig);
}

static void test_enrolment_is_guarded(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct secret twice = enrol_token(&rig, 0, 2);
    assert_int_equal(enrol(&rig, "", 1, NULL, NULL), 401);
    assert_int_equal(enrol(&rig, "Bearer wet_", 1, NULL, NULL), 401);
    assert_int_equal(enrol(&rig, twice.text, 1, NULL, NULL), 401); // not as a bearer token
    assert_int_equal(enrol(&rig, twice.bearer, 1, NULL, NULL), 201);
    // The answer was lost: it comes again, and that costs no use.
    char credential[64];
    assert_int_equal(enrol(&rig, twice.bearer, 1, credential, NULL), 201);
    rig.credential = credential;
    assert_int_equal(checkin(&rig, 1), 204);
    settle(&rig);
    // Shown once: from now on nobody else can take its place.
    assert_int_equal(enrol(&rig, twice.bearer, 1, NULL, NULL), 409);
    assert_int_equal(enrol(&rig, twice.bearer, 2, NULL, NULL), 201);
    assert_int_equal(enrol(&rig, twice.bearer, 3, NULL, NULL), 403); // used up
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(enrol(&rig, twice.bearer, 1, NULL, NULL), 403);
    struct secret another = enrol_token(&rig, 0, 0);
    assert_int_equal(enrol(&rig, another.bearer, 1, NULL, NULL), 409);
    assert_int_equal(enrol(&rig, another.bearer, 2, NULL, NULL), 409); // pending, by another token
    assert_int_equal(checkin(&rig, 1), 204);
    // An operator's token opens nothing here, and an enrolment token nothing there.
    struct gw_token_view view;
    struct base_error error = {0};
    char text[GW_SECRET_TEXT_BYTES + 1];
    char bearer[64];
    struct gw_token_view wish = {.role = GW_ROLE_ADMIN, .name = "ana"};
    assert_int_equal(gw_token_create(rig.core, &wish, &view, text, &error), BASE_OK);
    snprintf(bearer, sizeof(bearer), "Bearer %s", text);
    assert_int_equal(enrol(&rig, bearer, 9, NULL, NULL), 401);
    struct gw_actor actor;
    struct rig_exchange exchange;
    rig_exchange_init(&exchange, GW_METHOD_GET, "/api/v1/tasks");
    exchange.exchange.request.authorization = base_str_of(another.bearer);
    assert_false(gw_access_check(rig.core, &exchange.exchange, &actor));
    assert_int_equal(exchange.exchange.reply.status, 401);
    exchange.exchange.request.authorization = base_str_of(bearer);
    assert_true(gw_access_check(rig.core, &exchange.exchange, &actor));
    rig_exchange_done(&exchange);
    rig_done(&rig);
}

// Begins one; it is not over before something else makes the writer go.
static void enrol_begin(struct rig *rig, struct rig_exchange *exchange, const char *bearer,
                        char hex[WIRE_DEVICE_HEX + 1], uint64_t id)
{
    rig_exchange_init(exchange, GW_METHOD_POST, "/v1/enroll");
    exchange->exchange.request.authorization = base_str_of(bearer);
    wire_device_hex(id, hex);
    exchange->exchange.request.device = base_str_of(hex);
    gw_core_handle(rig->worker.worker, &exchange->exchange);
}

// A token's row is written while enrolments are under way that come to nothing: theirs are no uses,
// on disk either.
static void test_refused_enrolments_are_no_uses(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_exchange exchanges[3];
    char hex[3][WIRE_DEVICE_HEX + 1];
    char credential[64];
    struct gw_token_view view;
    const struct gw_actor admin = {.role = GW_ROLE_ADMIN, .every_tenant = true};
    static const uint64_t ids[] = {1, 2, 1};
    static const int expected[] = {409, 201, 409};
    rig_init(&rig);
    rig_start(&rig);
    struct secret token = enrol_token(&rig, 0, 0);
    assert_int_equal(enrol(&rig, token.bearer, 1, credential, NULL), 201);
    rig.credential = credential;
    assert_int_equal(checkin(&rig, 1), 204);
    settle(&rig);
    rig_stop(&rig);
    rig.commit_delay_us = 600000000; // the writer waits for company, until something is urgent
    rig_start(&rig);
    rig_advance_s(&rig, GW_TOKEN_SEEN_S);
    for (size_t i = 0; i < 3; i++) {
        enrol_begin(&rig, &exchanges[i], token.bearer, hex[i], ids[i]);
    }
    gw_operators_flush(rig.core);
    for (size_t i = 0; i < 3; i++) {
        while (!exchanges[i].finished) {
            (void)rig_pump(&rig);
        }
        assert_int_equal(exchanges[i].exchange.reply.status, expected[i]);
        rig_exchange_done(&exchanges[i]);
    }
    for (int restarted = 0; restarted < 2; restarted++) {
        assert_int_equal(gw_token_get(rig.core, &admin, token.id, &view), BASE_OK);
        assert_int_equal(view.uses, 2);
        rig_stop(&rig);
        rig_start(&rig);
    }
    rig_done(&rig);
}

static void test_enrolment_has_a_rate(void **state)
{
    (void)state;
    struct rig rig;
    unsigned enrolled = 0;
    unsigned limited = 0;
    rig_init(&rig);
    rig.enroll_rate_per_s = 10;
    rig_start(&rig);
    struct secret token = enrol_token(&rig, 0, 0);
    for (uint64_t id = 1; id <= 30; id++) {
        int status = enrol(&rig, token.bearer, id, NULL, NULL);
        enrolled += status == 201;
        limited += status == 429;
    }
    assert_int_equal(enrolled, 10);
    assert_int_equal(limited, 20);
    rig_advance_s(&rig, 1);
    assert_int_equal(enrol(&rig, token.bearer, 20, NULL, NULL), 201);
    rig_done(&rig);
}

struct ended {
    unsigned count;
    struct gw_hint *last;
};

static void end_hint(void *ctx, struct gw_hint *hint)
{
    struct ended *ended = ctx;
    ended->count++;
    ended->last = hint;
}

static bool take_hint(void *ctx, struct gw_hint *hint, struct base_str text)
{
    (void)ctx;
    (void)hint;
    (void)text;
    return true;
}

static void test_revocation(void **state)
{
    (void)state;
    struct rig rig;
    char credentials[3][64];
    struct gw_hint hints[3];
    struct ended ended = {0};
    struct gw_credential credential;
    rig_init(&rig);
    rig_start(&rig);
    gw_worker_on_hint(rig.worker.worker, take_hint, end_hint, &ended);
    struct secret token = enrol_token(&rig, 0, 0);
    for (uint64_t i = 0; i < 3; i++) {
        struct rig_exchange exchange;
        char hex[WIRE_DEVICE_HEX + 1];
        char text[WIRE_PROFILE_TEXT_MAX + 4];
        struct rig_device device;
        assert_int_equal(enrol(&rig, token.bearer, i + 1, credentials[i], NULL), 201);
        rig_device_init(&device, i + 1);
        wire_device_hex(i + 1, hex);
        rig_exchange_init(&exchange, GW_METHOD_GET, "/v1/push");
        exchange.exchange.request.device = base_str_of(hex);
        exchange.exchange.request.credential = base_str_of(credentials[i]);
        exchange.exchange.request.profile = rig_device_profile(&device, true, text);
        rig_run(&rig, &exchange);
        assert_int_equal(exchange.exchange.reply.kind, GW_REPLY_STREAM);
        gw_worker_subscribe(rig.worker.worker, &exchange.exchange, &hints[i]);
        rig_exchange_done(&exchange);
    }
    settle(&rig);
    assert_int_equal(ended.count, 0);
    assert_int_equal(gw_device_revoke(rig.core, 2, &credential), BASE_OK);
    assert_int_equal(credential.state, GW_CREDENTIAL_REVOKED);
    settle(&rig);
    assert_int_equal(ended.count, 1); // its stream, and no other
    assert_ptr_equal(ended.last, &hints[1]);
    for (int i = 0; i < 3; i++) {
        gw_worker_unsubscribe(rig.worker.worker, &hints[i]);
    }
    rig.credential = credentials[1];
    expect_doors(&rig, 2, 403);
    rig.credential = NULL;
    expect_doors(&rig, 2, 403);
    rig.credential = credentials[0];
    expect_doors(&rig, 1, 0);
    assert_int_equal(enrol(&rig, token.bearer, 2, NULL, NULL), 409); // not by itself
    rig_stop(&rig);
    rig_start(&rig);
    rig.credential = credentials[1];
    expect_doors(&rig, 2, 403);
    // Forgotten, it is not served as a stranger either, until it enrols anew.
    assert_int_equal(gw_device_forget(rig.core, 2, &credential), BASE_OK);
    expect_doors(&rig, 2, 401);
    rig.credential = NULL;
    expect_doors(&rig, 2, 401);
    char fresh[64];
    assert_int_equal(enrol(&rig, token.bearer, 2, fresh, NULL), 201);
    rig.credential = credentials[1];
    expect_doors(&rig, 2, 401);
    rig.credential = fresh;
    expect_doors(&rig, 2, 0);
    // A device that never enrolled can be shut out as well.
    rig.credential = NULL;
    assert_int_equal(checkin(&rig, 77), 204);
    assert_int_equal(gw_device_revoke(rig.core, 77, &credential), BASE_OK);
    expect_doors(&rig, 77, 403);
    rig_done(&rig);
}

static int checkin_certificate(struct rig *rig, uint64_t id, uint64_t names, const char *tenant)
{
    struct rig_exchange exchange;
    struct rig_device device;
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    rig_device_init(&device, id);
    wire_device_hex(id, hex);
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/checkin");
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.profile = rig_device_profile(&device, true, text);
    exchange.exchange.request.has_certificate = true;
    exchange.exchange.request.certificate_device = names;
    exchange.exchange.request.certificate_tenant = base_str_of(tenant);
    rig_run(rig, &exchange);
    int status = exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    return status;
}

static void test_certificates(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_credential credential;
    rig_init(&rig);
    rig.device_auth_required = true;
    rig_start(&rig);
    uint16_t acme = tenant_of(&rig, "acme");
    assert_int_equal(checkin_certificate(&rig, 5, 6, NULL), 401);     // another device's
    assert_int_equal(checkin_certificate(&rig, 5, 5, "nobody"), 401); // a tenant there is not
    assert_int_equal(checkin_certificate(&rig, 5, 5, "acme"), 204);
    settle(&rig);
    assert_int_equal(gw_device_tenant(rig.core, 5), acme);
    assert_int_equal(gw_device_credential(rig.core, 5), GW_CREDENTIAL_CERTIFICATE);
    assert_int_equal(checkin_certificate(&rig, 5, 5, NULL), 401); // it is bound to its tenant
    assert_int_equal(checkin(&rig, 5), 401);                      // and to its certificate
    rig_stop(&rig);
    rig.device_auth_required = false;
    rig_start(&rig);
    assert_int_equal(checkin(&rig, 5), 401);
    assert_int_equal(checkin_certificate(&rig, 5, 5, "acme"), 204);
    assert_int_equal(gw_device_revoke(rig.core, 5, &credential), BASE_OK);
    assert_int_equal(checkin_certificate(&rig, 5, 5, "acme"), 403);
    rig_done(&rig);
}

// ---- Tenants

static uint64_t devices_in_a_dry_run(struct rig *rig, uint16_t tenant)
{
    static struct gw_preview seen;
    struct gw_preview_spec spec = {.tenant = tenant};
    assert_int_equal(gw_preview_run(rig->core, &spec, &seen), BASE_OK);
    return seen.devices;
}

static void test_tenants_are_kept_apart(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 manifests[2];
    struct gw_rollout_view view;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    char credential[64];
    static const enum wire_outcome_kind failed[] = {WIRE_OUTCOME_FAIL_EXCEPTION};
    rig_init(&rig);
    rig_start(&rig);
    uint16_t acme = tenant_of(&rig, "acme");
    struct secret token = enrol_token(&rig, acme, 0);
    rig_baseline(&rig, "ours", 1, NULL, NULL, &manifests[0]);
    rig.tenant = acme;
    rig_baseline(&rig, "theirs", 2, NULL, NULL, &manifests[1]);
    (void)rig_pump(&rig);
    // A stranger is in "default", and so is offered that tenant's alone; an attribute of its own
    // making changes nothing.
    rig_device_init(&device, 10);
    rig_device_attr(&device, "tenant", "acme");
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    assert_true(rig_device_task(&device, "ours")->version_id == wire_version_id(&manifests[0]));
    rig_exchange_done(&exchange);
    // The other tenant's device, with the very same attributes.
    assert_int_equal(enrol(&rig, token.bearer, 11, credential, NULL), 201);
    rig.credential = credential;
    rig_device_init(&device, 11);
    rig_device_attr(&device, "tenant", "acme");
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    assert_true(rig_device_task(&device, "theirs")->version_id == wire_version_id(&manifests[1]));
    rig_exchange_done(&exchange);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    // What it says of the other's rollout counts for nothing; of its own, it counts.
    struct gw_rollout_view before;
    rig_view(&rig, 1, &before);
    rig_view(&rig, 1, &view);
    assert_int_equal(rig_report(&rig, &device, &view, failed, 1), 204);
    settle(&rig);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.counts.failed, before.counts.failed);
    rig_view(&rig, 2, &view);
    uint64_t failures = view.counts.failed;
    assert_int_equal(rig_report(&rig, &device, &view, failed, 1), 204);
    settle(&rig);
    rig_view(&rig, 2, &view);
    assert_int_equal(view.counts.failed, failures + 1);
    // A dry run sees its own tenant's devices alone.
    assert_int_equal(devices_in_a_dry_run(&rig, acme), 1);
    assert_int_equal(devices_in_a_dry_run(&rig, GW_TENANT_DEFAULT), 0); // the stranger left nothing
    // The operators' view.
    assert_int_equal(gw_device_tenant(rig.core, 10), 0);
    assert_int_equal(gw_device_tenant(rig.core, 11), acme);
    settle(&rig);
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(gw_device_tenant(rig.core, 11), acme);
    rig_view(&rig, 2, &view);
    assert_int_equal(view.counts.failed, failures + 1);
    rig_done(&rig);
}

// ---- Table

static void test_table_against_a_list(void **state)
{
    (void)state;
    enum { DEVICES = 20000 };
    struct gw_credentials *credentials = NULL;
    struct base_prng prng;
    static uint16_t tenants[DEVICES];
    static uint8_t states[DEVICES];
    base_prng_seed(&prng, 0x7ab1e);
    memset(states, 0, sizeof(states));
    assert_int_equal(gw_credentials_new(&(struct base_hash_key){1, 2}, &credentials), BASE_OK);
    for (uint32_t i = 0; i < 3 * DEVICES; i++) {
        uint32_t at = (uint32_t)base_prng_below(&prng, DEVICES);
        struct gw_credential credential = {
            .state = (enum gw_credential_state)base_prng_below(&prng, GW_CREDENTIAL_STATE_COUNT),
            .tenant = (uint16_t)base_prng_below(&prng, 1000)};
        tenants[at] = credential.tenant;
        states[at] = (uint8_t)(0x80u | (unsigned)credential.state);
        assert_true(gw_credentials_set(credentials, base_mix64(at), &credential));
    }
    uint64_t known = 0;
    for (uint32_t at = 0; at < DEVICES; at++) {
        known += states[at] != 0;
        assert_int_equal(gw_credentials_tenant(credentials, base_mix64(at)), tenants[at]);
        assert_int_equal(gw_credentials_state(credentials, base_mix64(at)), states[at] & 0x7f);
    }
    assert_int_equal(gw_credentials_count(credentials), known);
    // Slots are about four fifths full, and hardly ever less than six tenths.
    assert_in_range(gw_credentials_bytes(credentials), known * 30, known * 40 + 65536);
    gw_credentials_free(credentials);
}

static bool plain_with(struct gw_credentials *credentials, uint64_t device_id,
                       enum gw_credential_state state, uint16_t tenant)
{
    const struct gw_credential credential = {.state = state, .tenant = tenant};
    assert_true(gw_credentials_set(credentials, device_id, &credential));
    return gw_credentials_plain(credentials);
}

// Walks over all devices look nobody up while this says so: it has to follow each change.
static void test_plain_while_nobody_is_apart(void **state)
{
    (void)state;
    struct gw_credentials *credentials = NULL;
    assert_int_equal(gw_credentials_new(&(struct base_hash_key){1, 2}, &credentials), BASE_OK);
    assert_true(gw_credentials_plain(credentials));
    assert_true(plain_with(credentials, 1, GW_CREDENTIAL_TOKEN, GW_TENANT_DEFAULT));
    assert_true(plain_with(credentials, 2, GW_CREDENTIAL_PENDING, GW_TENANT_DEFAULT));
    assert_false(plain_with(credentials, 1, GW_CREDENTIAL_REVOKED, GW_TENANT_DEFAULT));
    assert_false(plain_with(credentials, 1, GW_CREDENTIAL_REVOKED, GW_TENANT_DEFAULT));
    assert_false(plain_with(credentials, 2, GW_CREDENTIAL_TOKEN, 7)); // two are
    assert_false(plain_with(credentials, 1, GW_CREDENTIAL_NONE, GW_TENANT_DEFAULT));
    assert_false(plain_with(credentials, 2, GW_CREDENTIAL_REVOKED, 7));
    assert_false(plain_with(credentials, 2, GW_CREDENTIAL_NONE, 7)); // forgotten, in its tenant
    assert_true(plain_with(credentials, 2, GW_CREDENTIAL_NONE, GW_TENANT_DEFAULT));
    for (uint64_t id = 10; id < 200; id++) { // slots move as they grow
        (void)plain_with(credentials, id, GW_CREDENTIAL_REVOKED, 3);
    }
    for (uint64_t id = 10; id < 200; id++) {
        assert_false(gw_credentials_plain(credentials));
        (void)plain_with(credentials, id, GW_CREDENTIAL_TOKEN, GW_TENANT_DEFAULT);
    }
    assert_true(gw_credentials_plain(credentials));
    gw_credentials_free(credentials);
}

static void test_equal_secrets(void **state)
{
    (void)state;
    uint8_t a[32];
    uint8_t b[32];
    struct base_prng prng;
    base_prng_seed(&prng, 1);
    for (size_t i = 0; i < sizeof(a); i++) {
        a[i] = (uint8_t)base_prng_next(&prng);
    }
    memcpy(b, a, sizeof(b));
    assert_true(gw_secret_equal(a, b, sizeof(a)));
    for (size_t i = 0; i < sizeof(a); i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            b[i] ^= (uint8_t)(1u << bit);
            assert_false(gw_secret_equal(a, b, sizeof(a)));
            b[i] ^= (uint8_t)(1u << bit);
        }
    }
    assert_true(gw_secret_equal(a, b, 0));
}

// As many tokens as there may be; then one that is dead gives its place, and only such a one.
static void test_dead_tokens_make_room(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_token_view view;
    struct base_error error = {0};
    char text[GW_SECRET_TEXT_BYTES + 1];
    const struct gw_actor admin = {.role = GW_ROLE_ADMIN, .every_tenant = true};
    struct gw_token_view wish = {.role = GW_ROLE_VIEWER, .name = "ana"};
    uint64_t first = 0;
    rig_init(&rig);
    rig_start(&rig);
    assert_int_equal(gw_token_create(rig.core, &wish, &view, text, &error), BASE_OK);
    first = view.id;
    // The others in memory alone: thousands of commits would take a minute.
    struct gw_operators *operators = rig.core->operators;
    while (operators->token_count < GW_TOKENS_MAX) {
        struct gw_token *token = calloc(1, sizeof(*token));
        assert_non_null(token);
        token->view.id = operators->tokens[operators->token_count - 1]->view.id + 1;
        operators->tokens[operators->token_count++] = token;
    }
    assert_int_equal(gw_token_create(rig.core, &wish, &view, text, &error), BASE_ERR_LIMIT);
    assert_int_equal(gw_token_revoke(rig.core, &admin, first, &view, &error), BASE_OK);
    assert_int_equal(gw_token_create(rig.core, &wish, &view, text, &error), BASE_OK);
    assert_int_equal(gw_token_get(rig.core, &admin, first, &view), BASE_ERR_NOT_FOUND);
    assert_int_equal(gw_token_create(rig.core, &wish, &view, text, &error), BASE_ERR_LIMIT);
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(gw_token_get(rig.core, &admin, first, &view), BASE_ERR_NOT_FOUND);
    assert_int_equal(rig.core->operators->token_count, 1);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credential_opens_every_door),
        cmocka_unit_test(test_required_keeps_strangers_out),
        cmocka_unit_test(test_rows_are_read_as_written),
        cmocka_unit_test(test_enrolment_is_guarded),
        cmocka_unit_test(test_refused_enrolments_are_no_uses),
        cmocka_unit_test(test_enrolment_has_a_rate),
        cmocka_unit_test(test_revocation),
        cmocka_unit_test(test_certificates),
        cmocka_unit_test(test_tenants_are_kept_apart),
        cmocka_unit_test(test_table_against_a_list),
        cmocka_unit_test(test_plain_while_nobody_is_apart),
        cmocka_unit_test(test_equal_secrets),
        cmocka_unit_test(test_dead_tokens_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
