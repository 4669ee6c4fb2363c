// Answers of idempotency keys: an index in memory in the order of time, rows in the store. Control
// thread; _put runs on the writer thread while the control thread waits.
//
//   answer row := u8 version(1), u64 created_s, request sha256[32], u16 status, u8 size, etag,
//                 varint size, body
//                 version 2, of other tenants than the default one: u16 tenant behind it
#include "svc/access/answers.h"

#include "svc/core_private.h"

#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

#define ROW_VERSION 1
#define ROW_TENANT  2 // version of a row with a tenant
#define ROW_MAX     (64u + GW_ANSWER_ETAG_MAX + GW_ANSWER_BODY_MAX)
#define DROPS_MAX   4u // rows dropped with one put: the table shrinks faster than it grows
#define PLACES      (GW_ANSWERS_MAX - 1) // and one for what was cut off before its end

struct kept {
    struct wire_sha256 key;
    uint64_t created_s;
    uint16_t tenant;
};

struct gw_answers {
    struct kept items[GW_ANSWERS_MAX]; // a ring, oldest at `first`
    uint32_t first;
    uint32_t count;
    uint8_t row[ROW_MAX];
};

enum base_status gw_answers_new(struct gw_answers **out_answers)
{
    struct gw_answers *answers = calloc(1, sizeof(*answers));
    if (answers == NULL) {
        return BASE_ERR_NOMEM;
    }
    *out_answers = answers;
    return BASE_OK;
}

void gw_answers_free(struct gw_answers *answers)
{
    free(answers);
}

enum base_status gw_answer_encode(const struct gw_answer *answer, uint8_t *out, size_t capacity,
                                  size_t *out_size)
{
    struct base_writer writer;
    if (answer->etag.size > GW_ANSWER_ETAG_MAX || answer->body.size > GW_ANSWER_BODY_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, answer->tenant == GW_TENANT_DEFAULT ? ROW_VERSION : ROW_TENANT);
    base_writer_u64(&writer, answer->created_s);
    base_writer_bytes(&writer, answer->request.bytes, WIRE_SHA256_BYTES);
    base_writer_u16(&writer, (uint16_t)answer->status);
    base_writer_u8(&writer, (uint8_t)answer->etag.size);
    base_writer_bytes(&writer, answer->etag.data, answer->etag.size);
    base_writer_varint(&writer, answer->body.size);
    base_writer_bytes(&writer, answer->body.data, answer->body.size);
    if (answer->tenant != GW_TENANT_DEFAULT) {
        base_writer_u16(&writer, answer->tenant);
    }
    *out_size = base_writer_size(&writer);
    return writer.status;
}

enum base_status gw_answer_decode(const uint8_t *bytes, size_t size, struct gw_answer *out)
{
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    bool ok = version == ROW_VERSION || version == ROW_TENANT;
    out->created_s = base_reader_u64(&reader);
    base_reader_copy(&reader, out->request.bytes, WIRE_SHA256_BYTES);
    out->status = base_reader_u16(&reader);
    out->etag.size = base_reader_u8(&reader);
    ok = ok && out->etag.size <= GW_ANSWER_ETAG_MAX;
    out->etag.data = ok ? (const char *)base_reader_bytes(&reader, out->etag.size) : NULL;
    out->body.size = (size_t)base_reader_varint_max(&reader, GW_ANSWER_BODY_MAX);
    out->body.data = (const char *)base_reader_bytes(&reader, out->body.size);
    out->tenant = version == ROW_TENANT ? base_reader_u16(&reader) : GW_TENANT_DEFAULT;
    return ok && base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

// ---- Start

struct load {
    struct gw_answers *answers;
    struct gw_core *core;
};

static bool load_answer(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    struct gw_answer answer;
    struct gw_answers *answers = load->answers;
    if (key.size != 1 + WIRE_SHA256_BYTES ||
        gw_answer_decode(value.data, value.size, &answer) != BASE_OK) {
        atomic_fetch_add_explicit(&load->core->records_corrupt, 1, memory_order_relaxed);
        return true;
    }
    if (answers->count == GW_ANSWERS_MAX) {
        return false; // cannot be: no more are ever put
    }
    struct kept *kept = &answers->items[answers->count++];
    memcpy(kept->key.bytes, key.data + 1, WIRE_SHA256_BYTES);
    kept->created_s = answer.created_s;
    kept->tenant = answer.tenant;
    return true;
}

static int compare_kept(const void *a, const void *b)
{
    const struct kept *x = a;
    const struct kept *y = b;
    return x->created_s < y->created_s ? -1 : x->created_s > y->created_s;
}

enum base_status gw_answers_load(struct gw_core *core, struct base_error *error)
{
    struct load load = {.answers = core->answers, .core = core};
    struct wire_sha256 zero = {{0}};
    struct gw_key from = gw_key_sha(&zero);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_IDEMPOTENCY, &from, load_answer, &load);
    gw_store_read_end(read);
    qsort(core->answers->items, core->answers->count, sizeof(core->answers->items[0]),
          compare_kept);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "cannot load the kept answers: %s",
                                              base_status_text(status));
}

// ---- Use

