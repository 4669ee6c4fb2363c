// Rows of rollouts and log lines. Encoding on the control thread, applied by the writer thread
// while the control thread waits. rollouts.c stores a change together with its line and reads all
// rows at start, rollout_control.c, quarantine.c and rollout_clock.c note lines alone,
// api_rollouts.c reads the log. Row and line are written in one transaction, so the log never lacks
// what memory has. Older versions of both are read; the layouts are below.
#include "svc/rollout/rollout_state.h"

#include "base/cursor.h"
#include "svc/rollout/simulation.h"
#include "svc/plan/stage_codec.h"
#include "svc/access/audit.h"
#include "svc/rollout/catalog_private.h"

#include <stdlib.h>
#include <string.h>

//   rollout row := u8 version(6), state, u8 verdict, u8 reason, u32 failure_ppm, u64 created_us,
//                  u64 rollback_since_us, u64 closed_us, u8 flags (2: accept_empty), simulation
//                  (simulation.c; version 4: u8 has_simulation in place of the flags, u64
//                  completed, u64 failed; since 6 with how devices failed), u8 cause (since 6),
//                  u64 log_seq, u64 revision, u64 control_seconds, u64
//                  control_silent, u8 size, created_by, u8 count, count x { u64 segment, u8 size,
//                  text }, lifted (held of stage_codec.c), varint spec_size, spec (release_codec.c)
//   state       := u8 state, u16 stage, u8 flags (1: before the first stage, 2: stage failed,
//                  4: paged, 8: killed, 16: guarding, 32: paused itself), u64 stage_since_us
//   log line    := u8 version(6; 4 lacks the counts of devices under way, 3 that of the unproven,
//                  too), u64 wall_us, u64 revision, u8 kind, u8 record_kind, u8 command,
//                  u64 now_us, counts (stage_codec.c), u8 action, u8 verdict, u8 reason,
//                  u32 failure_ppm, u64 rolled_back, state, u8 size, by, u8 size, comment,
//                  slices when the record is of slices, held then and when it is of a lift,
//                  trial, rises when the record is of slices (both since 6; stage_codec.c)

#define ROW_VERSION    7
#define ROW_OLDEST     4
#define LINE_VERSION   6
#define LINE_UNDER_WAY 5 // the first with those that are under way
#define LINE_TRIAL     6 // the first that tells of trials
#define LINE_UNPROVEN  4 // the first with that count
#define LINE_OLDEST    3
#define ROW_HEAD_MAX                                                                               \
    (256 + GW_SIMULATION_BYTES_MAX + GW_HELD_BYTES_MAX +                                           \
     GW_QUARANTINE_MAX * (GW_SEGMENT_TEXT_MAX + 9))
#define LINE_BYTES_MAX                                                                             \
    (1024 + GW_SLICES_BYTES_MAX + GW_HELD_BYTES_MAX + GW_TRIAL_BYTES_MAX + GW_RISES_BYTES_MAX)
#define TASK_BYTES_MAX 256

#define ROW_EVIDENCE 5 // the first that tells where the result of a simulation came from
#define ROW_CAUSE    6 // the first with the cause of an end, and how a simulation failed
#define ROW_MOVED    7 // the first that tells by how much its time was moved
#define MOVED_MAX_S  (INT64_C(1) << 45)
#define ROW_EMPTY    2u // flag

#define LINES_BACK 4u // of a rollout's log, at a time, to find what it was before it turned back

#define STATE_BEFORE_FIRST 1u
#define STATE_FAILED       2u
#define STATE_PAGED        4u
#define STATE_KILLED       8u
#define STATE_GUARDING     16u
#define STATE_PASSED       32u
#define STATE_ALL          63u

static void write_state(struct base_writer *writer, const struct pol_rollout *state)
{
    unsigned flags = 0;
    flags |= state->before_first ? STATE_BEFORE_FIRST : 0;
    flags |= state->stage_failed ? STATE_FAILED : 0;
    flags |= state->paged ? STATE_PAGED : 0;
    flags |= state->killed ? STATE_KILLED : 0;
    flags |= state->guarding ? STATE_GUARDING : 0;
    flags |= state->passed ? STATE_PASSED : 0;
    base_writer_u8(writer, (uint8_t)state->state);
    base_writer_u16(writer, state->stage_index);
    base_writer_u8(writer, (uint8_t)flags);
    base_writer_u64(writer, state->stage_since_us);
}

