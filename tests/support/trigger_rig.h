// What tests of the trigger engine share: a set and engine in memory of exactly their size, events
// from short words, and an oracle that knows nothing of tries: it tries all ways to match.
#ifndef TRIGGER_RIG_H
#define TRIGGER_RIG_H

#include "pipeline/trigger/trigger.h"

#include "base/prng.h"

#define RIG_SECRET   0x5eedu
#define RIG_TEXT_MAX 1024

struct trig_rig {
    struct dev_trigger_certificate certificate;
    void *set_memory;
    void *state_memory;
    const struct dev_trigger_set *set;
    struct dev_trigger_engine *engine;
};

// Compiles; a status other than OK leaves the rig empty.
enum base_status trig_rig_try(struct trig_rig *rig, const struct dev_trigger_source *sources,
                              uint32_t count, const struct dev_trigger_options *options,
                              struct dev_trigger_fault *fault);
// Patterns with keys 1, 2, ...; fails the program when they are refused.
void trig_rig_init(struct trig_rig *rig, const char *const *patterns, uint32_t count);
void trig_rig_fresh(struct trig_rig *rig); // a fresh engine on the same set
void trig_rig_done(struct trig_rig *rig);

// ---- Events over small alphabets: page "a" + page - 1, item "i" + ..., custom events named "n".
struct rig_event {
    uint64_t seq;
    uint64_t mono_us;
    uint64_t wall_ms;
    uint32_t boot;
    uint32_t visit;
    uint8_t kind;
    uint8_t page;  // 1..
    uint8_t item;  // 0: none
    uint8_t price; // 0: no attribute
};

struct rig_event_memory {
    char page[2];
    char item[2];
    uint8_t attrs[32];
};

struct dev_event rig_event_view(const struct rig_event *event, struct rig_event_memory *memory);

// ---- Patterns as the oracle sees them
#define ORACLE_STEPS_MAX 8

struct oracle_literal {
    uint8_t kind; // 0: any
    uint8_t page;
    uint8_t item;
    bool any_item;
    bool marked;
    uint8_t price; // 0: no test; otherwise price >= this
};

struct oracle_step {
    uint8_t ones; // events before it, right behind the step before
    uint8_t spread;
    bool star;
    bool has_not;
    struct oracle_literal not_literal;
    struct oracle_literal literal;
};

struct oracle_pattern {
    uint32_t count;
    struct oracle_step steps[ORACLE_STEPS_MAX];
    uint8_t tail;
    bool page;
    uint32_t within_ms;
    uint32_t cooldown_ms;
    uint16_t per_day;
    uint8_t policy;
};

struct oracle_mix { // of what random patterns are made, in percent
    uint32_t steps_max;
    uint32_t kinds;
    uint32_t pages;
    uint32_t items;
    uint32_t wild;   // a literal leaves page or kind open
    uint32_t gaps;   // `*` or `?` between two literals
    uint32_t extras; // within, page, same, not, policies, each
};

void oracle_random(struct base_prng *prng, const struct oracle_mix *mix,
                   struct oracle_pattern *out);
void oracle_print(const struct oracle_pattern *pattern, char out[RIG_TEXT_MAX]);

struct oracle_embedding {
    uint32_t count;
    uint32_t at[ORACLE_STEPS_MAX * 8]; // indices of events
};

// Is there an embedding that ends at event n and begins behind `from`? *out (may be NULL) is the
// latest; its marked item is `item`, if that is not 0.
bool oracle_matches(const struct oracle_pattern *pattern, const struct rig_event *events,
                    uint32_t from, uint32_t n, uint8_t item, struct oracle_embedding *out);

// The policies of one pattern, event by event.
struct oracle_policy {
    uint32_t reset_at; // events before are used up
    bool has_start;
    bool has_day;
    uint64_t start_ms;
    uint64_t day_ms;
    uint32_t count;
    uint32_t visit_count;
    uint32_t visits[64];
};

bool oracle_fires(const struct oracle_pattern *pattern, struct oracle_policy *policy,
                  const struct rig_event *events, uint32_t n);
// Milliseconds of the engine's clock at event n; UINT64_MAX: not known since event `from`.
uint64_t oracle_elapsed_ms(const struct rig_event *events, uint32_t from, uint32_t n);

#endif
