// Sessions: opening, frames out of the byte stream, closing. http/tunnel_stream.c brings the bytes
// and fleet-sim's tunnel_law_link.c stands in for it; worker's thread. Whole frames are handled
// where they lie, only the rest is copied and kept, up to GW_TUNNEL_INPUT_MAX. A session stops at
// the end of the worker's turn and goes on in the next, so one that sends much does not hold up the
// others.
#include "tunnel/session_input.h"

#include "tunnel/session_batch.h"
#include "tunnel/session_hello.h"
#include "tunnel/session_output.h"
#include "tunnel/session_private.h"

#include "base/check.h"
#include "base/ckd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_FIRST      1024u
#define US_PER_S         UINT64_C(1000000)
#define RATE_WAIT_MS     1000u
#define FRAME_TURN_BYTES 512u // a frame costs as much as so many bytes

enum base_status gw_session_open(struct gw_tunnel_worker *worker, uint64_t device, uint32_t tenant,
                                 const struct gw_session_port *port, struct gw_session **out)
{
    base_assert(tenant <= GW_MARK_TENANT_MAX); // marks keep so many bits of it
    struct gw_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return BASE_ERR_NOMEM;
    }
    session->worker = worker;
    session->port = *port;
    session->device = device;
    session->tenant = tenant;
    session->rate =
        gw_device_rate_get(worker->tunnel->rates, device, gw_tunnel_now_us(worker->tunnel));
    if (session->rate == NULL) {
        free(session);
        return BASE_ERR_NOMEM;
    }
    session->next = worker->sessions;
    session->prev = &worker->sessions;
    if (session->next != NULL) {
        session->next->prev = &session->next;
    }
    worker->sessions = session;
    gw_count(&worker->counters.sessions, 1);
    *out = session;
    return BASE_OK;
}

static void leave_inbox(struct gw_session *session)
{
    struct gw_tunnel_worker *worker = session->worker;
    pthread_mutex_lock(&worker->inbox_lock);
    if (session->queue_prev != NULL) {
        base_assert(*session->queue_prev == session);
        *session->queue_prev = session->queue_next;
        if (session->queue_next != NULL) {
            session->queue_next->queue_prev = session->queue_prev;
        }
        session->queue_prev = NULL;
    }
    pthread_mutex_unlock(&worker->inbox_lock);
}

static void set_input_capacity(struct gw_session *session, uint32_t capacity)
{
    struct gw_tunnel *tunnel = session->worker->tunnel;
    atomic_fetch_add_explicit(&tunnel->memory, capacity, memory_order_relaxed);
    atomic_fetch_sub_explicit(&tunnel->memory, session->input_capacity, memory_order_relaxed);
    session->input_capacity = capacity;
}

static void drop_input(struct gw_session *session)
{
    free(session->input);
    session->input = NULL;
    session->input_size = 0;
    set_input_capacity(session, 0);
}

void gw_session_close(struct gw_session *session)
{
    if (session == NULL) {
        return;
    }
    struct gw_tunnel_worker *worker = session->worker;
    gw_session_detach(session); // from here on nobody else knows it
    gw_device_rate_release(worker->tunnel->rates, session->rate);
    leave_inbox(session);
    drop_input(session);
    base_assert(*session->prev == session);
    *session->prev = session->next;
    if (session->next != NULL) {
        session->next->prev = session->prev;
    }
    gw_count(&worker->counters.sessions, UINT64_MAX);
    free(session->hello);
    free(session->classes);
    free(session);
}

enum base_status gw_session_violation(struct gw_session *session, enum base_status status,
                                      const char *what)
{
    gw_count(&session->worker->counters.violations_total, 1);
    if (gw_tunnel_worker_may_log(session->worker)) {
        base_log_warn(session->worker->tunnel->log_port, "tunnel",
                      "device %016" PRIx64 ": %s: %s; its stream is reset", session->device, what,
                      base_status_text(status));
    }
    session->state = GW_SESSION_ENDED;
    drop_input(session);
    return status;
}

// ---- Rate

static enum base_status count_frame(struct gw_session *session)
{
    struct gw_tunnel *tunnel = session->worker->tunnel;
    uint64_t now_us = gw_tunnel_now_us(tunnel);
    uint64_t ahead_us = gw_device_rate_take(session->rate, tunnel->rate, now_us);
    if (ahead_us <= GW_RATE_BURST_US) {
        return BASE_OK;
    }
    if (ahead_us > GW_RATE_BURST_US + GW_RATE_DEBT_US) {
        return gw_session_violation(session, BASE_ERR_LIMIT, "batches beyond the device's rate");
    }
    if (session->throttled_us == 0 || now_us - session->throttled_us >= US_PER_S) {
        session->throttled_us = now_us;
        gw_session_throttle(session, RATE_WAIT_MS, RATE_WAIT_MS);
    }
    return BASE_OK;
}

// ---- Frames

static enum base_status on_ping(struct gw_session *session, const uint8_t *payload, size_t size)
{
    uint64_t value;
    uint8_t frame[WIRE_TUNNEL_HEAD + sizeof(value)];
    size_t wrote;
    enum base_status status = wire_tunnel_ping_parse(payload, size, &value);
    if (status != BASE_OK) {
        return gw_session_violation(session, status, "PING");
    }
    status = wire_tunnel_ping_encode(WIRE_TUNNEL_PONG, value, frame, sizeof(frame), &wrote);
    if (status == BASE_OK) {
        (void)gw_session_send(session, frame, wrote);
    }
    return status;
}

