// The audit log: chain, open entry, listing. Control thread; applies run on the writer thread while
// the control thread waits. See audit.h.
//
//   audit row  := u8 version(1), u16 tenant, hash[32], varint size, text
//   open entry := u8 version(1), u16 tenant, u8 has_answer, [key sha256[32], request sha256[32]],
//                 varint size, text                            (in the meta table, "audit_open")
#include "svc/access/audit.h"

#include "svc/access/answers.h"
#include "svc/core_private.h"

#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

#define ROW_VERSION 1
#define ROW_HEAD    128u
#define ROW_MAX     (ROW_HEAD + GW_AUDIT_TEXT_MAX)
#define OPEN_KEY    "audit_open"
#define CHAIN_LABEL "walle-audit-1"

// What a repeated request gets whose first run was cut off behind its change.
#define CUT_OFF                                                                                    \
    "{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,\"detail\":\"the first "      \
    "request with this key was cut off after its change; look at the resource\"}"

struct gw_audit {
    pthread_mutex_t lock; // head and seq, for other threads
    uint64_t seq;
    struct wire_sha256 head;
    uint64_t failures; // entries that could not be written
    bool begun;        // between _begin and _end
    bool open_stored;  // the open entry is, or may be, on disk
    uint8_t open[ROW_MAX];
    size_t open_bytes;
    uint8_t row[ROW_MAX];
};

enum base_status gw_audit_new(struct gw_audit **out_audit)
{
    struct gw_audit *audit = calloc(1, sizeof(*audit));
    if (audit == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&audit->lock, NULL);
    *out_audit = audit;
    return BASE_OK;
}

void gw_audit_free(struct gw_audit *audit)
{
    if (audit != NULL) {
        pthread_mutex_destroy(&audit->lock);
        free(audit);
    }
}

void gw_audit_chain(uint64_t seq, uint16_t tenant, const struct wire_sha256 *before,
                    const struct wire_sha256 *text, struct wire_sha256 *out)
{
    uint8_t bytes[sizeof(CHAIN_LABEL) + 10 + 2 * WIRE_SHA256_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_bytes(&writer, CHAIN_LABEL, sizeof(CHAIN_LABEL) - 1);
    base_writer_u64(&writer, seq);
    base_writer_u16(&writer, tenant);
    base_writer_bytes(&writer, before->bytes, WIRE_SHA256_BYTES);
    base_writer_bytes(&writer, text->bytes, WIRE_SHA256_BYTES);
    gw_sha256(bytes, base_writer_size(&writer), out);
}

enum base_status gw_audit_decode(const uint8_t *bytes, size_t size, struct gw_audit_view *out)
{
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    out->tenant = base_reader_u16(&reader);
    base_reader_copy(&reader, out->hash.bytes, WIRE_SHA256_BYTES);
    out->text.size = (size_t)base_reader_varint_max(&reader, GW_AUDIT_TEXT_MAX);
    out->text.data = (const char *)base_reader_bytes(&reader, out->text.size);
    if (version != ROW_VERSION || base_reader_finish(&reader) != BASE_OK) {
        return BASE_ERR_CORRUPT;
    }
    gw_sha256(out->text.data, out->text.size, &out->text_hash);
    return BASE_OK;
}

static size_t encode_row(uint8_t *out, uint16_t tenant, const struct wire_sha256 *hash,
                         struct base_str text)
{
    struct base_writer writer;
    base_writer_init(&writer, out, ROW_MAX);
    base_writer_u8(&writer, ROW_VERSION);
    base_writer_u16(&writer, tenant);
    base_writer_bytes(&writer, hash->bytes, WIRE_SHA256_BYTES);
    base_writer_varint(&writer, text.size);
    base_writer_bytes(&writer, text.data, text.size);
    return base_writer_size(&writer);
}

// ---- The open entry

static size_t encode_open(uint8_t *out, const struct gw_audit_open *open)
{
    struct base_writer writer;
    base_writer_init(&writer, out, ROW_MAX);
    base_writer_u8(&writer, ROW_VERSION);
    base_writer_u16(&writer, open->tenant);
    base_writer_u8(&writer, open->answer != NULL ? 1 : 0);
    if (open->answer != NULL) {
        base_writer_bytes(&writer, open->answer->key.bytes, WIRE_SHA256_BYTES);
        base_writer_bytes(&writer, open->answer->request.bytes, WIRE_SHA256_BYTES);
    }
    base_writer_varint(&writer, open->text.size);
    base_writer_bytes(&writer, open->text.data, open->text.size);
    return base_writer_size(&writer);
}

// Fills `open`, with `answer` as what it points to. False: malformed.
static bool decode_open(const uint8_t *bytes, size_t size, struct gw_audit_open *open,
                        struct gw_answer *answer)
{
    struct base_reader reader;
    memset(answer, 0, sizeof(*answer));
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    open->tenant = base_reader_u16(&reader);
    bool has_answer = base_reader_u8(&reader) != 0;
    open->answer = has_answer ? answer : NULL;
    if (has_answer) {
        base_reader_copy(&reader, answer->key.bytes, WIRE_SHA256_BYTES);
        base_reader_copy(&reader, answer->request.bytes, WIRE_SHA256_BYTES);
        answer->tenant = open->tenant;
        answer->status = 409;
        answer->body = BASE_STR(CUT_OFF);
    }
    open->text.size = (size_t)base_reader_varint_max(&reader, GW_AUDIT_TEXT_MAX);
    open->text.data = (const char *)base_reader_bytes(&reader, open->text.size);
    return version == ROW_VERSION && base_reader_finish(&reader) == BASE_OK;
}

struct rider_op {
    struct gw_store_op op;
    struct gw_store_op *inner;
    const struct gw_audit *audit;
};

static enum base_status rider_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct rider_op *rider = (struct rider_op *)self;
    BASE_TRY(rider->inner->apply(txn, rider->inner));
    struct gw_key key = gw_key_text(OPEN_KEY);
    return gw_store_txn_put(txn, GW_TABLE_META, &key, rider->audit->open, rider->audit->open_bytes);
}

