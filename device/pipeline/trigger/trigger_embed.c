// Which events a match was made of: the latest-start embedding, found by reading events backwards.
// Called on demand, for tasks that want their events; it reads the set, never the engine.
//
// One pass backwards decides, for each event, which steps it can be such that the later steps
// follow up to the last event. The first event found for step 0 is the latest start. Then step 1 is
// sought above it, and so on: each pass is shorter than the one before. Time needs no check: a
// start that is later than one within the window is within it, too.
#include "pipeline/trigger/trigger_match.h"
#include "pipeline/trigger/trigger_set.h"

#include "base/check.h"

#include <string.h>

struct embed_step {
    uint32_t literal; // TRIG_NONE: any event
    uint32_t not_literal;
    bool gapped;
    bool marked;
};

struct embed {
    const struct dev_trigger_set *set;
    const struct dev_trigger_fired *fired;
    const struct dev_event *last;
    struct dev_trigger_past past;
    uint32_t count;
    bool page;
    struct embed_step steps[DEV_PATTERN_STEPS_MAX];
};

static bool is_at(const struct embed *embed, uint32_t literal, const struct dev_event *event)
{
    base_assert(literal < embed->set->counts.literals);
    const struct dev_trigger_set *set = embed->set;
    const struct trig_literal *at = &set->literals[literal];
    if ((embed->page && event->visit != embed->fired->visit) ||
        ((trig_literal_flags(*at) & TRIG_LIT_MARKED) != 0 &&
         event->item_hash != embed->fired->item_hash) ||
        ((trig_literal_flags(*at) & TRIG_LIT_ITEM) != 0 && event->item_hash == 0) ||
        !trig_literal_fixes(set, literal, event)) {
        return false;
    }
    for (uint32_t i = trig_tests(*at); i < trig_tests(at[1]); i++) {
        struct dev_pattern_test test = trig_test_of(set, i);
        if (!dev_pattern_test_holds(&test, event)) {
            return false;
        }
    }
    return true;
}

static bool step_is_at(const struct embed *embed, uint32_t step, const struct dev_event *event)
{
    uint32_t literal = embed->steps[step].literal;
    return literal == TRIG_NONE ? !embed->page || event->visit == embed->fired->visit
                                : is_at(embed, literal, event);
}

// The steps from the root to `node`.
static void read_steps(struct embed *embed, uint32_t node)
{
    const struct dev_trigger_set *set = embed->set;
    embed->count = 0;
    embed->page = (set->nodes[node].label & TRIG_PAGE_BIT) != 0;
    uint32_t at = DEV_PATTERN_STEPS_MAX;
    while (trig_edge(set->nodes[node].label) != TRIG_EDGE_ROOT && at > 0) {
        uint32_t label = set->nodes[node].label;
        uint32_t literal = label & TRIG_LITERAL_MASK;
        uint32_t parent = trig_parent(set->nodes[node]);
        bool any = trig_edge(label) == TRIG_EDGE_ANY;
        struct embed_step *step = &embed->steps[--at];
        *step = (struct embed_step){.literal = any ? TRIG_NONE : literal,
                                    .not_literal = TRIG_NONE,
                                    .gapped = trig_edge(label) == TRIG_EDGE_GAPPED};
        if (trig_edge(set->nodes[parent].label) == TRIG_EDGE_NOT) {
            step->not_literal = set->nodes[parent].label & TRIG_LITERAL_MASK;
            parent = trig_parent(set->nodes[parent]);
        }
        node = parent;
        embed->count++;
    }
    base_assert(trig_edge(set->nodes[node].label) == TRIG_EDGE_ROOT); // no path has more steps
    memmove(embed->steps, embed->steps + at, embed->count * sizeof *embed->steps);
}

struct scan {
    uint64_t found; // seq of the sought step
    bool has_found;
    uint32_t behind;  // steps that can be at some later event
    uint32_t at_last; // steps that can be at the event read before
    uint64_t last_seq;
};

static void scan_event(const struct embed *embed, uint32_t sought, const struct dev_event *event,
                       struct scan *scan)
{
    _Static_assert(DEV_PATTERN_STEPS_MAX <= 32, "a bit of u32 for each step");
    base_assert(sought < embed->count);
    uint32_t here = 0;
    bool is_last = event->seq == embed->last->seq;
    bool adjacent = !is_last && scan->last_seq == event->seq + 1;
    for (uint32_t j = sought; j < embed->count; j++) {
        bool follows = j + 1 == embed->count ? is_last
                       : embed->steps[j + 1].gapped
                           ? (scan->behind >> (j + 1) & 1) != 0
                           : adjacent && (scan->at_last >> (j + 1) & 1) != 0;
        here |= (uint32_t)(follows && step_is_at(embed, j, event)) << j;
    }
    for (uint32_t j = sought; j < embed->count; j++) {
        uint32_t not_literal = embed->steps[j].not_literal;
        if (not_literal != TRIG_NONE && is_at(embed, not_literal, event)) {
            scan->behind &= ~((uint32_t)1 << j);
            scan->has_found = scan->has_found && j != sought;
        }
    }
    scan->behind |= here;
    scan->at_last = here;
    scan->last_seq = event->seq;
    if (!scan->has_found && (here >> sought & 1) != 0) {
        scan->has_found = true;
        scan->found = event->seq;
    }
}