enum base_status gw_answers_find(struct gw_core *core, const struct wire_sha256 *key,
                                 struct base_arena *arena, struct gw_answer *out)
{
    struct gw_key at = gw_key_sha(key);
    struct gw_store_read *read;
    struct base_span value;
    struct gw_answer answer = {0};
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_IDEMPOTENCY, &at, &value);
    if (status == BASE_OK) {
        status = gw_answer_decode(value.data, value.size, &answer);
    }
    if (status == BASE_OK && answer.created_s + GW_ANSWER_KEEP_S <= gw_core_now_s(core)) {
        status = BASE_ERR_NOT_FOUND;
    }
    if (status == BASE_OK && answer.body.size > 0) {
        answer.body.data = base_arena_copy(arena, answer.body.data, answer.body.size);
        status = answer.body.data != NULL ? BASE_OK : BASE_ERR_NOMEM;
    }
    if (status == BASE_OK && answer.etag.size > 0) {
        answer.etag.data = base_arena_copy(arena, answer.etag.data, answer.etag.size);
        status = answer.etag.data != NULL ? BASE_OK : BASE_ERR_NOMEM;
    }
    gw_store_read_end(read);
    if (status == BASE_OK) {
        answer.key = *key;
        *out = answer;
    }
    return status;
}

static const struct kept *at_place(const struct gw_answers *answers, uint32_t place)
{
    return &answers->items[(answers->first + place) % GW_ANSWERS_MAX];
}

static bool is_old(const struct kept *kept, uint64_t now_s)
{
    return kept->created_s + GW_ANSWER_KEEP_S <= now_s;
}

// In how many seconds the first of these is old: of the tenant's, or of all.
static uint32_t free_in_s(const struct gw_answers *answers, const uint16_t *tenant, uint64_t now_s)
{
    for (uint32_t i = 0; i < answers->count; i++) {
        const struct kept *kept = at_place(answers, i);
        if ((tenant == NULL || kept->tenant == *tenant) && !is_old(kept, now_s)) {
            return (uint32_t)(kept->created_s + GW_ANSWER_KEEP_S - now_s);
        }
    }
    return 1;
}

uint32_t gw_answers_full_s(const struct gw_core *core, uint16_t tenant)
{
    const struct gw_answers *answers = core->answers;
    uint64_t now_s = gw_core_now_s(core);
    uint32_t own = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < answers->count; i++) {
        const struct kept *kept = at_place(answers, i);
        bool counts = !is_old(kept, now_s);
        own += counts && kept->tenant == tenant;
        others += counts && kept->tenant != tenant;
    }
    uint32_t share = gw_tenant_share(tenant, PLACES, others);
    bool is_all = own + others >= PLACES || own == 0;
    return own < share ? 0 : free_in_s(answers, is_all ? NULL : &tenant, now_s);
}

// How many of the oldest have to go for one more: those that are old.
static uint32_t drops(const struct gw_core *core)
{
    const struct gw_answers *answers = core->answers;
    uint64_t now_s = gw_core_now_s(core);
    uint32_t count = 0;
    while (count < DROPS_MAX && count < answers->count) {
        bool old = is_old(at_place(answers, count), now_s);
        if (!old && answers->count - count < GW_ANSWERS_MAX) {
            break;
        }
        count++;
    }
    return count;
}

// Takes the row of an old answer away; not that of one with the same key that came since.
static enum base_status drop_row(struct gw_store_txn *txn, const struct kept *kept)
{
    struct gw_key key = gw_key_sha(&kept->key);
    struct base_span row;
    struct gw_answer answer;
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_IDEMPOTENCY, &key, &row);
    bool newer = status == BASE_OK && gw_answer_decode(row.data, row.size, &answer) == BASE_OK &&
                 answer.created_s != kept->created_s;
    return newer ? BASE_OK : gw_store_txn_delete(txn, GW_TABLE_IDEMPOTENCY, &key);
}

enum base_status gw_answers_put(struct gw_core *core, struct gw_store_txn *txn,
                                const struct gw_answer *answer)
{
    struct gw_answers *answers = core->answers;
    struct gw_answer stamped = *answer;
    size_t size = 0;
    uint32_t drop = drops(core);
    stamped.created_s = gw_core_now_s(core);
    BASE_TRY(gw_answer_encode(&stamped, answers->row, sizeof(answers->row), &size));
    for (uint32_t i = 0; i < drop; i++) {
        BASE_TRY(drop_row(txn, at_place(answers, i)));
    }
    struct gw_key key = gw_key_sha(&answer->key);
    return gw_store_txn_put(txn, GW_TABLE_IDEMPOTENCY, &key, answers->row, size);
}

void gw_answers_kept(struct gw_core *core, const struct gw_answer *answer)
{
    struct gw_answers *answers = core->answers;
    uint32_t drop = drops(core);
    answers->first = (answers->first + drop) % GW_ANSWERS_MAX;
    answers->count -= drop;
    struct kept *kept = &answers->items[(answers->first + answers->count) % GW_ANSWERS_MAX];
    kept->key = answer->key;
    kept->created_s = gw_core_now_s(core);
    kept->tenant = answer->tenant;
    answers->count++;
}