enum base_status gw_audit_submit_wait(struct gw_core *core, struct gw_store_op *op)
{
    struct gw_audit *audit = core->audit;
    if (audit == NULL || !audit->begun) { // NULL: the core is still starting
        return gw_store_submit_wait(core->store, op);
    }
    struct rider_op rider = {.inner = op, .audit = audit};
    rider.op.apply = rider_apply;
    rider.op.sort_key = op->sort_key;
    enum base_status status = gw_store_submit_wait(core->store, &rider.op);
    audit->open_stored = audit->open_stored || status == BASE_OK;
    return status;
}

// ---- Appending

struct append_op {
    struct gw_store_op op;
    struct gw_core *core;
    uint64_t seq;
    size_t row_bytes;
    bool had_open;
    const struct gw_answer *answer;
};

static enum base_status append_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct append_op *append = (struct append_op *)self;
    struct gw_audit *audit = append->core->audit;
    struct gw_key key = gw_key_u64(append->seq);
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_AUDIT, &key, audit->row, append->row_bytes));
    if (append->had_open) {
        key = gw_key_text(OPEN_KEY);
        BASE_TRY(gw_store_txn_delete(txn, GW_TABLE_META, &key));
    }
    return append->answer != NULL ? gw_answers_put(append->core, txn, append->answer) : BASE_OK;
}

