// What a pattern's policy makes of its matches: reset, once per visit, cooldown, cap; and the list
// of what is to start, in the order of the sources. Called by the engine after an event was
// entered.
#include "pipeline/trigger/trigger_engine.h"

#include "base/check.h"

#define DAY_MS (24u * 3600 * 1000)

static void drop_range(struct dev_trigger_engine *engine, uint32_t first, uint32_t end)
{
    base_assert(first <= end && end <= engine->set->counts.nodes);
    engine->work += end - first;
    for (uint32_t node = first; node < end; node++) {
        if ((trig_flags(engine->set->nodes[node]) & TRIG_KEYED) != 0) {
            trig_keys_remove_node(engine, node);
        } else {
            trig_sticky_remove(engine, node);
        }
    }
}

uint32_t trig_policy_of_node(const struct dev_trigger_set *set, uint32_t node)
{
    uint32_t low = 0;
    uint32_t high = set->counts.policies;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set->policies[middle].node_end <= node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool trig_was_reset(const struct dev_trigger_engine *engine, uint32_t node)
{
    const struct trig_counts *counts = &engine->set->counts;
    if (engine->reset_count == 0) {
        return false;
    }
    uint32_t at = trig_policy_of_node(engine->set, node);
    return at < counts->policies && node >= engine->set->policies[at].node_first &&
           (engine->policies[at].flags & TRIG_RESET_NOW) != 0;
}

void trig_end_resets(struct dev_trigger_engine *engine)
{
    base_assert(engine->reset_count > 0);
    for (uint32_t i = 0; i < engine->match_count; i++) {
        uint32_t policy = engine->set->sources[engine->matches[i].source].policy;
        if (policy != 0) {
            engine->policies[policy - 1].flags &= (uint8_t)~TRIG_RESET_NOW;
        }
    }
    engine->reset_count = 0;
}

static bool seen_in_visit(const struct trig_policy_state *state, uint32_t visit)
{
    for (uint32_t i = 0; visit != 0 && i < DEV_TRIGGER_VISITS_KEPT; i++) {
        if (state->visits[i] == visit) {
            return true;
        }
    }
    return false;
}

// May the pattern start something now? If so, that is remembered.
static bool take_start(struct dev_trigger_engine *engine, const struct trig_policy *policy,
                       struct trig_policy_state *state, uint32_t visit)
{
    uint32_t now = trig_now(engine);
    base_assert(state->visit_next < DEV_TRIGGER_VISITS_KEPT);
    bool once = policy->kind == DEV_PATTERN_ONCE_PER_VISIT;
    if (once && seen_in_visit(state, visit)) {
        engine->stats.suppressed_visit++;
        return false;
    }
    if (policy->cooldown_ms != 0 && (state->flags & TRIG_HAS_START) != 0 &&
        now - state->last_ms < policy->cooldown_ms) {
        engine->stats.suppressed_cooldown++;
        return false;
    }
    if ((state->flags & TRIG_HAS_DAY) != 0 && now - state->day_ms >= DAY_MS) {
        state->flags &= (uint8_t)~TRIG_HAS_DAY;
        state->count = 0;
    }
    if (policy->per_day != 0 && state->count >= policy->per_day) {
        engine->stats.suppressed_cap++;
        return false;
    }
    if ((state->flags & TRIG_HAS_DAY) == 0) {
        state->day_ms = now;
    }
    state->flags |= TRIG_HAS_START | TRIG_HAS_DAY;
    state->last_ms = now;
    state->count = (uint16_t)(state->count < UINT16_MAX ? state->count + 1 : state->count);
    if (once && visit != 0) {
        state->visits[state->visit_next] = visit;
        state->visit_next = (uint8_t)((state->visit_next + 1) % DEV_TRIGGER_VISITS_KEPT);
    }
    return true;
}

static void sift(struct trig_match *matches, uint32_t at, uint32_t count)
{
    struct trig_match moved = matches[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && matches[child + 1].source > matches[child].source) {
            child++;
        }
        if (matches[child].source <= moved.source) {
            break;
        }
        matches[at] = matches[child];
        at = child;
    }
    matches[at] = moved;
}

static void sort_matches(struct trig_match *matches, uint32_t count)
{
    bool sorted = true;
    for (uint32_t i = 1; i < count && sorted; i++) {
        sorted = matches[i - 1].source < matches[i].source;
    }
    if (sorted) {
        return;
    }
    for (uint32_t i = count / 2; i-- > 0;) {
        sift(matches, i, count);
    }
    for (uint32_t i = count; i-- > 1;) {
        struct trig_match top = matches[0];
        matches[0] = matches[i];
        matches[i] = top;
        sift(matches, 0, i);
    }
}

uint64_t dev_trigger_token(uint64_t source_key, uint64_t seq)
{
    return base_mix64(source_key ^ base_mix64(seq));
}

uint32_t trig_apply_policies(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    base_assert(engine->match_count <= engine->match_max && engine->reset_count == 0);
    const struct dev_trigger_set *set = engine->set;
    uint32_t fired = 0;
    sort_matches(engine->matches, engine->match_count);
    engine->stats.matches += engine->match_count;
    for (uint32_t i = 0; i < engine->match_count; i++) {
        const struct trig_match *match = &engine->matches[i];
        const struct trig_source *source = &set->sources[match->source];
        if (source->policy != 0) {
            const struct trig_policy *policy = &set->policies[source->policy - 1];
            struct trig_policy_state *state = &engine->policies[source->policy - 1];
            if (policy->kind == DEV_PATTERN_RESET) {
                drop_range(engine, policy->node_first, policy->node_end);
                state->flags |= TRIG_RESET_NOW;
                engine->reset_count++;
            }
            if (!take_start(engine, policy, state, event->visit)) {
                continue;
            }
        }
        engine->fired[fired++] = (struct dev_trigger_fired){
            .source = match->source,
            .node = match->node,
            .key = source->key,
            .token = dev_trigger_token(source->key, event->seq),
            .seq = event->seq,
            .item_hash = match->item,
            .visit = match->visit,
            .elapsed_ms = trig_now(engine) - match->start,
        };
    }
    base_assert(fired <= engine->match_count);
    engine->stats.fired += fired;
    return fired;
}
