// BATCH, CHUNK and LOSS: credit, order, content, and the way to the sink. session_input.c calls for
// each such frame, on the worker's thread. A batch that is not the next one is dropped and not
// refused, for the device sends again from the mark, unless it shows that there are two devices;
// one whose content is refused says which records, and so does what comes behind it, once. What is
// submitted belongs to the sink until `done`, which only leaves a note for the worker.
#include "tunnel/session_batch.h"

#include "tunnel/session_content.h"
#include "tunnel/session_input.h"
#include "tunnel/session_output.h"
#include "tunnel/session_private.h"

#include "base/check.h"

#include <string.h>

static struct gw_session_class *find_class(struct gw_session *session, uint8_t class_id)
{
    for (uint32_t i = 0; i < session->class_count; i++) {
        if (session->classes[i].class_id == class_id) {
            return &session->classes[i];
        }
    }
    return NULL;
}

static enum gw_verdict judge(struct gw_session_class *class, const struct gw_batch_id *id,
                             struct gw_mark *out_mark)
{
    const struct gw_session *session = class->session;
    struct gw_mark_shard *shard = gw_marks_lock(session->worker->tunnel->marks, session->device);
    enum gw_verdict verdict =
        class->lane->owner == class ? gw_lane_judge(class->lane, id) : GW_VERDICT_GAP;
    if (verdict == GW_VERDICT_FORK) {
        *out_mark = gw_lane_mark(shard, class->lane);
    }
    gw_marks_unlock(shard);
    return verdict;
}

// Everything but NEW ends here. True: it is to be gone on with.
static bool is_new(struct gw_session_class *class, const struct gw_batch_id *id)
{
    struct gw_session *session = class->session;
    struct gw_tunnel_counters *counters = &session->worker->counters;
    struct gw_mark mark;
    if (class->forked) {
        return false;
    }
    switch (judge(class, id, &mark)) {
    case GW_VERDICT_NEW:
        return true;
    case GW_VERDICT_KNOWN:
        gw_count(&counters->known_total, 1);
        return false;
    case GW_VERDICT_FORK:
        gw_session_fork(session, class, &mark);
        return false;
    default:
        gw_count(&counters->gaps_total, 1);
        return false;
    }
}

static void drop(struct gw_session_class *class, uint64_t bytes, uint64_t records)
{
    class->dropped_bytes += bytes;
    class->dropped_records += records;
    gw_session_notify(class->session, 0, false);
}

static void drop_partial(struct gw_session_class *class)
{
    if (class->partial != NULL) {
        base_assert(class->partial_got < class->partial->sink.batch.sent_bytes);
        drop(class, class->partial_got, class->partial->sink.batch.count);
        gw_tunnel_batch_free(class->partial);
        class->partial = NULL;
        class->partial_got = 0;
    }
}

static enum base_status charge(struct gw_session_class *class, uint64_t bytes, uint64_t records)
{
    class->used_bytes += bytes;
    class->used_records += records;
    if (class->used_bytes > class->granted_bytes || class->used_records > class->granted_records) {
        return gw_session_violation(class->session, BASE_ERR_LIMIT, "bytes beyond its credit");
    }
    return BASE_OK;
}

static bool is_overloaded(const struct gw_tunnel *tunnel)
{
    // A half more than where credit ends: what was granted before may still come.
    return atomic_load_explicit(&tunnel->memory, memory_order_relaxed) >
           tunnel->memory_max + tunnel->memory_max / 2;
}

static void send_away(struct gw_session *session)
{
    gw_session_away(session, GW_TUNNEL_AWAY_MS, GW_TUNNEL_AWAY_SPREAD_MS);
}

// ---- To the sink

// Hands a batch that is whole and good over. Takes it.
static void submit_take(struct gw_session_class *class, struct gw_tunnel_batch *batch)
{
    struct gw_session *session = class->session;
    struct gw_tunnel *tunnel = session->worker->tunnel;
    struct gw_tunnel_counters *counters = &session->worker->counters;
    base_assert(class->partial != batch); // the sink may free it before this returns
    if (!gw_tunnel_has_room(tunnel, session->port.unproven, batch->memory)) {
        gw_count(&counters->no_room_total, 1);
        gw_tunnel_batch_free(batch);
        gw_session_away(session, GW_TUNNEL_NO_ROOM_MS, GW_TUNNEL_NO_ROOM_SPREAD_MS);
        return;
    }
    batch->sink.received_ms = tunnel->clock.wall_us(tunnel->clock.ctx) / 1000;
    batch->lane = class->lane;
    // The batch may be gone when submit returns.
    const struct gw_batch_id id = batch->id;
    bool is_loss = batch->sink.is_loss;
    uint64_t lost = batch->sink.loss.count;
    uint8_t reason = is_loss ? batch->sink.loss.reason : 0;
    struct wire_tunnel_batch sent = batch->sink.batch;
    struct gw_mark_shard *shard = gw_marks_lock(tunnel->marks, session->device);
    bool still = class->lane->owner == class && gw_lane_judge(class->lane, &id) == GW_VERDICT_NEW;
    enum base_status status =
        still ? gw_lane_prepare(shard, class->lane, session->port.unproven) : BASE_ERR_CONFLICT;
    batch->owners = class->lane->owners;
    if (status == BASE_OK) {
        status = tunnel->sink.submit(tunnel->sink.ctx, &batch->sink);
    }
    if (status == BASE_OK) {
        gw_lane_take(class->lane, &id);
    }
    gw_marks_unlock(shard);
    if (status != BASE_OK) {
        gw_tunnel_batch_free(batch);
        if (status != BASE_ERR_CONFLICT) {
            send_away(session);
        }
        return;
    }
    if (reason == WIRE_TUNNEL_LOSS_SPLIT) { // its records come, or are declared lost, later
        gw_count(&counters->splits_total, 1);
    } else if (is_loss) {
        gw_count(&counters->losses_total, 1);
        gw_count(&counters->lost_records_total, lost);
        gw_count(&counters->sampled_records_total, reason == WIRE_TUNNEL_LOSS_POLICY ? lost : 0);
        gw_count(&counters->dropped_starts_total, reason == WIRE_TUNNEL_LOSS_STARTS ? lost : 0);
    } else {
        gw_count(&counters->batches_total, 1);
        gw_count(&counters->records_total, sent.count);
        gw_count(&counters->bytes_total, sent.sent_bytes);
        gw_count(&counters->raw_bytes_total, sent.raw_bytes);
    }
}