static enum base_status on_no_hello(struct gw_session *session, const uint8_t *payload, size_t size)
{
    (void)payload;
    (void)size;
    return gw_session_violation(session, BASE_ERR_INVALID, "no HELLO at first");
}

static enum base_status on_foreign(struct gw_session *session, const uint8_t *payload, size_t size)
{
    (void)payload;
    (void)size;
    return gw_session_violation(session, BASE_ERR_INVALID, "a frame devices do not send");
}

typedef enum base_status (*frame_fn)(struct gw_session *session, const uint8_t *payload,
                                     size_t size);

// Who takes frames of the type, as the session stands.
static frame_fn taker_of(const struct gw_session *session, enum wire_tunnel_type type)
{
    base_assert(session->state == GW_SESSION_START || session->state == GW_SESSION_OPEN);
    if (session->state == GW_SESSION_START) {
        return type == WIRE_TUNNEL_HELLO ? gw_session_on_hello : on_no_hello;
    }
    switch (type) {
    case WIRE_TUNNEL_BATCH:
        return gw_session_on_batch;
    case WIRE_TUNNEL_CHUNK:
        return gw_session_on_chunk;
    case WIRE_TUNNEL_LOSS:
        return gw_session_on_loss;
    case WIRE_TUNNEL_PING:
        return on_ping;
    default:
        return on_foreign;
    }
}

// Is a whole frame in front, and may it be handled now? OK; TRUNCATED: more of it has to come;
// BUSY: the worker's turn is over.
static enum base_status look_ahead(struct gw_session *session, struct base_span bytes,
                                   frame_fn *out_take, size_t *out_payload)
{
    struct gw_tunnel_worker *worker = session->worker;
    enum wire_tunnel_type type;
    enum base_status status = wire_tunnel_head(bytes.data, bytes.size, &type, out_payload);
    if (status == BASE_OK && bytes.size - WIRE_TUNNEL_HEAD < *out_payload) {
        return BASE_ERR_TRUNCATED;
    }
    if (status != BASE_OK) {
        return status == BASE_ERR_TRUNCATED ? status
                                            : gw_session_violation(session, status, "frame");
    }
    if (worker->turn_bytes > GW_TUNNEL_TURN_BYTES) {
        gw_session_notify(session, 0, true);
        return BASE_ERR_BUSY;
    }
    worker->turn_bytes += FRAME_TURN_BYTES;
    *out_take = taker_of(session, type);
    bool counts = session->state == GW_SESSION_OPEN && type != WIRE_TUNNEL_CHUNK;
    return counts ? count_frame(session) : BASE_OK;
}

static enum base_status keep_input(struct gw_session *session, const uint8_t *bytes, size_t size)
{
    size_t whole;
    if (size == 0) {
        return BASE_OK;
    }
    if (!base_ckd_add(session->input_size, size, &whole) || whole > GW_TUNNEL_INPUT_MAX) {
        return gw_session_violation(session, BASE_ERR_LIMIT, "bytes beyond all credit");
    }
    if (whole > session->input_capacity) {
        uint32_t capacity =
            session->input_capacity == 0 ? INPUT_FIRST : session->input_capacity * 2;
        while (capacity < whole) {
            capacity *= 2;
        }
        uint8_t *input = realloc(session->input, capacity);
        if (input == NULL) {
            gw_session_away(session, GW_TUNNEL_AWAY_MS, GW_TUNNEL_AWAY_SPREAD_MS);
            return BASE_OK;
        }
        session->input = input;
        set_input_capacity(session, capacity);
    }
    base_assert(whole <= session->input_capacity);
    memcpy(session->input + session->input_size, bytes, size);
    session->input_size = (uint32_t)whole;
    return BASE_OK;
}

// The first `used` bytes of what is kept were handled.
static void shift_input(struct gw_session *session, size_t used)
{
    base_assert(session->state == GW_SESSION_ENDED || used <= session->input_size);
    if (session->state == GW_SESSION_ENDED || used == session->input_size) {
        drop_input(session);
    } else if (used > 0) {
        memmove(session->input, session->input + used, session->input_size - used);
        session->input_size -= (uint32_t)used;
    }
}

enum base_status gw_session_receive(struct gw_session *session, const uint8_t *bytes, size_t size)
{
    bool kept = session->input_size > 0;
    size_t used = 0;
    if (kept && session->state != GW_SESSION_ENDED) {
        BASE_TRY(keep_input(session, bytes, size));
        bytes = session->input;
        size = session->input_size;
    }
    while (session->state < GW_SESSION_ENDED && session->state != GW_SESSION_WAITING) {
        base_assert(used <= size);
        frame_fn take;
        size_t payload;
        const struct base_span rest = {bytes + used, size - used};
        enum base_status status = look_ahead(session, rest, &take, &payload);
        if (status == BASE_ERR_TRUNCATED || status == BASE_ERR_BUSY) {
            break;
        }
        BASE_TRY(status);
        BASE_TRY(take(session, rest.data + WIRE_TUNNEL_HEAD, payload));
        used += WIRE_TUNNEL_HEAD + payload;
    }
    if (kept) {
        shift_input(session, used);
        return BASE_OK;
    }
    return session->state == GW_SESSION_ENDED ? BASE_OK
                                              : keep_input(session, bytes + used, size - used);
}