static void read_state(struct base_reader *reader, struct pol_rollout *out)
{
    uint8_t state = base_reader_u8(reader);
    out->stage_index = base_reader_u16(reader);
    uint8_t flags = base_reader_u8(reader);
    out->stage_since_us = base_reader_u64(reader);
    out->before_first = (flags & STATE_BEFORE_FIRST) != 0;
    out->stage_failed = (flags & STATE_FAILED) != 0;
    out->paged = (flags & STATE_PAGED) != 0;
    out->killed = (flags & STATE_KILLED) != 0;
    out->guarding = (flags & STATE_GUARDING) != 0;
    out->passed = (flags & STATE_PASSED) != 0;
    if (state >= POL_ROLLOUT_STATE_COUNT || flags > STATE_ALL) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    out->state = (enum pol_rollout_state)state;
}

// A byte that must be below `count`.
static uint8_t read_enum(struct base_reader *reader, unsigned count)
{
    uint8_t value = base_reader_u8(reader);
    if (value >= count) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return 0;
    }
    return value;
}

static size_t encode_rollout(const struct gw_rollout *rollout, uint8_t *out, size_t capacity)
{
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, ROW_VERSION);
    write_state(&writer, &rollout->state);
    base_writer_u8(&writer, (uint8_t)rollout->verdict);
    base_writer_u8(&writer, (uint8_t)rollout->reason);
    base_writer_u32(&writer, rollout->failure_ppm);
    base_writer_u64(&writer, rollout->created_us);
    base_writer_u64(&writer, rollout->rollback_since_us);
    base_writer_u64(&writer, rollout->closed_us);
    base_writer_u8(&writer, rollout->accept_empty ? ROW_EMPTY : 0);
    gw_simulation_write(&writer, &rollout->simulation);
    base_writer_u8(&writer, (uint8_t)rollout->cause);
    base_writer_u64(&writer, rollout->log_seq);
    base_writer_u64(&writer, rollout->revision);
    base_writer_u64(&writer, rollout->control_hazard.device_seconds);
    base_writer_u64(&writer, rollout->control_hazard.silent);
    base_writer_u64(&writer, (uint64_t)rollout->moved_s);
    gw_row_text_write(&writer, rollout->created_by, GW_LOG_BY_MAX);
    base_writer_u8(&writer, (uint8_t)rollout->quarantine_count);
    for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
        base_writer_u64(&writer, rollout->quarantine[i].segment);
        gw_row_text_write(&writer, rollout->quarantine[i].text, GW_SEGMENT_TEXT_MAX);
    }
    gw_pol_held_write(&writer, &rollout->lifted);
    base_writer_varint(&writer, rollout->release->spec_bytes);
    base_writer_bytes(&writer, rollout->release->spec, rollout->release->spec_bytes);
    return writer.status == BASE_OK ? base_writer_size(&writer) : 0;
}

static void read_simulation(struct base_reader *reader, uint8_t version, struct gw_rollout *out)
{
    struct gw_simulation *simulation = &out->simulation;
    uint8_t flags = read_enum(reader, ROW_EMPTY + 1);
    if (version >= ROW_EVIDENCE) {
        out->accept_empty = flags == ROW_EMPTY;
        gw_simulation_read(reader, version >= ROW_CAUSE, simulation);
        return;
    }
    simulation->source = flags != 0 ? GW_SIMULATION_TYPED : GW_SIMULATION_NONE;
    simulation->completed = base_reader_u64(reader);
    simulation->failed = base_reader_u64(reader);
    if (simulation->failed > simulation->completed) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

// Seconds, within what a clock can show.
static int64_t read_moved(struct base_reader *reader)
{
    int64_t moved_s = (int64_t)base_reader_u64(reader);
    if (moved_s < -MOVED_MAX_S || moved_s > MOVED_MAX_S) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return 0;
    }
    return moved_s;
}

