// Behaviour of virtual devices: while a device is awake and its app is in use, events go through
// dev_record into the real data pipeline, matches start tasks in the shard's VM, and what they
// upload goes through the real tunnel client over the connections that carry its check-ins.
//
// Lifetimes. run > shard > active device (a place with the pipeline's and the tunnel's memory, from
// the begin of a wake in which a session is due to that session's end, or the kill). A device that
// is not active is what it has stored (struct sim_past): nothing at all before its first session.
// Without --behaviour nothing of this exists, but for a pointer in each awake device.
//
// Time. A session is played as fast as the device takes it: its own clock jumps from event to
// event, and over what the pipeline has due in between, so what the engine sees are the user's
// times. The next event waits until the runs the last one started are over, as if a run always
// ended before the user's next move. The tunnel and the runtime live in the run's own time.
//
// Kills. With --kills, a session ends with that probability in a kill at some commit of the store,
// before or just after it took effect.
//
// Threads: the shard's, but for what says otherwise.
#ifndef SIM_FLEET_BEHAVIOUR_H
#define SIM_FLEET_BEHAVIOUR_H

#include "behaviour/user_session.h"
#include "behaviour/behaviour_tally.h"
#include "mem/mem_kv.h"
#include "ports/sim_codec.h"
#include "posix/posix_declared.h"
#include "run/fleet.h"

#define SIM_ACTIVE_DEFAULT  64 // devices with a pipeline in memory, over all threads
#define SIM_ACTIVE_MAX      100000
#define SIM_SESSIONS_LOCAL  10 // of each device in the simulate stage
#define SIM_SESSION_EVERY_S 60 // mean time between two sessions of a device, in a run
#define SIM_EVENTS_PER_TURN 32 // of one device before its runtime is ticked
#define SIM_PLAYS_PER_TURN  4  // such batches before others get their turn
#define SIM_TAIL_US         (60 * 1000000ull) // the app stays open after the last event
#define SIM_DUES_MAX        64                // of the pipeline, between two events
#define SIM_DRAIN_US        (10 * 1000000ull) // a session's end waits so long for the gateway
#define SIM_RUN_WAIT_US     20000
#define SIM_AWAY_MS_MIN     (5 * 60 * 1000) // between two sessions, on the user's clock
#define SIM_AWAY_MS_SPREAD  (4 * 3600 * 1000)

enum sim_use {
    SIM_USE_OPENED,  // the app is open; the session begins when the runtime is idle
    SIM_USE_PLAYING, // events come
    SIM_USE_WAITING, // the session is over; what it left goes to the gateway
};

// What a device that had a session keeps: one per device of a shard.
struct sim_past {
    struct mem_kv *kv;                     // NULL: nothing yet
    uint32_t sessions;                     // begun
    uint32_t due_ms;                       // of the next one
    uint64_t wall_ms;                      // of its clock at the end of the last one
    uint32_t offered[WIRE_TUNNEL_CLASSES]; // records the tunnel took, also those a kill took back
    bool killed;                           // in a session, at least once
};

struct sim_active {
    struct sim_active *next; // in the free list
    struct sim_shard *shard;
    struct sim_awake *awake;
    struct sim_past *past;
    enum sim_use use;
    uint64_t clock_us; // the user's
    uint64_t due_us;   // of the pipeline, on that clock
    uint64_t wall_ms;  // at wall_us of that clock
    uint64_t wall_us;
    uint64_t drain_until_us;
    uint64_t tunnel_due_us;
    uint64_t event_us;
    bool has_event; // `recording` is to be played at event_us
    bool has_declared;
    uint64_t declared; // dev_active_mark
    struct dev_recording recording;
    struct sim_session session;
    struct sim_triggers triggers; // of the active versions, when the session began
    struct sim_triggers fresh;    // as declared last
    struct sim_trigger_tally *rows[SIM_WALK_TRIGGERS_MAX];
    uint32_t row_count;
    struct base_prng prng;
    struct dev_kv_port store;
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_feature_store *features;
    struct dev_pipeline *pipeline;
    struct dev_tunnel *tunnel; // NULL in the simulate stage: nothing leaves
    struct sim_codec *codec;   // of its tunnel
    uint64_t durable;          // as counted last
    uint64_t lost;
    uint64_t commits; // of the store when the session began
    struct sim_exchange streams[WIRE_TUNNEL_CLASSES];
    int status[WIRE_TUNNEL_CLASSES]; // of the answer; 0: none yet
    uint32_t retry_after_s[WIRE_TUNNEL_CLASSES];
};