// ---- Content

// Records that a task made badly are no fault of the stream's: the device's rate bounds them. A
// batch that cannot be read at all is.
static enum base_status reject(struct gw_session_class *class,
                               const struct wire_tunnel_reject *refusal)
{
    struct gw_session *session = class->session;
    uint8_t frame[64];
    size_t size;
    base_assert(refusal->status != BASE_OK);
    gw_count(&session->worker->counters.rejects_total, 1);
    if (wire_tunnel_reject_encode(refusal, frame, sizeof(frame), &size) == BASE_OK) {
        (void)gw_session_send(session, frame, size);
    }
    if (refusal->record == WIRE_TUNNEL_NO_RECORD && ++session->strikes > GW_TUNNEL_STRIKES_MAX) {
        return gw_session_violation(session, BASE_ERR_LIMIT, "batches refused");
    }
    return BASE_OK;
}

static enum base_status need_full(struct gw_session_class *class, uint64_t number)
{
    struct gw_session *session = class->session;
    uint8_t frame[64];
    size_t size;
    const struct wire_tunnel_needfull need = {.class_id = class->class_id, .number = number};
    gw_count(&session->worker->counters.needfulls_total, 1);
    if (wire_tunnel_needfull_encode(&need, frame, sizeof(frame), &size) == BASE_OK) {
        (void)gw_session_send(session, frame, size);
    }
    if (++session->strikes > GW_TUNNEL_STRIKES_MAX) {
        return gw_session_violation(session, BASE_ERR_LIMIT, "batches refused");
    }
    return BASE_OK;
}

// All bytes are there: is it to be submitted? If not it is refused and gone, *batch NULL.
static enum base_status check_take(struct gw_session_class *class, struct gw_tunnel_batch **batch)
{
    const struct wire_tunnel_batch *sent = &(*batch)->sink.batch;
    struct wire_tunnel_reject refusal;
    base_assert(sent->part_bytes == sent->sent_bytes);
    enum base_status why = gw_session_check(class, sent, true, &refusal);
    if (why == BASE_OK) {
        return BASE_OK;
    }
    uint64_t number = sent->number;
    bool with_dict = sent->codec == WIRE_TUNNEL_ZSTD_DICT;
    drop(class, sent->sent_bytes, sent->count);
    gw_tunnel_batch_free(*batch);
    *batch = NULL;
    if (why == BASE_ERR_NOMEM) {
        send_away(class->session);
        return BASE_OK;
    }
    // With a dictionary it may be the dictionary's fault: whole, it gets another chance.
    if (with_dict &&
        (why == BASE_ERR_NOT_FOUND || why == BASE_ERR_CORRUPT || why == BASE_ERR_HASH)) {
        return need_full(class, number);
    }
    if (number >= class->looked_end) {
        class->refused_at = number;
        class->looked_end = number + 1;
    }
    return reject(class, &refusal);
}

// One more batch is in: do devices send more than there is memory for?
static void thin(struct gw_session *session)
{
    (void)gw_tunnel_worker_thin_step(session->worker);
    gw_session_thin(session);
}

// A batch behind a refused one: it is dropped and comes again, but what of it is refused is told
// now, once, so that a queue of refused records costs a round trip a window and not one each.
static enum base_status look_behind(struct gw_session_class *class,
                                    const struct wire_tunnel_batch *sent)
{
    struct wire_tunnel_reject refusal;
    if (class->session->single_reject || class->forked || class->looked_end == 0 ||
        sent->number != class->looked_end || sent->part_bytes < sent->sent_bytes) {
        return BASE_OK;
    }
    (void)gw_session_check(class, sent, false, &refusal);
    bool named = refusal.status != BASE_OK && refusal.record != WIRE_TUNNEL_NO_RECORD;
    class->looked_end++;
    return named ? reject(class, &refusal) : BASE_OK;
}

