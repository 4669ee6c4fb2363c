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

#include <inttypes.h>
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

#define WHAT_TO_DO                                                                                 \
    "`walle-store check DIR` lists what is damaged; restore a copy of the folder, or "             \
    "`walle-store salvage DIR`"

// All entries are looked at: one that is damaged is read by nobody until somebody audits.
struct walk {
    uint64_t next;    // the number that comes next
    uint64_t damaged; // the last that is; 0: none
    uint64_t gone;    // damaged or missing
    uint64_t first_gone;
};

static void note_gone(struct walk *walk, uint64_t from, uint64_t count)
{
    walk->first_gone = walk->gone == 0 ? from : walk->first_gone;
    walk->gone += count;
}

static bool walk_entry(void *ctx, struct base_span key, struct base_span value)
{
    struct walk *walk = ctx;
    uint64_t seq = 0;
    (void)value;
    if (gw_key_read_u64(key.data, key.size, 0, &seq) && seq >= walk->next) {
        if (seq > walk->next) {
            note_gone(walk, walk->next, seq - walk->next);
        }
        walk->next = seq + 1;
    }
    return true;
}

// The number of the first entry from `from` on, whether it can be read or not.
static enum base_status seek(struct gw_store_read *read, uint64_t from, uint64_t *out_seq)
{
    struct gw_key key = gw_key_u64(from);
    struct gw_key found;
    BASE_TRY(gw_store_read_seek(read, GW_TABLE_AUDIT, &key, &found));
    return gw_key_read_u64(found.bytes, found.size, 0, out_seq) ? BASE_OK : BASE_ERR_CORRUPT;
}

static enum base_status walk_all(struct gw_store_read *read, struct walk *walk)
{
    for (;;) {
        struct gw_key from = gw_key_u64(walk->next);
        enum base_status status = gw_store_read_scan(read, GW_TABLE_AUDIT, &from, walk_entry, walk);
        if (status != BASE_ERR_CORRUPT) {
            return status;
        }
        uint64_t seq = 0;
        if (seek(read, walk->next, &seq) != BASE_OK) {
            return status;
        }
        note_gone(walk, walk->next, seq + 1 - walk->next);
        walk->damaged = seq;
        walk->next = seq + 1;
    }
}

// CORRUPT when the entry is malformed; its text is not kept.
static enum base_status read_entry(struct gw_store_read *read, uint64_t seq,
                                   struct gw_audit_view *out)
{
    struct gw_key key = gw_key_u64(seq);
    struct base_span value;
    BASE_TRY(gw_store_read_get(read, GW_TABLE_AUDIT, &key, &value));
    BASE_TRY(gw_audit_decode(value.data, value.size, out));
    out->seq = seq;
    out->text = (struct base_str){NULL, 0};
    return BASE_OK;
}

// The last entry and the one before it, where that can be read, are enough to know that a new one
// will continue the chain.
static enum base_status read_last(struct gw_store_read *read, const struct walk *walk,
                                  struct gw_audit_view *out_last)
{
    struct gw_audit_view before = {0};
    struct wire_sha256 hash;
    uint64_t seq = walk->next - 1;
    if (seq == 0) {
        return BASE_OK;
    }
    if (seq == walk->damaged) {
        return BASE_ERR_CORRUPT;
    }
    BASE_TRY(read_entry(read, seq, out_last));
    enum base_status status = seq == 1                   ? BASE_OK
                              : seq - 1 == walk->damaged ? BASE_ERR_NOT_FOUND
                                                         : read_entry(read, seq - 1, &before);
    if (status == BASE_ERR_NOT_FOUND) {
        return BASE_OK;
    }
    BASE_TRY(status);
    gw_audit_chain(seq, out_last->tenant, &before.hash, &out_last->text_hash, &hash);
    return wire_sha256_equal(&hash, &out_last->hash) ? BASE_OK : BASE_ERR_CORRUPT;
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
    struct walk walk = {.next = 1};
    struct gw_audit_view last = {0};
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = walk_all(read, &walk);
    bool walked = status == BASE_OK;
    status = walked ? read_last(read, &walk, &last) : status;
    bool last_wrong = walked && status == BASE_ERR_CORRUPT;
    status = status == BASE_OK ? load_open(core, read) : status;
    gw_store_read_end(read);
    if (last_wrong) {
        return base_error_set(error, status,
                              "cannot load the audit log: its last entry, %" PRIu64
                              ", is damaged or altered; " WHAT_TO_DO,
                              walk.next - 1);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "cannot load the audit log: %s",
                              base_status_text(status));
    }
    if (walk.gone > 0) {
        base_log_error(core->log, "audit",
                       "%" PRIu64 " of the audit log's %" PRIu64
                       " entries are damaged or missing, the first is entry %" PRIu64
                       "; " WHAT_TO_DO,
                       walk.gone, last.seq, walk.first_gone);
    }
    audit->seq = last.seq;
    audit->head = last.hash;
    return audit->open_stored ? append_open(core) : BASE_OK;
}

// ---- Reading

struct list {
    uint64_t after; // the last that was visited
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
    list->after = view.seq;
    return list->visit(list->ctx, &view);
}

enum base_status gw_audit_list(struct gw_core *core, uint64_t after, gw_audit_visit_fn visit,
                               void *ctx, struct base_error *error)
{
    struct list list = {.after = after, .visit = visit, .ctx = ctx};
    struct gw_key from = gw_key_u64(after < UINT64_MAX ? after + 1 : after);
    struct gw_store_read *read;
    uint64_t damaged = 0;
    if (after == UINT64_MAX) {
        return BASE_OK;
    }
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_scan(read, GW_TABLE_AUDIT, &from, list_entry, &list);
    status = list.corrupt ? BASE_ERR_CORRUPT : status;
    bool known = status == BASE_ERR_CORRUPT && seek(read, list.after + 1, &damaged) == BASE_OK;
    gw_store_read_end(read);
    return known ? base_error_set(error, status,
                                  "entry %" PRIu64 " of the audit log is damaged; " WHAT_TO_DO,
                                  damaged)
                 : status;
}

void gw_audit_head(struct gw_core *core, uint64_t *out_seq, struct wire_sha256 *out_hash)
{
    struct gw_audit *audit = core->audit;
    pthread_mutex_lock(&audit->lock);
    *out_seq = audit->seq;
    *out_hash = audit->head;
    pthread_mutex_unlock(&audit->lock);
}
