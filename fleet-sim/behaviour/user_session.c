// Sessions of all sources: which one, and the generator of item page views. Called by a shard for
// its active devices, on its thread; loading on the coordinator's. The other two sources have files
// of their own: user_walk.c makes events that match a device's triggers, user_log.c plays a
// recorded log. Callers are fleet_behaviour.c for sessions and fleet_run.c for loading. A session
// depends on its seed, device and number alone, never on a clock.
#include "behaviour/user_session.h"

#include <string.h>

enum base_status sim_sessions_load(const char *what, uint64_t seed, struct sim_sessions *out,
                                   struct base_error *error)
{
    *out = (struct sim_sessions){.kind = SIM_SESSIONS_LOG, .seed = seed};
    if (strcmp(what, "none") == 0 || what[0] == '\0') {
        out->kind = SIM_SESSIONS_NONE;
    } else if (strcmp(what, "ipv") == 0) {
        out->kind = SIM_SESSIONS_IPV;
    } else if (strcmp(what, "triggers") == 0) {
        out->kind = SIM_SESSIONS_TRIGGERS;
    } else {
        return sim_log_read(what, &out->log, error);
    }
    return BASE_OK;
}

void sim_sessions_done(struct sim_sessions *sessions)
{
    sim_log_free(sessions->log);
    *sessions = (struct sim_sessions){0};
}

// The shopper is the device's, what is done is the session's.
static void ipv_begin(struct sim_session *session, uint64_t index, uint64_t draw)
{
    ipv_device_init(&session->ipv, session->sessions->seed, index, 1);
    base_prng_seed(&session->ipv.prng, draw);
    session->ipv_mono_us = 0;
}

static bool ipv_next(struct sim_session *session, struct dev_recording *out, uint64_t *out_gap_us)
{
    struct ipv_device *ipv = &session->ipv;
    struct dev_event event;
    if (!ipv_device_next(ipv, &event)) {
        return false;
    }
    bool later = session->events > 0 && event.mono_us > session->ipv_mono_us;
    *out_gap_us = later ? event.mono_us - session->ipv_mono_us : 0;
    session->ipv_mono_us = event.mono_us;
    *out = (struct dev_recording){
        .kind = event.kind,
        .instance = event.instance,
        .name = event.name,
        .page = event.page,
        .item = event.item,
        .attrs = ipv->attrs,
        .attr_count = ipv->attr_count,
    };
    return true;
}

void sim_session_end(struct sim_session *session)
{
    event_line_free(session->parsed);
    session->parsed = NULL;
}

static bool log_next(struct sim_session *session, struct dev_recording *out, uint64_t *out_gap_us)
{
    uint32_t gap_ms = 0;
    sim_session_end(session);
    if (session->line == session->line_end ||
        sim_log_line(session->sessions->log, session->line++, &session->parsed, out, &gap_ms) !=
            BASE_OK) {
        return false;
    }
    *out_gap_us = session->events > 0 ? (uint64_t)gap_ms * 1000 : 0;
    return true;
}

void sim_session_begin(struct sim_session *session, const struct sim_sessions *sessions,
                       uint64_t index, uint32_t number, const struct sim_triggers *triggers)
{
    uint64_t draw =
        base_mix64(base_mix64(sessions->seed + 0x5e55) ^ base_mix64(index + 1)) + number;
    session->sessions = sessions;
    session->events = 0;
    session->parsed = NULL;
    session->triggers = triggers;
    base_prng_seed(&session->prng, base_mix64(draw));
    switch (sessions->kind) {
    case SIM_SESSIONS_IPV:
        ipv_begin(session, index, base_mix64(draw));
        break;
    case SIM_SESSIONS_LOG:
        sim_log_piece(sessions->log,
                      (uint32_t)base_prng_below(&session->prng, sim_log_pieces(sessions->log)),
                      &session->line, &session->line_end);
        break;
    case SIM_SESSIONS_TRIGGERS:
        sim_walk_begin(session);
        break;
    case SIM_SESSIONS_NONE:
        break;
    }
}

bool sim_session_next(struct sim_session *session, struct dev_recording *out, uint64_t *out_gap_us)
{
    bool more = false;
    *out_gap_us = 0;
    if (session->events == SIM_SESSION_EVENTS_MAX) {
        return false;
    }
    switch (session->sessions->kind) {
    case SIM_SESSIONS_IPV:
        more = ipv_next(session, out, out_gap_us);
        break;
    case SIM_SESSIONS_LOG:
        more = log_next(session, out, out_gap_us);
        break;
    case SIM_SESSIONS_TRIGGERS:
        more = sim_walk_next(session, out, out_gap_us);
        break;
    case SIM_SESSIONS_NONE:
        break;
    }
    session->events += more ? 1 : 0;
    return more;
}
