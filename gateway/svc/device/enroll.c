// POST /v1/enroll: a device with an enrolment token becomes known and gets its credential. Checked
// and answered on the worker's thread; applied and remembered on the writer's. The answer goes out
// when the credential is on disk.
#include "svc/access/credentials.h"

#include "svc/core_private.h"
#include "svc/access/enrol_key.h"
#include "svc/access/operators.h"
#include "svc/reply.h"
#include "svc/core_worker.h"
#include "svc/device/device_table.h"

#include "wire/enrolment.h"

#include <string.h>

struct enrol_job {
    struct gw_store_op op;
    struct gw_message message;
    struct gw_worker *worker;
    struct gw_exchange *exchange;
    enum base_status status;
    uint64_t device_id;
    struct gw_credential credential;
    bool taken;   // one of the token's uses
    bool again;   // issued before, never shown
    bool foreign; // what another tenant knows
    bool counted; // the token's use
    char secret[GW_SECRET_TEXT_BYTES + 1];
};

// An id that nobody has enrolled is of the tenant `default` as soon as anything is known of it: a
// record (it reported there), or a user it was bound to. No other tenant's token takes it. The
// table knows a record before the store does.
static enum base_status is_foreign(struct gw_store_txn *txn, const struct enrol_job *job,
                                   bool *out_foreign)
{
    struct gw_key key = gw_key_u64(job->device_id);
    struct base_span value;
    *out_foreign = false;
    if (job->credential.tenant == GW_TENANT_DEFAULT) {
        return BASE_OK;
    }
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_USERS, &key, &value);
    if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    *out_foreign =
        status == BASE_OK || gw_device_table_has(job->worker->core->table, job->device_id);
    return BASE_OK;
}

// May the device be given a credential, where a row of it stands? A device whose answer was lost
// comes again with the same enrolment token; one that brought a key the first time, with that.
static bool may_replace(struct enrol_job *job, const struct gw_credential *old)
{
    const struct gw_credential *now = &job->credential;
    bool pending = old->state == GW_CREDENTIAL_PENDING && old->token_id == now->token_id;
    bool same =
        now->keyed && gw_secret_equal(old->hash.bytes, now->hash.bytes, sizeof(now->hash.bytes));
    job->again = pending && (same || !old->keyed);
    return job->again || (old->state == GW_CREDENTIAL_NONE && old->tenant == now->tenant);
}

// What a key made holds for the resets there were when it was asked for; a random one for any.
// False: the device was reset meanwhile.
static bool follows_resets(struct enrol_job *job, uint32_t resets)
{
    if (!job->credential.keyed) {
        job->credential.resets = resets;
    }
    return job->credential.resets == resets;
}

static enum base_status apply_enrol(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct enrol_job *job = (struct enrol_job *)self;
    uint8_t row[GW_CREDENTIAL_ROW_MAX];
    uint8_t token_row[GW_TOKEN_ROW_MAX];
    struct gw_credential old = {0};
    struct base_span value;
    struct gw_key key = gw_key_u64(job->device_id);
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_CREDENTIALS, &key, &value);
    job->again = false;
    job->foreign = false;
    if (status == BASE_OK) {
        BASE_TRY(gw_credential_decode(value.data, value.size, &old));
        if (!may_replace(job, &old)) {
            return BASE_ERR_EXISTS;
        }
    } else if (status != BASE_ERR_NOT_FOUND) {
        return status;
    } else {
        BASE_TRY(is_foreign(txn, job, &job->foreign));
        if (job->foreign) {
            return BASE_ERR_EXISTS;
        }
    }
    if (!follows_resets(job, old.resets)) {
        return BASE_ERR_BUSY; // what it asked for (again) was reset meanwhile: it is a new one
    }
    size_t size = gw_credential_encode(&job->credential, row);
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_CREDENTIALS, &key, row, size));
    if (!job->again && !job->counted) { // a group may be applied more than once
        gw_access_enrolment_count(job->worker->core, job->credential.token_id);
        job->counted = true;
    }
    size = gw_operators_token_row(job->worker->core, job->credential.token_id, token_row);
    key = gw_key_u64(job->credential.token_id);
    return size == 0 ? BASE_OK : gw_store_txn_put(txn, GW_TABLE_TOKENS, &key, token_row, size);
}

static void finish_enrol(struct gw_message *message)
{
    struct enrol_job *job =
        (struct enrol_job *)((char *)message - offsetof(struct enrol_job, message));
    struct gw_exchange *exchange = job->exchange;
    struct wire_enrolment enrolment = {.device_id = job->device_id,
                                       .credential = base_str_of(job->secret)};
    size_t size = 0;
    uint8_t *body = base_arena_alloc(exchange->arena, WIRE_ENROLMENT_BYTES_MAX);
    if (job->status == BASE_ERR_EXISTS) {
        gw_reply_problem(exchange, 409, "%s",
                         job->foreign ? "another tenant knows this device: it enrols with a token "
                                        "of that one, or once its record there has ended"
                                      : "this device is enrolled; an operator can reset it");
    } else if (job->status != BASE_OK) {
        gw_reply_failure(exchange, job->status, "the enrolment could not be stored",
                         job->worker->core->set.retry_after_s);
    } else if (body == NULL || wire_enrolment_encode(&enrolment, body, WIRE_ENROLMENT_BYTES_MAX,
                                                     &size) != BASE_OK) {
        gw_reply_busy(exchange, job->worker->core->set.retry_after_s);
    } else {
        gw_reply_body(exchange, 201, BASE_STR("application/octet-stream"), body, size);
        gw_reply_header(&exchange->reply, BASE_STR("cache-control"), BASE_STR("no-store"));
    }
    gw_exchange_finish(exchange);
}