// The greatest seq above `above` (signed distance) at which step `sought` can be. `span` is how far
// above lies below the last event.
static enum base_status find_step(const struct embed *embed, uint32_t sought, uint64_t span,
                                  uint64_t *out)
{
    base_assert(sought < embed->count);
    struct scan scan = {0};
    struct dev_event event = *embed->last;
    // A not before the sought step may yet clear what was found: then all has to be read.
    bool whole = sought > 0 && embed->steps[sought].not_literal != TRIG_NONE;
    for (uint32_t i = 0; i < DEV_TRIGGER_LOOKBACK_MAX; i++) {
        if (embed->last->seq - event.seq >= span) {
            break;
        }
        scan_event(embed, sought, &event, &scan);
        if (scan.has_found && !whole) {
            break;
        }
        uint64_t before = event.seq;
        enum base_status status = embed->past.read(embed->past.ctx, before, &event);
        if (status == BASE_ERR_NOT_FOUND) {
            break;
        }
        BASE_TRY(status);
        if (before - event.seq == 0 || before - event.seq > INT64_MAX) {
            return BASE_ERR_INVALID; // it does not go back
        }
    }
    if (!scan.has_found) {
        return BASE_ERR_NOT_FOUND;
    }
    *out = scan.found;
    return BASE_OK;
}

// The embedding of one variant, not starting before `last - span + 1`.
static enum base_status find_all(const struct embed *embed, uint64_t span, uint64_t *out_seqs)
{
    uint64_t last = embed->last->seq;
    for (uint32_t j = 0; j < embed->count; j++) {
        if (j > 0 && !embed->steps[j].gapped) {
            out_seqs[j] = out_seqs[j - 1] + 1;
        } else {
            BASE_TRY(find_step(embed, j, span, &out_seqs[j]));
        }
        span = last - out_seqs[j];
    }
    return BASE_OK;
}

static bool is_later(const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count,
                     uint64_t last)
{
    for (uint32_t i = 0; i < a_count && i < b_count; i++) {
        if (a[i] != b[i]) {
            return last - a[i] < last - b[i];
        }
    }
    return a_count < b_count;
}

static bool ends_at(const struct dev_trigger_set *set, uint32_t node, uint32_t source)
{
    if (node >= set->counts.nodes || (trig_flags(set->nodes[node]) & TRIG_ACCEPT) == 0) {
        return false;
    }
    uint32_t first;
    uint32_t end;
    trig_accepts(set, node, &first, &end);
    while (first < end && set->accept_sources[first] != source) {
        first++;
    }
    return first < end;
}

enum base_status dev_trigger_embed(const struct dev_trigger_set *set,
                                   const struct dev_trigger_fired *fired,
                                   const struct dev_event *last, struct dev_trigger_past past,
                                   struct dev_trigger_embedding *out)
{
    if (last->seq != fired->seq || !ends_at(set, fired->node, fired->source)) {
        return BASE_ERR_INVALID;
    }
    struct embed embed = {.set = set, .fired = fired, .last = last, .past = past};
    uint64_t best[DEV_PATTERN_STEPS_MAX];
    read_steps(&embed, fired->node);
    BASE_TRY(find_all(&embed, UINT64_MAX, best));
    uint32_t best_count = embed.count;
    if (set->sources[fired->source].variants > 1) {
        for (uint32_t node = 0; node < set->counts.nodes; node++) {
            uint64_t seqs[DEV_PATTERN_STEPS_MAX];
            if (node == fired->node || !ends_at(set, node, fired->source)) {
                continue;
            }
            read_steps(&embed, node);
            enum base_status status = find_all(&embed, last->seq - best[0] + 1, seqs);
            if (status == BASE_ERR_NOT_FOUND) {
                continue;
            }
            BASE_TRY(status);
            if (is_later(seqs, embed.count, best, best_count, last->seq)) {
                memcpy(best, seqs, embed.count * sizeof *best);
                best_count = embed.count;
            }
        }
    }
    base_assert(best_count > 0 && best[best_count - 1] == last->seq);
    memcpy(out->seqs, best, best_count * sizeof *best);
    out->count = best_count;
    return BASE_OK;
}
