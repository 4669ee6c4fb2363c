// Rows of rollouts and log lines. Encoding on the control thread, applied by the writer thread
// while the control thread waits.
//
//   rollout row := u8 version(1), u8 state, u16 stage, u8 stage_failed, u64 stage_since_us,
//                  u8 verdict, u8 reason, u32 failure_ppm, u64 created_us, u64 rollback_since_us,
//                  u64 closed_us, u8 has_simulation, u64 completed, u64 failed, u64 log_seq,
//                  varint spec_size, spec (release_codec.c)
//   log line    := u8 version(1), u64 wall_us, u8 kind, u16 stage, u32 failure_ppm, 8 x u64 counts,
//                  7 x (u8 size, text): what, state, verdict, reason name, reason text, by, comment
#include "svc/rollout_state.h"

#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

#define ROW_VERSION     1
#define ROW_HEAD_MAX    128
#define LINE_BYTES_MAX  1024
#define TASK_BYTES_MAX  256
#define LINE_TEXT_COUNT 7

static size_t encode_rollout(const struct gw_rollout *rollout, uint8_t *out, size_t capacity)
{
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, ROW_VERSION);
    base_writer_u8(&writer, (uint8_t)rollout->state.state);
    base_writer_u16(&writer, rollout->state.stage_index);
    base_writer_u8(&writer, rollout->state.stage_failed ? 1 : 0);
    base_writer_u64(&writer, rollout->state.stage_since_us);
    base_writer_u8(&writer, (uint8_t)rollout->verdict);
    base_writer_u8(&writer, (uint8_t)rollout->reason);
    base_writer_u32(&writer, rollout->failure_ppm);
    base_writer_u64(&writer, rollout->created_us);
    base_writer_u64(&writer, rollout->rollback_since_us);
    base_writer_u64(&writer, rollout->closed_us);
    base_writer_u8(&writer, rollout->has_simulation ? 1 : 0);
    base_writer_u64(&writer, rollout->simulation_completed);
    base_writer_u64(&writer, rollout->simulation_failed);
    base_writer_u64(&writer, rollout->log_seq);
    base_writer_varint(&writer, rollout->release->spec_bytes);
    base_writer_bytes(&writer, rollout->release->spec, rollout->release->spec_bytes);
    return writer.status == BASE_OK ? base_writer_size(&writer) : 0;
}

enum base_status gw_rollout_decode(const uint8_t *bytes, size_t size,
                                   struct gw_rollout **out_rollout)
{
    struct base_reader reader;
    struct gw_rollout *rollout = calloc(1, sizeof(*rollout));
    if (rollout == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_reader_init(&reader, bytes, size);
    bool ok = base_reader_u8(&reader) == ROW_VERSION;
    uint8_t state = base_reader_u8(&reader);
    rollout->state.stage_index = base_reader_u16(&reader);
    rollout->state.stage_failed = base_reader_u8(&reader) != 0;
    rollout->state.stage_since_us = base_reader_u64(&reader);
    uint8_t verdict = base_reader_u8(&reader);
    uint8_t reason = base_reader_u8(&reader);
    rollout->failure_ppm = base_reader_u32(&reader);
    rollout->created_us = base_reader_u64(&reader);
    rollout->rollback_since_us = base_reader_u64(&reader);
    rollout->closed_us = base_reader_u64(&reader);
    rollout->has_simulation = base_reader_u8(&reader) != 0;
    rollout->simulation_completed = base_reader_u64(&reader);
    rollout->simulation_failed = base_reader_u64(&reader);
    rollout->log_seq = base_reader_u64(&reader);
    size_t spec_bytes = (size_t)base_reader_varint_max(&reader, GW_ROLLOUT_SPEC_BYTES_MAX);
    const uint8_t *spec = base_reader_bytes(&reader, spec_bytes);
    ok = ok && base_reader_finish(&reader) == BASE_OK && state < POL_ROLLOUT_STATE_COUNT &&
         verdict < POL_VERDICT_COUNT && reason < POL_REASON_COUNT;
    if (ok) {
        rollout->state.state = (enum pol_rollout_state)state;
        rollout->verdict = (enum pol_verdict)verdict;
        rollout->reason = (enum pol_reason)reason;
        ok = gw_release_new(spec, spec_bytes, &rollout->release, NULL) == BASE_OK &&
             rollout->state.stage_index < rollout->release->stage_count;
    }
    if (!ok) {
        gw_release_unref(rollout->release);
        free(rollout);
        return BASE_ERR_CORRUPT;
    }
    *out_rollout = rollout;
    return BASE_OK;
}

// The texts of a line, in stored order, with their capacities.
struct line_text {
    char *text;
    size_t capacity;
};

static void line_texts(struct gw_rollout_log_view *line, struct line_text out[LINE_TEXT_COUNT])
{
    out[0] = (struct line_text){line->what, sizeof(line->what)};
    out[1] = (struct line_text){line->state, sizeof(line->state)};
    out[2] = (struct line_text){line->verdict, sizeof(line->verdict)};
    out[3] = (struct line_text){line->reason_name, sizeof(line->reason_name)};
    out[4] = (struct line_text){line->reason_text, sizeof(line->reason_text)};
    out[5] = (struct line_text){line->by, sizeof(line->by)};
    out[6] = (struct line_text){line->comment, sizeof(line->comment)};
}

static size_t encode_line(const struct gw_rollout_log_view *line, uint8_t *out, size_t capacity)
{
    struct gw_rollout_log_view copy = *line;
    struct line_text texts[LINE_TEXT_COUNT];
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, ROW_VERSION);
    base_writer_u64(&writer, line->wall_us);
    base_writer_u8(&writer, (uint8_t)line->kind);
    base_writer_u16(&writer, line->stage_index);
    base_writer_u32(&writer, line->failure_ppm);
    base_writer_u64(&writer, line->counts.offered);
    base_writer_u64(&writer, line->counts.downloaded);
    base_writer_u64(&writer, line->counts.activated);
    base_writer_u64(&writer, line->counts.succeeded);
    base_writer_u64(&writer, line->counts.failed);
    base_writer_u64(&writer, line->counts.timed_out);
    base_writer_u64(&writer, line->counts.not_applicable);
    base_writer_u64(&writer, line->counts.rolled_back);
    line_texts(&copy, texts);
    for (int i = 0; i < LINE_TEXT_COUNT; i++) {
        size_t size = strnlen(texts[i].text, texts[i].capacity - 1);
        base_writer_u8(&writer, (uint8_t)size);
        base_writer_bytes(&writer, texts[i].text, size);
    }
    return writer.status == BASE_OK ? base_writer_size(&writer) : 0;
}

