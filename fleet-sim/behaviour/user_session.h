// What the user of a virtual device does while the app is open: one session after the other, each
// drawn from (seed, device, number of the session) alone, so the same seed gives the same events
// whatever the threads and the clock do.
//
// Where a session comes from:
//   ipv       the generator of item page views (world/ipv_world.h); the same shopper every time
//   triggers  the device's own triggers are walked: of each, events that match its steps one after
//             the other, in one walk of four only up to the last step but one
//   a log     lines as `walle-device --events` takes them; a session is a piece of the log between
//             two moments at which no page is open
//
// A struct sim_sessions is read by all shards; a struct sim_session belongs to one device on its
// shard's thread. What a recording points to is valid until the next call for that session.
#ifndef SIM_USER_SESSION_H
#define SIM_USER_SESSION_H

#include "base/error.h"
#include "base/prng.h"
#include "ipv_world.h"
#include "lines/event_lines.h"
#include "pipeline/trigger/pattern.h"
#include "pipeline/record/recorder.h"
#include "wire/declaration.h"

#define SIM_SESSION_EVENTS_MAX 2000           // of one session; a longer piece of a log is cut
#define SIM_LOG_BYTES_MAX      (64u << 20)    // of a log
#define SIM_LOG_LINES_MAX      1000000u       // "
#define SIM_SESSION_GAP_MS_MAX (3600u * 1000) // between two events; longer gaps of a log are cut
#define SIM_SESSION_GAP_MS     500            // where a log does not say
#define SIM_WALK_TRIGGERS_MAX  32             // of all tasks of a device
#define SIM_WALK_STEPS_MAX     64             // events of one walk
#define SIM_WALK_OPEN_MAX      4              // pages that a walk keeps open

enum sim_sessions_kind {
    SIM_SESSIONS_NONE,
    SIM_SESSIONS_IPV,
    SIM_SESSIONS_TRIGGERS,
    SIM_SESSIONS_LOG,
};

struct sim_log;

struct sim_sessions {
    enum sim_sessions_kind kind;
    uint64_t seed;
    struct sim_log *log; // LOG
};

// The triggers a walk is made of: copies, since versions come and go.
struct sim_triggers {
    uint32_t count;
    uint16_t size[SIM_WALK_TRIGGERS_MAX];
    char text[SIM_WALK_TRIGGERS_MAX][WIRE_DECLARATION_PATTERN_MAX];
};

// One event of a walk.
struct sim_walk_step {
    enum dev_event_kind kind;
    struct base_str name;
    struct base_str page;
    bool has_item;
    uint8_t literal; // 1 + index: its tests hold
};

struct sim_walk {
    uint32_t trigger; // under way
    struct dev_pattern pattern;
    struct sim_walk_step steps[SIM_WALK_STEPS_MAX];
    uint32_t count;
    uint32_t at;
    uint32_t gap_ms;
    char item[24];
    struct dev_event_attr attrs[DEV_PATTERN_TESTS_MAX];
    char texts[DEV_PATTERN_TESTS_MAX][DEV_PATTERN_TEXT_MAX + 2];
};

struct sim_session {
    const struct sim_sessions *sessions;
    struct base_prng prng;
    uint32_t events;
    // IPV
    struct ipv_device ipv;
    uint64_t ipv_mono_us;
    // LOG
    uint32_t line;
    uint32_t line_end;
    struct event_line *parsed; // of the recording given last
    // TRIGGERS
    const struct sim_triggers *triggers;
    struct sim_walk walk;
};

// "none", "ipv", "triggers", or the path of a log, which is read. IO, INVALID (the line is named),
// TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status sim_sessions_load(const char *what, uint64_t seed,
                                                  struct sim_sessions *out,
                                                  struct base_error *error);
void sim_sessions_done(struct sim_sessions *sessions);

// Session `number` (from 0) of the device with that index in the population. `triggers` is borrowed
// until the session's end.
void sim_session_begin(struct sim_session *session, const struct sim_sessions *sessions,
                       uint64_t index, uint32_t number, const struct sim_triggers *triggers);
// The next event and how long after the one before it comes (wall_ms and mono_us are not set);
// false: the session is over.
void sim_session_end(struct sim_session *session); // at any moment after begin; gives memory back
bool sim_session_next(struct sim_session *session, struct dev_recording *out, uint64_t *out_gap_us);

// user_log.c
BASE_NODISCARD enum base_status sim_log_read(const char *path, struct sim_log **out,
                                             struct base_error *error);
void sim_log_free(struct sim_log *log); // accepts NULL
uint32_t sim_log_pieces(const struct sim_log *log);
void sim_log_piece(const struct sim_log *log, uint32_t piece, uint32_t *out_first,
                   uint32_t *out_end);
// The recording of a line, valid until event_line_free, and its gap to the line before. NOMEM.
BASE_NODISCARD enum base_status sim_log_line(const struct sim_log *log, uint32_t line,
                                             struct event_line **out_parsed,
                                             struct dev_recording *out, uint32_t *out_gap_ms);

// user_walk.c
void sim_walk_begin(struct sim_session *session);
bool sim_walk_next(struct sim_session *session, struct dev_recording *out, uint64_t *out_gap_us);
// Does the event satisfy the literal, but for same(item) and `page`?
bool sim_literal_matches(const struct dev_pattern *pattern,
                         const struct dev_pattern_literal *literal, const struct dev_event *event);

#endif