static enum base_status append(struct gw_core *core, uint16_t tenant, struct base_str text,
                               const struct gw_answer *answer)
{
    struct gw_audit *audit = core->audit;
    struct wire_sha256 text_hash;
    struct wire_sha256 hash;
    struct append_op append = {
        .core = core, .seq = audit->seq + 1, .had_open = audit->open_stored, .answer = answer};
    if (text.size > GW_AUDIT_TEXT_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    gw_sha256(text.data, text.size, &text_hash);
    gw_audit_chain(append.seq, tenant, &audit->head, &text_hash, &hash);
    append.row_bytes = encode_row(audit->row, tenant, &hash, text);
    append.op.apply = append_apply;
    BASE_TRY(gw_store_submit_wait(core->store, &append.op));
    audit->open_stored = false;
    if (answer != NULL) {
        gw_answers_kept(core, answer);
    }
    pthread_mutex_lock(&audit->lock);
    audit->seq = append.seq;
    audit->head = hash;
    pthread_mutex_unlock(&audit->lock);
    return BASE_OK;
}

// An open entry on disk becomes an entry as it is.
static enum base_status append_open(struct gw_core *core)
{
    struct gw_audit *audit = core->audit;
    struct gw_audit_open open = {0};
    struct gw_answer answer;
    if (!decode_open(audit->open, audit->open_bytes, &open, &answer)) {
        return BASE_ERR_CORRUPT;
    }
    return append(core, open.tenant, open.text, open.answer);
}

enum base_status gw_audit_begin(struct gw_core *core, const struct gw_audit_open *open)
{
    struct gw_audit *audit = core->audit;
    if (audit->open_stored) {
        BASE_TRY(append_open(core));
    }
    if (open->text.size > GW_AUDIT_TEXT_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    audit->open_bytes = encode_open(audit->open, open);
    audit->begun = true;
    return BASE_OK;
}

void gw_audit_end(struct gw_core *core, uint16_t tenant, struct base_str text,
                  const struct gw_answer *answer)
{
    struct gw_audit *audit = core->audit;
    audit->begun = false;
    if (append(core, tenant, text, answer) != BASE_OK) {
        pthread_mutex_lock(&audit->lock);
        audit->failures++;
        pthread_mutex_unlock(&audit->lock);
    }
}

uint64_t gw_audit_failures(struct gw_core *core)
{
    pthread_mutex_lock(&core->audit->lock);
    uint64_t failures = core->audit->failures;
    pthread_mutex_unlock(&core->audit->lock);
    return failures;
}

void gw_audit_cancel(struct gw_core *core)
{
    core->audit->begun = false;
}

// ---- Start

struct last {
    struct gw_audit_view view;
    struct wire_sha256 before;
    uint64_t count;
    bool ok;
};

static bool find_last(void *ctx, struct base_span key, struct base_span value)
{
    struct last *last = ctx;
    struct wire_sha256 before = last->view.hash;
    struct wire_sha256 hash;
    last->ok = gw_audit_decode(value.data, value.size, &last->view) == BASE_OK &&
               gw_key_read_u64(key.data, key.size, 0, &last->view.seq);
    last->view.text = (struct base_str){NULL, 0};
    if (last->ok) {
        gw_audit_chain(last->view.seq, last->view.tenant, &before, &last->view.text_hash, &hash);
        last->ok = last->count == 0 || wire_sha256_equal(&hash, &last->view.hash);
    }
    last->count++;
    return last->ok;
}

static enum base_status load_open(struct gw_core *core, struct gw_store_read *read)
{
    struct gw_audit *audit = core->audit;
    struct gw_key key = gw_key_text(OPEN_KEY);
    struct base_span value;
    enum base_status status = gw_store_read_get(read, GW_TABLE_META, &key, &value);
    if (status == BASE_OK && value.size <= sizeof(audit->open)) {
        memcpy(audit->open, value.data, value.size);
        audit->open_bytes = value.size;
        audit->open_stored = true;
    }
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

enum base_status gw_audit_load(struct gw_core *core, struct base_error *error)
{
    struct gw_audit *audit = core->audit;
    struct last last = {.ok = true};
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    uint64_t count = gw_store_read_count(read, GW_TABLE_AUDIT);
    // The last two are enough to know that a new entry will continue the chain.
    struct gw_key from = gw_key_u64(count > 1 ? count - 1 : 1);
    enum base_status status = gw_store_read_scan(read, GW_TABLE_AUDIT, &from, find_last, &last);
    if (status == BASE_OK) {
        status = load_open(core, read);
    }
    gw_store_read_end(read);
    if (status == BASE_OK && (!last.ok || last.view.seq != count)) {
        status = BASE_ERR_CORRUPT;
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "cannot load the audit log: %s",
                              base_status_text(status));
    }
    audit->seq = last.view.seq;
    audit->head = last.view.hash;
    return audit->open_stored ? append_open(core) : BASE_OK;
}

// ---- Reading

struct list {
    uint64_t after;
    gw_audit_visit_fn visit;
    void *ctx;
    bool corrupt;
};

static bool list_entry(void *ctx, struct base_span key, struct base_span value)
{
    struct list *list = ctx;
    struct gw_audit_view view;
    if (gw_audit_decode(value.data, value.size, &view) != BASE_OK ||
        !gw_key_read_u64(key.data, key.size, 0, &view.seq)) {
        list->corrupt = true;
        return false;
    }
    return list->visit(list->ctx, &view);
}

enum base_status gw_audit_list(struct gw_core *core, uint64_t after, gw_audit_visit_fn visit,
                               void *ctx)
{
    struct list list = {.after = after, .visit = visit, .ctx = ctx};
    struct gw_key from = gw_key_u64(after < UINT64_MAX ? after + 1 : after);
    struct gw_store_read *read;
    if (after == UINT64_MAX) {
        return BASE_OK;
    }
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_scan(read, GW_TABLE_AUDIT, &from, list_entry, &list);
    gw_store_read_end(read);
    return list.corrupt ? BASE_ERR_CORRUPT : status;
}

void gw_audit_head(struct gw_core *core, uint64_t *out_seq, struct wire_sha256 *out_hash)
{
    struct gw_audit *audit = core->audit;
    pthread_mutex_lock(&audit->lock);
    *out_seq = audit->seq;
    *out_hash = audit->head;
    pthread_mutex_unlock(&audit->lock);
}
