// What is in a batch: decompressed, compared with its hash, read as records, and each record held
// against what its task declared. Worker's thread. session_batch.c calls it for a batch that is
// whole. The worker's one buffer and context for decompression are used, so what is in a batch is
// valid during the check alone. The hash is over the content and not over what was sent: a wrong
// dictionary is found like a torn byte.
#include "tunnel/session_content.h"

#include "tunnel/session_private.h"

#include "tunnel/schema/json_scan.h"

#include "base/check.h"

#include <inttypes.h>

#define MORE_BITS 64u // of a REJECT

// The payload uncompressed, borrowed from the batch or the worker's buffer.
static enum base_status open_payload(struct gw_session *session,
                                     const struct wire_tunnel_batch *batch, const uint8_t **out)
{
    struct gw_tunnel_worker *worker = session->worker;
    const struct gw_zstd_dict *dict = NULL;
    worker->turn_bytes += batch->raw_bytes;
    if (batch->codec == WIRE_TUNNEL_PLAIN) {
        *out = batch->bytes;
        return BASE_OK;
    }
    if (batch->codec == WIRE_TUNNEL_ZSTD_DICT &&
        (dict = gw_tunnel_zstd_dict(worker->tunnel, batch->dict)) == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    return gw_tunnel_zstd_open(worker->zstd, dict,
                               (struct base_span){batch->bytes, batch->sent_bytes},
                               batch->raw_bytes, out);
}

// May this upload come from this device, in this class? *out NULL: nobody declared it.
static enum base_status admit(struct gw_session *session, const struct wire_upload_key *upload,
                              uint8_t class_id, struct gw_upload_entry **out)
{
    struct gw_tunnel *tunnel = session->worker->tunnel;
    *out = gw_uploads_find(tunnel->uploads, upload);
    if (*out == NULL) {
        return tunnel->refuse_unknown ? BASE_ERR_DENIED : BASE_OK;
    }
    if ((*out)->tenant != session->tenant) {
        *out = NULL;
        return BASE_ERR_DENIED;
    }
    return (*out)->class_id == class_id ? BASE_OK : BASE_ERR_INVALID;
}

static enum base_status check_record(const struct gw_upload_entry *upload,
                                     const struct wire_record *record)
{
    struct base_str text = {(const char *)record->bytes, record->size};
    bool wants_json = upload != NULL && upload->schema != NULL;
    if (record->format != WIRE_RECORD_JSON) {
        return wants_json ? BASE_ERR_INVALID : BASE_OK;
    }
    return wants_json ? gw_schema_check(upload->schema, text) : gw_scan_check(text);
}

// An upload no task declared: the operator should see whose.
static void note_unknown(struct gw_session *session, const struct wire_upload_key *key,
                         const struct gw_upload_entry *upload, enum base_status status)
{
    struct gw_tunnel_worker *worker = session->worker;
    if (upload != NULL || status != BASE_ERR_DENIED) {
        return;
    }
    gw_count(&worker->counters.unknown_total, 1);
    if (gw_tunnel_worker_may_log(worker)) {
        base_log_warn(worker->tunnel->log_port, "tunnel",
                      "device %016" PRIx64
                      ": its tenant declares no upload %.*s/%.*s of version %u; refused",
                      session->device, (int)key->task.size, key->task.data, (int)key->name.size,
                      key->name.data, key->schema);
    }
}

// A refused record goes into what the device is told. False: that holds no more.
static bool note_refused(struct gw_session *session, uint32_t index, enum base_status status,
                         struct wire_tunnel_reject *reject)
{
    if (reject->status == BASE_OK) {
        reject->record = index;
        reject->status = status;
        return !session->single_reject;
    }
    base_assert(index > reject->record);
    base_assert(index - reject->record <= MORE_BITS);
    reject->more |= UINT64_C(1) << (index - reject->record - 1);
    return true;
}

// For operators: how many, and what they look like.
static void count_refused(struct gw_session *session, struct gw_upload_entry *upload,
                          const struct wire_record *record, enum base_status status)
{
    const struct base_clock_port *clock = &session->worker->tunnel->clock;
    gw_count(&session->worker->counters.schema_rejects_total, 1);
    if (upload == NULL) {
        return;
    }
    struct gw_refused_record like = {.device = session->device,
                                     .received_ms = clock->wall_us(clock->ctx) / 1000,
                                     .status = status,
                                     .format = record->format};
    if (upload->schema != NULL && record->format == WIRE_RECORD_JSON) {
        gw_schema_explain(upload->schema,
                          (struct base_str){(const char *)record->bytes, record->size}, like.why);
    }
    atomic_fetch_add_explicit(&upload->rejected, 1, memory_order_relaxed);
    gw_refused_keep(&upload->refused, &like, record->bytes, record->size);
}

// All records that are refused, as far as one REJECT can name them; the rest comes again.
static enum base_status check_records(struct gw_session_class *class, struct wire_batch *view,
                                      bool counts, struct wire_tunnel_reject *reject)
{
    struct gw_upload_entry *uploads[WIRE_BATCH_UPLOADS_MAX];
    enum base_status admitted[WIRE_BATCH_UPLOADS_MAX];
    struct wire_record record;
    base_assert(view->upload_count <= WIRE_BATCH_UPLOADS_MAX);
    for (uint32_t i = 0; i < view->upload_count; i++) {
        admitted[i] = admit(class->session, &view->uploads[i], class->class_id, &uploads[i]);
    }
    // Counted already, when it came behind a refused one.
    bool again = reject->number < class->looked_end && reject->number != class->refused_at;
    uint32_t index = 0;
    bool on = true;
    for (; on && wire_batch_next(view, &record); index++) {
        struct gw_upload_entry *upload = uploads[record.upload];
        enum base_status status = admitted[record.upload];
        if (status == BASE_OK) {
            status = check_record(upload, &record);
        }
        if (status != BASE_OK) {
            on = note_refused(class->session, index, status, reject);
            if (!again) {
                count_refused(class->session, upload, &record, status);
                note_unknown(class->session, &view->uploads[record.upload], upload, status);
            }
        }
        on = on && (reject->status == BASE_OK || index - reject->record < MORE_BITS);
    }
    if (reject->status != BASE_OK) {
        return (enum base_status)reject->status;
    }
    if (counts && view->upload_count == 1 && uploads[0] != NULL) {
        atomic_fetch_add_explicit(&uploads[0]->records, index, memory_order_relaxed);
    }
    return BASE_OK;
}

// Batches of several uploads: counted a second time through, which is rare.
static void count_uploads(struct gw_session *session, struct wire_batch *view)
{
    struct wire_record record;
    while (view->upload_count > 1 && wire_batch_next(view, &record)) {
        struct gw_upload_entry *upload =
            gw_uploads_find(session->worker->tunnel->uploads, &view->uploads[record.upload]);
        if (upload != NULL) {
            atomic_fetch_add_explicit(&upload->records, 1, memory_order_relaxed);
        }
    }
}

static enum base_status check_whole(struct gw_session_class *class,
                                    const struct wire_tunnel_batch *batch, bool counts,
                                    struct wire_tunnel_reject *reject)
{
    const uint8_t *payload;
    struct wire_batch view;
    BASE_TRY(open_payload(class->session, batch, &payload));
    if (wire_tunnel_chain(batch->prev_hash, payload, batch->raw_bytes) != batch->hash) {
        return BASE_ERR_HASH;
    }
    BASE_TRY(wire_batch_parse(payload, batch->raw_bytes, &view, &reject->record));
    if (view.record_count != batch->count) {
        return BASE_ERR_INVALID;
    }
    struct wire_batch walk = view;
    BASE_TRY(check_records(class, &walk, counts, reject));
    if (counts) {
        count_uploads(class->session, &view);
    }
    return BASE_OK;
}

enum base_status gw_session_check(struct gw_session_class *class,
                                  const struct wire_tunnel_batch *batch, bool counts,
                                  struct wire_tunnel_reject *out_reject)
{
    struct wire_tunnel_reject reject = {
        .class_id = class->class_id, .number = batch->number, .record = WIRE_TUNNEL_NO_RECORD};
    enum base_status status = check_whole(class, batch, counts, &reject);
    reject.status = status;
    *out_reject = reject;
    return status;
}