// Reading the declarations of a device's active versions; one a shard is enough.
struct sim_declaring {
    struct posix_declared declared;
    struct wire_sha256 dictionaries[WIRE_TUNNEL_DICTS_MAX];
    uint32_t dictionary_count;
    struct wire_declaration declaration;
};

struct sim_behaving { // of a shard
    const struct sim_sessions *sessions;
    struct sim_past *pasts; // of all devices of the shard
    char *places;
    size_t place_bytes;
    uint32_t place_max;
    uint32_t places_used; // ever
    uint32_t active_count;
    struct sim_active *free_places;
    uint64_t sessions_left; // of all devices; UINT64_MAX: no end
    struct sim_codecs codecs;
    struct sim_declaring declaring;
    struct sim_upload_schemas schemas;
    struct sim_tally tally;
};

// ---- fleet_behaviour.c
// NULL sessions: no behaviour. NOMEM.
BASE_NODISCARD enum base_status sim_behaving_init(struct sim_shard *shard,
                                                  const struct sim_sessions *sessions);
void sim_behaving_done(struct sim_shard *shard);
// A device of a simulate stage that sleeps is due for a session, and there is no place: it stays
// where it is and is due again. It has no gateway to ask meanwhile, and would for nothing.
bool sim_behaving_held(struct sim_shard *shard, uint32_t device, uint32_t now_ms);
// A wake begins: opens the app when a session is due and there is a place.
void sim_behaving_wake(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us);
// One turn after the runtime's tick. True: the runtime has something to do at once.
// `awake->active` may be NULL afterwards; false in *out_alive: the device was killed in it and is
// to be buried.
bool sim_behaving_turn(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us,
                       bool *out_alive);
// When the device wants its next turn for the session under way; UINT64_MAX: it does not.
uint64_t sim_behaving_due_us(const struct sim_awake *awake, uint64_t now_us);
// When the next session of a device is due, as milliseconds of the shard.
uint32_t sim_behaving_next_ms(const struct sim_shard *shard, uint32_t device);
// The device's process ends: killed, or in order (then everything is stored).
void sim_behaving_drop(struct sim_shard *shard, struct sim_awake *awake, bool in_order);
// What the runtime reports of runs; see struct dev_ports.
void sim_behaving_ports(struct sim_awake *awake);
// Whose run it is, its input, queries and results, for sim_runner_run.
struct sim_run_data sim_behaving_data(const struct sim_awake *awake);

// ---- fleet_pipeline.c
size_t sim_active_bytes(void);
// Boots the pipeline and the tunnel from what the device has stored. NOMEM, the store's errors.
BASE_NODISCARD enum base_status sim_active_boot(struct sim_active *active, uint64_t now_us);
void sim_active_declare(struct sim_active *active);
uint64_t sim_active_wall_ms(const struct sim_active *active);
void sim_active_step(struct sim_active *active);
void sim_active_count(struct sim_active *active); // what the process counted
void sim_active_tunnel_seen(struct sim_active *active);

// ---- fleet_tunnel.c: the tunnel's streams on the shard's connections
struct dev_tunnel_transport sim_tunnel_port(struct sim_active *active);
void sim_tunnel_head(struct sim_exchange *exchange, const struct dev_response_head *head,
                     uint64_t now_us);
void sim_tunnel_body(struct sim_exchange *exchange, const uint8_t *bytes, size_t size,
                     uint64_t now_us);
void sim_tunnel_writable(struct sim_exchange *exchange, uint64_t now_us);
void sim_tunnel_end(struct sim_exchange *exchange, enum base_status status, uint64_t now_us);
void sim_tunnel_close(struct sim_active *active);

#endif