static enum base_status decode_line(struct gw_span value, struct gw_rollout_log_view *out)
{
    struct line_text texts[LINE_TEXT_COUNT];
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, value.data, value.size);
    if (base_reader_u8(&reader) != ROW_VERSION) {
        return BASE_ERR_CORRUPT;
    }
    out->wall_us = base_reader_u64(&reader);
    out->kind = (enum gw_log_kind)base_reader_u8(&reader);
    out->stage_index = base_reader_u16(&reader);
    out->failure_ppm = base_reader_u32(&reader);
    out->counts.offered = base_reader_u64(&reader);
    out->counts.downloaded = base_reader_u64(&reader);
    out->counts.activated = base_reader_u64(&reader);
    out->counts.succeeded = base_reader_u64(&reader);
    out->counts.failed = base_reader_u64(&reader);
    out->counts.timed_out = base_reader_u64(&reader);
    out->counts.not_applicable = base_reader_u64(&reader);
    out->counts.rolled_back = base_reader_u64(&reader);
    line_texts(out, texts);
    for (int i = 0; i < LINE_TEXT_COUNT; i++) {
        size_t size = base_reader_u8(&reader);
        if (size >= texts[i].capacity) {
            return BASE_ERR_CORRUPT;
        }
        base_reader_copy(&reader, texts[i].text, size);
    }
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

struct store_op {
    struct gw_store_op op;
    const struct gw_rollout_change *change;
    const struct gw_task *task;
    uint8_t *row;
    size_t row_bytes;
    uint8_t line[LINE_BYTES_MAX];
    size_t line_bytes;
    uint8_t task_row[TASK_BYTES_MAX];
    size_t task_bytes;
};

static enum base_status apply_change(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct store_op *store = (struct store_op *)self;
    uint64_t id = store->change->next.release->id;
    struct gw_key key = gw_key_u64(id);
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_ROLLOUTS, &key, store->row, store->row_bytes));
    key = gw_key_u64(store->task->task_id);
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_TASKS, &key, store->task_row, store->task_bytes));
    key = gw_key_u64_u64(id, store->change->line.seq);
    return gw_store_txn_put(txn, GW_TABLE_ROLLOUT_LOG, &key, store->line, store->line_bytes);
}

enum base_status gw_rollout_store(struct gw_core *core, const struct gw_task *task,
                                  const struct gw_rollout_change *change)
{
    struct store_op store = {.change = change, .task = task};
    size_t capacity = ROW_HEAD_MAX + change->next.release->spec_bytes;
    store.row = malloc(capacity);
    if (store.row == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct gw_task next_task = *task;
    next_task.release_counter = change->task_counter;
    if (change->task_baseline != 0) {
        next_task.baseline = gw_catalog_find_rollout(core, change->task_baseline);
    }
    store.row_bytes = encode_rollout(&change->next, store.row, capacity);
    store.line_bytes = encode_line(&change->line, store.line, sizeof(store.line));
    store.task_bytes = gw_task_encode(&next_task, store.task_row, sizeof(store.task_row));
    enum base_status status = BASE_ERR_BUG;
    if (store.row_bytes > 0 && store.line_bytes > 0 && store.task_bytes > 0) {
        store.op.apply = apply_change;
        status = gw_audit_submit_wait(core, &store.op);
    }
    free(store.row);
    return status;
}

// ---- Reading the log

struct log_list {
    uint64_t id;
    struct gw_rollout_log_view *out;
    uint32_t limit;
    uint32_t count;
    bool more;
};

static bool list_line(void *ctx, struct gw_span key, struct gw_span value)
{
    struct log_list *list = ctx;
    uint64_t id;
    uint64_t seq;
    if (!gw_key_read_u64(key.data, key.size, 0, &id) || id != list->id ||
        !gw_key_read_u64(key.data, key.size, 1, &seq)) {
        return false;
    }
    if (list->count == list->limit) {
        list->more = true;
        return false;
    }
    if (decode_line(value, &list->out[list->count]) == BASE_OK) {
        list->out[list->count++].seq = seq;
    }
    return true;
}

enum base_status gw_rollout_log(struct gw_core *core, uint64_t id, uint64_t after, uint32_t limit,
                                struct gw_rollout_log_view *out, uint32_t *out_count,
                                bool *out_more)
{
    if (gw_catalog_find_rollout(core, id) == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    struct log_list list = {.id = id, .out = out};
    list.limit = limit < GW_PAGE_MAX ? limit : GW_PAGE_MAX;
    struct gw_key from = gw_key_u64_u64(id, after < UINT64_MAX ? after + 1 : after);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_ROLLOUT_LOG, &from, list_line, &list);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        *out_count = list.count;
        *out_more = list.more;
    }
    return status;
}
