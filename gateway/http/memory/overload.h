// Overload manager: how much memory the process and its sockets hold, against what they may, and
// who has to go when it is too much.
//
//   level     from     who goes
//   calm               nobody
//   raised    80 %     strangers that hold something (GW_SHED_HOLDS_BYTES)
//   high      90 %     every stranger
//   critical  100 %    idle connections as well, and new ones are refused (but from this machine)
//
// A stranger is a connection on which nobody has shown a credential, a certificate or a token that
// holds. Connections of devices and operators that did, with a request under way, never go. Within
// a class who holds most goes first, and no more than is needed. A level rises at once and falls by
// a step a second, 10 points below where it began.
//
// The first part is the rule: pure. The second is the state that a server's workers share: one of
// them measures, all read the level. The shared state is atomics; any thread.
#ifndef GW_HTTP_OVERLOAD_H
#define GW_HTTP_OVERLOAD_H

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_OVERLOAD_RAISED_PERCENT   80u
#define GW_OVERLOAD_HIGH_PERCENT     90u
#define GW_OVERLOAD_CRITICAL_PERCENT 100u
#define GW_OVERLOAD_BACK_PERCENT     10u   // below where a level begins, until it ends
#define GW_OVERLOAD_STEP_MS          1000u // between two steps down
#define GW_SHED_HOLDS_BYTES          (16u * 1024u)

enum gw_overload_level {
    GW_OVERLOAD_CALM,
    GW_OVERLOAD_RAISED,
    GW_OVERLOAD_HIGH,
    GW_OVERLOAD_CRITICAL,
    GW_OVERLOAD_LEVEL_COUNT
};

// In the order in which they go.
enum gw_overload_class {
    GW_SHED_HOLDING_STRANGER,
    GW_SHED_STRANGER,
    GW_SHED_IDLE,
    GW_SHED_NEVER,
    GW_SHED_CLASS_COUNT
};

struct gw_overload_bytes {
    uint64_t process;
    uint64_t sockets;
};

struct gw_overload_rule {
    enum gw_overload_level level;
    uint64_t changed_ms;
};

const char *gw_overload_level_name(enum gw_overload_level level);
// How full the fuller of both is, in per cent. A limit of 0 is none.
uint64_t gw_overload_percent(const struct gw_overload_bytes *used,
                             const struct gw_overload_bytes *limits);
// Follows what is used; true when the level changed.
bool gw_overload_step(struct gw_overload_rule *rule, const struct gw_overload_bytes *used,
                      const struct gw_overload_bytes *limits, uint64_t now_ms);
enum gw_overload_class gw_overload_class_of(bool proven, bool idle, uint64_t held_bytes);
bool gw_overload_sheds(enum gw_overload_level level, enum gw_overload_class kind);
// What has to go until the lowest level ends.
uint64_t gw_overload_excess(const struct gw_overload_bytes *used,
                            const struct gw_overload_bytes *limits);

// ---- Shared by a server's workers

struct gw_overload;

// NOMEM.
BASE_NODISCARD enum base_status gw_overload_new(const struct base_log *log,
                                                struct gw_overload **out_overload);
void gw_overload_free(struct gw_overload *overload); // accepts NULL
// A limit of 0 stands for one from this machine's memory.
void gw_overload_limit(struct gw_overload *overload, uint64_t process_bytes, uint64_t socket_bytes);
// A socket that held `before` holds `now`. Accepts NULL, as all below.
void gw_overload_sockets(struct gw_overload *overload, uint64_t before, uint64_t now);
// Measures and decides; one worker calls it, every tick. The log says each change once.
void gw_overload_measure(struct gw_overload *overload, uint64_t now_ms);
enum gw_overload_level gw_overload_now(const struct gw_overload *overload);
// Of the last measure.
uint64_t gw_overload_too_much(const struct gw_overload *overload);
struct gw_overload_bytes gw_overload_used(const struct gw_overload *overload);
struct gw_overload_bytes gw_overload_limits(const struct gw_overload *overload);

#endif