static void enrol_done(struct gw_store_op *self, enum base_status status)
{
    struct enrol_job *job = (struct enrol_job *)self;
    struct gw_core *core = job->worker->core;
    job->status = status;
    if (status == BASE_OK &&
        !gw_credentials_set(core->credentials, job->device_id, &job->credential)) {
        job->status = BASE_ERR_NOMEM;
    }
    if (job->taken && (status != BASE_OK || job->again)) {
        gw_access_enrolment_undo(core, job->credential.token_id, job->counted);
    }
    job->worker->post(job->worker->post_ctx, &job->message);
}

// What a device with a key is given under this id, in `out`, after the resets in `out_resets`.
// True: it was given that before, and has not shown it.
static bool make_of_key(struct gw_core *core, const struct gw_request *request, uint64_t device_id,
                        uint32_t *out_resets, char out[GW_SECRET_TEXT_BYTES + 1])
{
    struct wire_sha256 hash;
    struct gw_credential stored;
    // Unreadable: taken as never reset, which the writer refuses where it is not so.
    *out_resets = gw_credential_get(core, device_id, &stored) == BASE_OK ? stored.resets : 0;
    struct gw_enrol_who who = {request->enrol_key, request->authorization, device_id, *out_resets};
    return gw_enrol_key_credential(&who, out) == BASE_OK &&
           gw_secret_hash(base_str_of(out), GW_SECRET_DEVICE, &hash) &&
           gw_credentials_pending_as(core->credentials, device_id, &hash);
}

// An id for a device that has none: of its key, so that it is the same when it asks again; any
// other when those are taken.
static uint64_t draw_id(struct gw_core *core, const struct gw_request *request)
{
    char secret[GW_SECRET_TEXT_BYTES + 1];
    uint32_t resets = 0;
    uint64_t id = 0;
    for (uint32_t i = 0; request->enrol_key.size > 0 && i < GW_ENROL_KEY_DRAWS; i++) {
        id = gw_enrol_key_id(request->enrol_key, i);
        if (gw_credentials_state(core->credentials, id) == GW_CREDENTIAL_NONE ||
            make_of_key(core, request, id, &resets, secret)) {
            return id;
        }
    }
    do {
        id = core->random.next(core->random.ctx);
    } while (id == 0 || gw_credentials_state(core->credentials, id) != GW_CREDENTIAL_NONE);
    return id;
}

// The id the device brings, or one drawn for it. False: the reply is filled.
static bool take_id(struct gw_core *core, struct gw_exchange *exchange, uint64_t *out)
{
    const struct gw_request *request = &exchange->request;
    if (request->enrol_key.size > 0 && !gw_enrol_key_ok(request->enrol_key)) {
        gw_reply_problem(exchange, 400,
                         "walle-enroll-key: not " GW_SECRET_ENROL_KEY " and 32 bytes in base64url");
        return false;
    }
    if (request->device.size > 0) {
        if (wire_device_parse_own(request->device, out) != BASE_OK) {
            gw_reply_problem(exchange, 400, "walle-device: " WIRE_DEVICE_OWN_EXPECTED);
            return false;
        }
        return true;
    }
    if (core->random.next == NULL) {
        gw_reply_problem(exchange, 400, "walle-device: missing");
        return false;
    }
    *out = draw_id(core, request);
    return true;
}

static void fill(struct enrol_job *job, struct gw_worker *worker, struct gw_exchange *exchange)
{
    (void)gw_secret_hash(base_str_of(job->secret), GW_SECRET_DEVICE, &job->credential.hash);
    job->op.sort_key = job->credential.token_id; // rows of one token in order
    job->op.apply = apply_enrol;
    job->op.done = enrol_done;
    job->message = (struct gw_message){.run = finish_enrol};
    job->worker = worker;
    job->exchange = exchange;
}

// Begins what the token admits. False: there is no room for it now.
static bool begin(struct gw_worker *worker, struct gw_exchange *exchange, struct enrol_job *job)
{
    struct gw_core *core = worker->core;
    bool made = job->credential.keyed ||
                gw_secret_make(&core->random, GW_SECRET_DEVICE, job->secret) == BASE_OK;
    if (made) {
        fill(job, worker, exchange);
    }
    if (!made || gw_store_submit(core->store, &job->op) != BASE_OK) {
        if (job->taken) {
            gw_access_enrolment_undo(core, job->credential.token_id, false);
        }
        return false;
    }
    return true;
}

void gw_enroll_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_core *core = worker->core;
    struct enrol_job *job = base_arena_zalloc(exchange->arena, sizeof(*job));
    if (job == NULL || !gw_core_has_disk(core, true)) {
        gw_reply_busy(exchange, core->set.retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    job->credential = (struct gw_credential){.state = GW_CREDENTIAL_PENDING,
                                             .keyed = exchange->request.enrol_key.size > 0,
                                             .enrolled_s = gw_core_now_s(core),
                                             .changed_s = gw_core_now_s(core)};
    if (!take_id(core, exchange, &job->device_id)) {
        gw_exchange_finish(exchange);
        return;
    }
    bool again = job->credential.keyed && make_of_key(core, &exchange->request, job->device_id,
                                                      &job->credential.resets, job->secret);
    job->taken = !again;
    if (!gw_access_enrolment(core, exchange, again, &job->credential.token_id,
                             &job->credential.tenant)) {
        gw_exchange_finish(exchange);
        return;
    }
    if (!begin(worker, exchange, job)) {
        gw_reply_busy(exchange, core->set.retry_after_s);
        gw_exchange_finish(exchange);
    }
}