// ---- Frames

static struct gw_tunnel_batch *copy_batch(struct gw_session_class *class,
                                          const struct wire_tunnel_batch *from)
{
    struct gw_tunnel_batch *batch = gw_tunnel_batch_new(class->session, from->sent_bytes);
    base_assert(from->part_bytes <= from->sent_bytes);
    if (batch != NULL) {
        batch->id = (struct gw_batch_id){from->number, 1, from->prev_hash, from->hash};
        batch->sink.batch = *from;
        batch->sink.batch.bytes = batch->bytes;
        batch->sink.batch.part_bytes = from->sent_bytes;
        memcpy(batch->bytes, from->bytes, from->part_bytes);
    }
    return batch;
}

enum base_status gw_session_on_batch(struct gw_session *session, const uint8_t *payload,
                                     size_t size)
{
    struct wire_tunnel_batch sent;
    enum base_status status = wire_tunnel_batch_parse(payload, size, &sent);
    struct gw_session_class *class = status == BASE_OK ? find_class(session, sent.class_id) : NULL;
    if (status == BASE_OK && (class == NULL || class->lane->epoch != sent.epoch)) {
        status = BASE_ERR_INVALID;
    }
    if (status != BASE_OK) {
        return gw_session_violation(session, status, "BATCH");
    }
    BASE_TRY(charge(class, sent.part_bytes, sent.count));
    drop_partial(class);
    base_assert(class->partial == NULL && class->partial_got == 0);
    const struct gw_batch_id id = {sent.number, 1, sent.prev_hash, sent.hash};
    if (!is_new(class, &id)) {
        drop(class, sent.part_bytes, sent.count);
        return look_behind(class, &sent);
    }
    struct gw_tunnel_batch *batch =
        is_overloaded(session->worker->tunnel) ? NULL : copy_batch(class, &sent);
    if (batch == NULL) {
        send_away(session);
        return BASE_OK;
    }
    if (sent.part_bytes < sent.sent_bytes) {
        class->partial = batch;
        class->partial_got = sent.part_bytes;
        return BASE_OK;
    }
    status = check_take(class, &batch);
    if (batch != NULL) {
        submit_take(class, batch);
        thin(session);
    }
    return status;
}

enum base_status gw_session_on_chunk(struct gw_session *session, const uint8_t *payload,
                                     size_t size)
{
    struct wire_tunnel_chunk chunk;
    enum base_status status = wire_tunnel_chunk_parse(payload, size, &chunk);
    struct gw_session_class *class = status == BASE_OK ? find_class(session, chunk.class_id) : NULL;
    if (status == BASE_OK && class == NULL) {
        status = BASE_ERR_INVALID;
    }
    if (status != BASE_OK) {
        return gw_session_violation(session, status, "CHUNK");
    }
    BASE_TRY(charge(class, chunk.size, 0));
    struct gw_tunnel_batch *batch = class->partial;
    if (batch == NULL || batch->id.number != chunk.number || class->forked) {
        drop(class, chunk.size, 0); // of a batch that was not taken
        return BASE_OK;
    }
    uint32_t whole = batch->sink.batch.sent_bytes;
    base_assert(class->partial_got < whole);
    if (chunk.offset != class->partial_got || chunk.size > whole - class->partial_got) {
        return gw_session_violation(session, BASE_ERR_INVALID, "CHUNK out of order");
    }
    memcpy(batch->bytes + chunk.offset, chunk.bytes, chunk.size);
    class->partial_got += chunk.size;
    if (class->partial_got < whole) {
        return BASE_OK;
    }
    class->partial = NULL;
    class->partial_got = 0;
    status = check_take(class, &batch);
    if (batch != NULL) {
        submit_take(class, batch);
        thin(session);
    }
    return status;
}

enum base_status gw_session_on_loss(struct gw_session *session, const uint8_t *payload, size_t size)
{
    struct wire_tunnel_loss_frame loss;
    enum base_status status = wire_tunnel_loss_parse(payload, size, &loss);
    struct gw_session_class *class = status == BASE_OK ? find_class(session, loss.class_id) : NULL;
    if (status == BASE_OK && (class == NULL || class->lane->epoch != loss.epoch ||
                              wire_tunnel_chain_loss(&loss) != loss.hash)) {
        status = BASE_ERR_INVALID;
    }
    if (status != BASE_OK) {
        return gw_session_violation(session, status, "LOSS");
    }
    drop_partial(class);
    base_assert(loss.numbers > 0); // the mark moves on
    const struct gw_batch_id id = {loss.number, loss.numbers, loss.prev_hash, loss.hash};
    if (!is_new(class, &id)) {
        return BASE_OK;
    }
    struct gw_tunnel_batch *batch =
        is_overloaded(session->worker->tunnel) ? NULL : gw_tunnel_batch_new(session, 0);
    if (batch == NULL) {
        send_away(session);
        return BASE_OK;
    }
    batch->id = id;
    batch->sink.is_loss = true;
    batch->sink.loss = loss;
    submit_take(class, batch);
    return BASE_OK;
}
