// POST /v1/enroll: a device with an enrolment token becomes known and gets its credential. Checked
// and answered on the worker's thread; applied and remembered on the writer's. The answer goes out
// when the credential is on disk.
#include "svc/credentials.h"

#include "svc/core_private.h"
#include "svc/operators.h"

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

static enum base_status apply_enrol(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct enrol_job *job = (struct enrol_job *)self;
    uint8_t row[GW_CREDENTIAL_ROW_BYTES];
    uint8_t token_row[GW_TOKEN_ROW_MAX];
    struct gw_credential old;
    struct base_span value;
    struct gw_key key = gw_key_u64(job->device_id);
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_CREDENTIALS, &key, &value);
    job->again = false;
    job->foreign = false;
    if (status == BASE_OK) {
        BASE_TRY(gw_credential_decode(value.data, value.size, &old));
        // A device whose answer was lost comes again with the same enrolment token.
        job->again = old.state == GW_CREDENTIAL_PENDING && old.token_id == job->credential.token_id;
        bool forgotten = old.state == GW_CREDENTIAL_NONE && old.tenant == job->credential.tenant;
        if (!job->again && !forgotten) {
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
    gw_credential_encode(&job->credential, row);
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_CREDENTIALS, &key, row, sizeof(row)));
    if (!job->again && !job->counted) { // a group may be applied more than once
        gw_access_enrolment_count(job->worker->core, job->credential.token_id);
        job->counted = true;
    }
    size_t size = gw_operators_token_row(job->worker->core, job->credential.token_id, token_row);
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
                         job->worker->core->retry_after_s);
    } else if (body == NULL || wire_enrolment_encode(&enrolment, body, WIRE_ENROLMENT_BYTES_MAX,
                                                     &size) != BASE_OK) {
        gw_reply_busy(exchange, job->worker->core->retry_after_s);
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
    if (status != BASE_OK || job->again) {
        gw_access_enrolment_undo(core, job->credential.token_id, job->counted);
    }
    job->worker->post(job->worker->post_ctx, &job->message);
}

// The id the device brings, or one drawn for it. False: the reply is filled.
static bool take_id(struct gw_core *core, struct gw_exchange *exchange, uint64_t *out)
{
    if (exchange->request.device.size > 0) {
        if (wire_device_parse(exchange->request.device, out) == BASE_OK) {
            return true;
        }
        gw_reply_problem(exchange, 400, "walle-device: 16 hex digits expected");
        return false;
    }
    if (core->random.next == NULL) {
        gw_reply_problem(exchange, 400, "walle-device: missing");
        return false;
    }
    do {
        *out = core->random.next(core->random.ctx);
    } while (*out == 0 || gw_credentials_state(core->credentials, *out) != GW_CREDENTIAL_NONE);
    return true;
}

void gw_enroll_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_core *core = worker->core;
    uint64_t token_id = 0;
    uint64_t device_id = 0;
    uint16_t tenant = 0;
    if (!gw_core_has_disk(core, true)) {
        gw_reply_busy(exchange, core->retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    if (!take_id(core, exchange, &device_id) ||
        !gw_access_enrolment(core, exchange, &token_id, &tenant)) {
        gw_exchange_finish(exchange);
        return;
    }
    struct enrol_job *job = base_arena_zalloc(exchange->arena, sizeof(*job));
    if (job == NULL || gw_secret_make(&core->random, GW_SECRET_DEVICE, job->secret) != BASE_OK) {
        gw_access_enrolment_undo(core, token_id, false);
        gw_reply_busy(exchange, core->retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    job->device_id = device_id;
    job->credential = (struct gw_credential){.state = GW_CREDENTIAL_PENDING,
                                             .tenant = tenant,
                                             .enrolled_s = gw_core_now_s(core),
                                             .changed_s = gw_core_now_s(core),
                                             .token_id = token_id};
    (void)gw_secret_hash(base_str_of(job->secret), GW_SECRET_DEVICE, &job->credential.hash);
    job->op.sort_key = token_id; // rows of one token in order
    job->op.apply = apply_enrol;
    job->op.done = enrol_done;
    job->message = (struct gw_message){.run = finish_enrol};
    job->worker = worker;
    job->exchange = exchange;
    if (gw_store_submit(core->store, &job->op) != BASE_OK) {
        gw_access_enrolment_undo(core, token_id, false);
        gw_reply_busy(exchange, core->retry_after_s);
        gw_exchange_finish(exchange);
    }
}