enum base_status gw_rollout_decode(const uint8_t *bytes, size_t size,
                                   struct gw_rollout **out_rollout, struct base_error *error)
{
    struct base_reader reader;
    struct gw_rollout *rollout = calloc(1, sizeof(*rollout));
    if (rollout == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    bool ok = version >= ROW_OLDEST && version <= ROW_VERSION;
    read_state(&reader, &rollout->state);
    rollout->verdict = (enum pol_verdict)read_enum(&reader, POL_VERDICT_COUNT);
    rollout->reason = (enum pol_reason)read_enum(&reader, POL_REASON_COUNT);
    rollout->failure_ppm = base_reader_u32(&reader);
    rollout->created_us = base_reader_u64(&reader);
    rollout->rollback_since_us = base_reader_u64(&reader);
    rollout->closed_us = base_reader_u64(&reader);
    read_simulation(&reader, version, rollout);
    if (version >= ROW_CAUSE) {
        rollout->cause = (enum pol_reason)read_enum(&reader, POL_REASON_COUNT);
    }
    rollout->log_seq = base_reader_u64(&reader);
    rollout->revision = base_reader_u64(&reader);
    rollout->control_hazard.device_seconds = base_reader_u64(&reader);
    rollout->control_hazard.silent = base_reader_u64(&reader);
    rollout->moved_s = version >= ROW_MOVED ? read_moved(&reader) : 0;
    gw_row_text_read(&reader, rollout->created_by, GW_LOG_BY_MAX);
    rollout->quarantine_count = read_enum(&reader, GW_QUARANTINE_MAX + 1);
    for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
        rollout->quarantine[i].segment = base_reader_u64(&reader);
        gw_row_text_read(&reader, rollout->quarantine[i].text, GW_SEGMENT_TEXT_MAX);
    }
    gw_pol_held_read(&reader, &rollout->lifted);
    size_t spec_bytes = (size_t)base_reader_varint_max(&reader, GW_ROLLOUT_SPEC_BYTES_MAX);
    const uint8_t *spec = base_reader_bytes(&reader, spec_bytes);
    ok = ok && base_reader_finish(&reader) == BASE_OK &&
         gw_release_new(spec, spec_bytes, &rollout->release, error) == BASE_OK &&
         rollout->state.stage_index < rollout->release->stage_count;
    if (!ok) {
        gw_release_unref(rollout->release);
        free(rollout);
        return BASE_ERR_CORRUPT;
    }
    *out_rollout = rollout;
    return BASE_OK;
}

static uint32_t counts_missing(uint8_t version)
{
    return version >= LINE_UNDER_WAY  ? 0
           : version >= LINE_UNPROVEN ? GW_COUNTS_WITHOUT_WAY
                                      : GW_COUNTS_WITHOUT_PROOFS;
}

static size_t encode_line(const struct gw_rollout_log_view *line, uint8_t *out, size_t capacity)
{
    const struct pol_record *record = &line->record;
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, LINE_VERSION);
    base_writer_u64(&writer, line->wall_us);
    base_writer_u64(&writer, line->revision);
    base_writer_u8(&writer, (uint8_t)line->kind);
    base_writer_u8(&writer, (uint8_t)record->kind);
    base_writer_u8(&writer, (uint8_t)record->command);
    base_writer_u64(&writer, record->now_us);
    gw_pol_counts_write(&writer, &record->counts);
    base_writer_u8(&writer, (uint8_t)record->action);
    base_writer_u8(&writer, (uint8_t)record->verdict);
    base_writer_u8(&writer, (uint8_t)record->reason);
    base_writer_u32(&writer, line->failure_ppm);
    base_writer_u64(&writer, line->rolled_back);
    write_state(&writer, &record->after);
    gw_row_text_write(&writer, line->by, GW_LOG_BY_MAX);
    gw_row_text_write(&writer, line->comment, GW_LOG_REASON_MAX);
    if (record->kind == POL_RECORD_SLICES) {
        gw_pol_slices_write(&writer, &record->slices);
    }
    if (record->kind == POL_RECORD_SLICES || record->kind == POL_RECORD_LIFT) {
        gw_pol_held_write(&writer, &record->held);
    }
    gw_pol_trial_write(&writer, &record->counts.trial);
    if (record->kind == POL_RECORD_SLICES) {
        gw_pol_rises_write(&writer, &record->slices);
    }
    return writer.status == BASE_OK ? base_writer_size(&writer) : 0;
}

