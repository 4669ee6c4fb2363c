// HELLO and WELCOME: who speaks, which lanes the session takes over, and whether device and gateway
// agree on what is durable. Worker's thread. session_input.c calls for HELLO and at the end of a
// session, gw_tunnel.c when something has landed that a session waited for. WELCOME is sent only
// when nothing of the lanes is on its way to disk, since it says what is durable. A device that
// says otherwise is a copy or was restored: it is told FORK.
#include "tunnel/session_hello.h"

#include "tunnel/session_input.h"
#include "tunnel/session_output.h"
#include "tunnel/session_private.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WELCOME_MAX 512u

// Makes the class the owner of its lane; who had it is sent away.
static enum base_status attach(struct gw_session *session, struct gw_session_class *class,
                               const struct wire_tunnel_hello_class *hello)
{
    base_assert(class->lane == NULL);
    struct gw_mark_shard *shard = gw_marks_lock(session->worker->tunnel->marks, session->device);
    struct gw_lane *lane = gw_lane_get(shard, session->device, hello->class_id, hello->epoch);
    if (lane != NULL) {
        lane->users++;
        struct gw_session_class *owner = lane->owner;
        lane->owner = class;
        lane->owners++;
        class->lane = lane;
        if (owner != NULL && owner->session != session) {
            gw_session_notify(owner->session, GW_SESSION_SUPERSEDED, true);
        }
    }
    gw_marks_unlock(shard);
    return lane != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

// Leaves the lanes, and what of a batch came on the shelf.
void gw_session_detach(struct gw_session *session)
{
    struct gw_tunnel *tunnel = session->worker->tunnel;
    for (uint32_t i = 0; i < session->class_count; i++) {
        struct gw_session_class *class = &session->classes[i];
        if (class->lane == NULL) {
            continue;
        }
        const struct gw_partial partial = {.device = session->device,
                                           .epoch = class->lane->epoch,
                                           .class_id = class->class_id,
                                           .got = class->partial_got,
                                           .batch = class->partial};
        struct gw_mark_shard *shard = gw_marks_lock(tunnel->marks, session->device);
        struct gw_lane *lane = class->lane;
        bool owner = lane->owner == class;
        if (owner) {
            lane->owner = NULL;
        }
        base_assert(lane->users > 0);
        lane->users--;
        class->lane = NULL;
        gw_lane_release(shard, lane);
        gw_marks_unlock(shard);
        if (partial.batch != NULL && owner) {
            gw_tunnel_partials_leave(tunnel->partials, &partial, partial.batch->memory);
        } else {
            gw_tunnel_batch_free(partial.batch);
        }
        class->partial = NULL;
    }
}

static enum base_status make_classes(struct gw_session *session,
                                     const struct wire_tunnel_hello *hello)
{
    base_assert(session->classes == NULL);
    base_assert(hello->class_count <= WIRE_TUNNEL_CLASSES);
    session->classes = calloc(hello->class_count, sizeof(session->classes[0]));
    session->hello = malloc(hello->class_count * sizeof(session->hello[0]));
    if (session->classes == NULL || session->hello == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(session->hello, hello->classes, hello->class_count * sizeof(session->hello[0]));
    session->class_count = hello->class_count;
    for (uint32_t i = 0; i < hello->class_count; i++) {
        struct gw_session_class *class = &session->classes[i];
        class->session = session;
        class->class_id = hello->classes[i].class_id;
        class->sample_ppm = WIRE_TUNNEL_SAMPLE_ALL;
        BASE_TRY(attach(session, class, &hello->classes[i]));
    }
    return BASE_OK;
}

enum base_status gw_session_on_hello(struct gw_session *session, const uint8_t *payload,
                                     size_t size)
{
    base_assert(session->state == GW_SESSION_START && session->class_count == 0);
    struct wire_tunnel_hello hello;
    enum base_status status = wire_tunnel_hello_parse(payload, size, &hello);
    if (status == BASE_OK && hello.device != session->device) {
        status = BASE_ERR_DENIED;
    }
    if (status != BASE_OK) {
        return gw_session_violation(session, status, "HELLO");
    }
    session->device_ms = hello.wall_ms;
    session->single_reject = hello.single_reject;
    for (uint32_t i = 0; i < hello.dict_count; i++) { // newest first; asks for what is not at hand
        bool known = gw_tunnel_zstd_dict(session->worker->tunnel, hello.dicts[i]) != NULL;
        session->dict = known && session->dict == 0 ? hello.dicts[i] : session->dict;
    }
    gw_count(&session->worker->counters.sessions_total, 1);
    session->state = GW_SESSION_WAITING;
    if (make_classes(session, &hello) != BASE_OK) {
        gw_session_away(session, GW_TUNNEL_AWAY_MS, GW_TUNNEL_AWAY_SPREAD_MS);
        return BASE_OK;
    }
    gw_session_try_welcome(session);
    return BASE_OK;
}

// ---- WELCOME

static bool all_idle(struct gw_session *session)
{
    bool idle = true;
    struct gw_mark_shard *shard = gw_marks_lock(session->worker->tunnel->marks, session->device);
    for (uint32_t i = 0; i < session->class_count; i++) {
        const struct gw_session_class *class = &session->classes[i];
        idle = idle && class->lane->owner == class && class->lane->under_way == 0;
    }
    gw_marks_unlock(shard);
    return idle;
}

static void take_partial(struct gw_session *session, struct gw_session_class *class,
                         const struct gw_mark *mark)
{
    struct gw_partial partial;
    struct gw_tunnel *tunnel = session->worker->tunnel;
    if (!gw_tunnel_partials_take(tunnel->partials, session->device, class->class_id, mark->epoch,
                                 &partial)) {
        return;
    }
    const struct gw_batch_id *id = &partial.batch->id;
    if (id->number != mark->high_water || id->prev_hash != mark->hash ||
        partial.batch->sink.tenant != session->tenant) {
        gw_tunnel_batch_free(partial.batch);
        return;
    }
    base_assert(class->partial == NULL);
    class->partial = partial.batch;
    class->partial_got = partial.got;
    // What came before counts as used and granted in this stream, so that it adds up in the end.
    class->used_bytes += partial.got;
    class->granted_bytes += partial.got;
    class->used_records += partial.batch->sink.batch.count;
    class->granted_records += partial.batch->sink.batch.count;
    gw_count(&session->worker->counters.resumed_total, 1);
}

static struct wire_tunnel_welcome_class welcome_class(struct gw_session *session,
                                                      struct gw_session_class *class,
                                                      const struct gw_mark *mark)
{
    struct gw_tunnel *tunnel = session->worker->tunnel;
    uint32_t credit =
        gw_tunnel_is_crowded(tunnel) ? WIRE_TUNNEL_FIRST_CREDIT : tunnel->credit_bytes;
    class->acked = mark->high_water;
    class->granted_bytes += credit;
    class->granted_records += GW_TUNNEL_CREDIT_RECORDS;
    take_partial(session, class, mark);
    return (struct wire_tunnel_welcome_class){
        .class_id = class->class_id,
        .epoch = mark->epoch,
        .high_water = mark->high_water,
        .hash = mark->hash,
        .credit_bytes = credit,
        .credit_records = GW_TUNNEL_CREDIT_RECORDS,
        .partial_batch = class->partial != NULL ? class->partial->id.number : 0,
        .partial_bytes = class->partial_got,
    };
}

// Does what the device says of itself fit to what is durable?
static bool is_fork(struct gw_session *session, const struct wire_tunnel_hello_class *hello,
                    const struct gw_mark *mark)
{
    if (hello->tail > mark->high_water) {
        base_log_warn(session->worker->tunnel->log_port, "tunnel",
                      "device %016" PRIx64 " class %u: it says that %" PRIu64
                      " batches are durable, here are %" PRIu64,
                      session->device, hello->class_id, hello->tail, mark->high_water);
        return true;
    }
    return mark->high_water > hello->next ||
           (hello->tail == mark->high_water && hello->tail_hash != mark->hash);
}

void gw_session_try_welcome(struct gw_session *session)
{
    base_assert(session->state == GW_SESSION_WAITING);
    base_assert(session->class_count > 0 && session->class_count <= WIRE_TUNNEL_CLASSES);
    if (!all_idle(session)) {
        return; // what lands tells
    }
    struct gw_mark marks[WIRE_TUNNEL_CLASSES];
    struct gw_mark_shard *shard = gw_marks_lock(session->worker->tunnel->marks, session->device);
    for (uint32_t i = 0; i < session->class_count; i++) {
        marks[i] = gw_lane_mark(shard, session->classes[i].lane);
    }
    gw_marks_unlock(shard);
    struct wire_tunnel_welcome welcome = {
        .wall_ms =
            session->worker->tunnel->clock.wall_us(session->worker->tunnel->clock.ctx) / 1000,
        .dict = session->dict,
        .class_count = session->class_count,
    };
    for (uint32_t i = 0; i < session->class_count; i++) {
        welcome.classes[i] = welcome_class(session, &session->classes[i], &marks[i]);
    }
    uint8_t frame[WELCOME_MAX];
    size_t size;
    if (wire_tunnel_welcome_encode(&welcome, frame, sizeof(frame), &size) != BASE_OK) {
        gw_session_away(session, GW_TUNNEL_AWAY_MS, GW_TUNNEL_AWAY_SPREAD_MS);
        return;
    }
    session->state = GW_SESSION_OPEN;
    (void)gw_session_send(session, frame, size);
    for (uint32_t i = 0; i < session->class_count && session->state == GW_SESSION_OPEN; i++) {
        if (is_fork(session, &session->hello[i], &marks[i])) {
            gw_session_fork(session, &session->classes[i], &marks[i]);
        }
    }
    free(session->hello);
    session->hello = NULL;
}