enum base_status gw_rollout_line_decode(const uint8_t *bytes, size_t size,
                                        struct gw_rollout_log_view *out)
{
    struct pol_record *record = &out->record;
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    if (version < LINE_OLDEST || version > LINE_VERSION) {
        return BASE_ERR_CORRUPT;
    }
    out->wall_us = base_reader_u64(&reader);
    out->revision = base_reader_u64(&reader);
    out->kind = (enum gw_log_kind)read_enum(&reader, GW_LOG_KIND_LAST + 1);
    record->kind = (enum pol_record_kind)read_enum(&reader, POL_RECORD_KIND_COUNT);
    record->command = (enum pol_command)read_enum(&reader, POL_COMMAND_COUNT);
    record->now_us = base_reader_u64(&reader);
    gw_pol_counts_read(&reader, counts_missing(version), &record->counts);
    record->action = (enum pol_action)read_enum(&reader, POL_ACTION_COUNT);
    record->verdict = (enum pol_verdict)read_enum(&reader, POL_VERDICT_COUNT);
    record->reason = (enum pol_reason)read_enum(&reader, POL_REASON_COUNT);
    out->failure_ppm = base_reader_u32(&reader);
    out->rolled_back = base_reader_u64(&reader);
    read_state(&reader, &record->after);
    gw_row_text_read(&reader, out->by, GW_LOG_BY_MAX);
    gw_row_text_read(&reader, out->comment, GW_LOG_REASON_MAX);
    if (record->kind == POL_RECORD_SLICES) {
        gw_pol_slices_read(&reader, &record->slices);
    }
    if (record->kind == POL_RECORD_SLICES || record->kind == POL_RECORD_LIFT) {
        gw_pol_held_read(&reader, &record->held);
    }
    if (version >= LINE_TRIAL) {
        gw_pol_trial_read(&reader, &record->counts.trial);
    }
    if (version >= LINE_TRIAL && record->kind == POL_RECORD_SLICES) {
        gw_pol_rises_read(&reader, &record->slices);
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

// ---- Lines that nobody waits for

struct note_op {
    struct gw_store_op op;
    struct gw_key key;
    size_t line_bytes;
    uint8_t line[];
};

static enum base_status apply_note(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct note_op *note = (struct note_op *)self;
    return gw_store_txn_put(txn, GW_TABLE_ROLLOUT_LOG, &note->key, note->line, note->line_bytes);
}

static void note_done(struct gw_store_op *self, enum base_status status)
{
    (void)status;
    free(self);
}

void gw_rollout_note(struct gw_core *core, uint64_t id, const struct gw_rollout_log_view *line)
{
    uint8_t bytes[LINE_BYTES_MAX];
    size_t size = encode_line(line, bytes, sizeof(bytes));
    struct note_op *note = calloc(1, sizeof(*note) + size);
    if (note == NULL) {
        return;
    }
    memcpy(note->line, bytes, size);
    note->line_bytes = size;
    note->op.apply = apply_note;
    note->op.done = note_done;
    note->key = gw_key_u64_u64(id, line->seq);
    if (gw_store_submit(core->store, &note->op) != BASE_OK) {
        free(note);
    }
}

// ---- Reading the log

struct last_line {
    uint64_t id;
    uint64_t seq;
};

static bool see_line(void *ctx, struct base_span key, struct base_span value)
{
    struct last_line *last = ctx;
    uint64_t id;
    (void)value;
    return gw_key_read_u64(key.data, key.size, 0, &id) && id == last->id &&
           gw_key_read_u64(key.data, key.size, 1, &last->seq);
}

uint64_t gw_rollout_last_line(struct gw_core *core, uint64_t id, uint64_t from)
{
    struct last_line last = {.id = id};
    struct gw_key key = gw_key_u64_u64(id, from);
    struct gw_store_read *read;
    if (gw_store_read_begin(core->store, &read) != BASE_OK) {
        return 0;
    }
    enum base_status status = gw_store_read_scan(read, GW_TABLE_ROLLOUT_LOG, &key, see_line, &last);
    gw_store_read_end(read);
    return status == BASE_OK ? last.seq : 0;
}

struct log_list {
    uint64_t id;
    struct gw_rollout_log_view *out;
    uint32_t limit;
    uint32_t count;
    bool more;
};

static bool list_line(void *ctx, struct base_span key, struct base_span value)
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
    if (gw_rollout_line_decode(value.data, value.size, &list->out[list->count]) == BASE_OK) {
        list->out[list->count++].seq = seq;
    }
    return true;
}

enum base_status gw_rollout_log(struct gw_core *core, uint64_t id, uint64_t after,
                                struct gw_rollout_log_view *out, struct gw_page *page)
{
    if (gw_catalog_find_rollout(core, id) == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    struct log_list list = {.id = id, .out = out, .limit = gw_page_room(page)};
    struct gw_key from = gw_key_u64_u64(id, after < UINT64_MAX ? after + 1 : after);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_ROLLOUT_LOG, &from, list_line, &list);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        page->count = list.count;
        page->more = list.more;
    }
    return status;
}

struct log_search {
    uint64_t id;
    const struct gw_log_wish *wish;
    struct gw_rollout_log_view *line;
    bool found;
};

static bool search_line(void *ctx, struct base_span key, struct base_span value)
{
    struct log_search *search = ctx;
    const struct gw_log_wish *wish = search->wish;
    const struct gw_rollout_log_view *line = search->line;
    uint64_t id;
    if (!gw_key_read_u64(key.data, key.size, 0, &id) || id != search->id) {
        return false;
    }
    search->found = gw_rollout_line_decode(value.data, value.size, search->line) == BASE_OK &&
                    line->kind == wish->kind && line->record.action == wish->action &&
                    line->wall_us >= wish->since_us;
    return !search->found;
}

bool gw_rollout_log_has(struct gw_core *core, uint64_t id, const struct gw_log_wish *wish)
{
    struct log_search search = {.id = id, .wish = wish, .line = malloc(sizeof(*search.line))};
    struct gw_key from = gw_key_u64_u64(id, 0);
    struct gw_store_read *read;
    if (search.line != NULL && gw_store_read_begin(core->store, &read) == BASE_OK) {
        if (gw_store_read_scan(read, GW_TABLE_ROLLOUT_LOG, &from, search_line, &search) !=
            BASE_OK) {
            search.found = false;
        }
        gw_store_read_end(read);
    }
    free(search.line);
    return search.found;
}

static bool is_back(const struct pol_rollout *state)
{
    return state->state == POL_ROLLOUT_ROLLING_BACK || state->state == POL_ROLLOUT_ROLLED_BACK;
}

// What the rollout was when it turned back, by its log. `lines`: room for
// LINES_BACK of them.
static enum gw_rollout_start turned_from(struct gw_core *core, const struct gw_rollout *rollout,
                                         struct gw_rollout_log_view *lines)
{
    uint64_t last = rollout->log_seq;
    while (last > 0) {
        uint64_t after = last > LINES_BACK ? last - LINES_BACK : 0;
        struct gw_page page = {.limit = (uint32_t)(last - after)};
        if (gw_rollout_log(core, rollout->release->id, after, lines, &page) != BASE_OK) {
            break;
        }
        for (uint32_t i = page.count; i > 0; i--) {
            const struct pol_rollout *was = &lines[i - 1].record.after;
            if (!is_back(was)) {
                bool full = was->state == POL_ROLLOUT_COMPLETED || was->guarding;
                bool draft = was->state == POL_ROLLOUT_DRAFT;
                return full ? GW_START_FULL : draft ? GW_START_NEVER : GW_START_STAGES;
            }
        }
        last = after;
    }
    return GW_START_FULL; // nobody can tell: nobody's word is lost
}

// Of one that goes back, or is back.
static enum gw_rollout_start start_of(struct gw_core *core, struct gw_rollout *rollout)
{
    if (rollout->start == GW_START_UNKNOWN) {
        struct gw_rollout_log_view *lines = calloc(LINES_BACK, sizeof(*lines));
        if (lines == NULL) {
            return GW_START_FULL;
        }
        rollout->start = turned_from(core, rollout, lines);
        free(lines);
    }
    return rollout->start;
}

bool gw_rollout_was_started(struct gw_core *core, struct gw_rollout *rollout)
{
    const struct pol_rollout *state = &rollout->state;
    if (state->state == POL_ROLLOUT_DRAFT || state->before_first) {
        return false;
    }
    return !is_back(state) || start_of(core, rollout) != GW_START_NEVER;
}

bool gw_rollout_offers_unmarked(struct gw_core *core, struct gw_rollout *rollout)
{
    return gw_rollout_was_started(core, rollout) &&
           (!is_back(&rollout->state) || start_of(core, rollout) == GW_START_FULL);
}
