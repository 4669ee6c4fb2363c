// Blocks in an array by stage and time, each with the sums of its segments and its failures in
// order. Called by the tally, with its mutex held.
//
// A look plays every block whose window is not over from its failures, behind a trial of those
// before, which is kept until something changes there. What a block's failures won is kept, too: a
// look goes on behind those that the one before has played. So a look costs what is new, and its
// result does not depend on which looks came before.
#include "svc/tally/trial_blocks.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_PARTS     10u // of the check-in interval
#define BLOCK_DEFAULT_S 30u // of a rollout that does not know it
#define SEGMENT_SLOTS   (2 * POL_SLICES_MAX)

// Below 0 while what took a device's part away came before what had brought it: changes come from
// two threads. No look is taken in between.
struct cell {
    uint64_t segment;
    int32_t offered[POL_COHORT_COUNT];
    int32_t succeeded[POL_COHORT_COUNT];
    int32_t refused[POL_COHORT_COUNT];
    int32_t failed;        // of both cohorts
    struct played *played; // as it was seen last; NULL: never, or nobody had failed
};

struct failure {
    uint64_t order;
    uint64_t segment;
    uint32_t at_s;
    uint32_t cohort;
};

// The beginning of a block's failures, played: all of its devices' that are asked about.
struct played {
    bool valid;
    bool closed;
    uint32_t edits; // of the block then
    uint32_t count; // failures that were looked at
    uint64_t held;  // hash of who is left out
    struct pol_block block;
    struct pol_logrank won;
};

struct block {
    uint64_t key;
    uint32_t edits; // changes of its failures other than one more at the end
    uint32_t cell_count;
    uint32_t cell_capacity;
    uint32_t failure_count;
    uint32_t failure_capacity;
    struct cell *cells;
    struct failure *failures; // by at_s, then order
    struct played whole;
};

// A look's result so far.
struct kept {
    bool valid;
    uint32_t stage;
    uint64_t held; // hash of who is left out
    uint64_t next; // key of the first block that is not in it
    struct pol_trial trial;
};

struct last {
    bool valid;
    uint32_t stage;
    uint32_t heard_s;
    uint32_t offers_s;
    uint64_t held;
    struct pol_trial trial;
};

struct gw_trial_blocks {
    const struct gw_release *release;
    uint32_t block_s;
    uint32_t count;
    uint32_t capacity;
    struct block *items; // by key
    uint64_t lost;
    struct kept kept; // blocks whose window is over
    struct last last;
};

static uint32_t block_s_of(const struct gw_release *release)
{
    uint32_t interval_s = release->checkin_interval_s;
    uint32_t block_s = interval_s > 0 ? interval_s / BLOCK_PARTS : BLOCK_DEFAULT_S;
    return block_s > 0 ? block_s : 1;
}

struct gw_trial_blocks *gw_trial_blocks_new(const struct gw_release *release)
{
    struct gw_trial_blocks *blocks = calloc(1, sizeof(*blocks));
    if (blocks != NULL) {
        blocks->release = release;
        blocks->block_s = block_s_of(release);
    }
    return blocks;
}

void gw_trial_blocks_free(struct gw_trial_blocks *blocks)
{
    if (blocks == NULL) {
        return;
    }
    for (uint32_t i = 0; i < blocks->count; i++) {
        struct block *block = &blocks->items[i];
        for (uint32_t k = 0; k < block->cell_count; k++) {
            free(block->cells[k].played);
        }
        free(block->cells);
        free(block->failures);
    }
    free(blocks->items);
    free(blocks);
}

uint64_t gw_trial_blocks_lost(const struct gw_trial_blocks *blocks)
{
    return blocks->lost;
}

// ---- Time

uint32_t gw_trial_gateway_s(uint32_t trial_s, int64_t moved_s)
{
    int64_t time_s = (int64_t)trial_s + moved_s;
    return time_s < 0 ? 0 : time_s < UINT32_MAX ? (uint32_t)time_s : UINT32_MAX;
}

uint32_t gw_trial_time_s(uint32_t gateway_s, int64_t moved_s)
{
    return gw_trial_gateway_s(gateway_s, -moved_s);
}

// ---- Places

// Stage, number of the block's seconds, alone or not: in the order in which blocks are begun.
static uint64_t key_of(uint32_t stage, uint32_t number, bool alone)
{
    return (uint64_t)stage << 40 | (uint64_t)number << 1 | alone;
}

static uint32_t stage_of(const struct block *block)
{
    return (uint32_t)(block->key >> 40);
}

static uint64_t end_of(const struct gw_trial_blocks *blocks, const struct block *block)
{
    return ((block->key >> 1 & UINT32_MAX) + 1) * blocks->block_s;
}

uint32_t gw_trial_block_end_s(const struct gw_release *release, uint32_t offered_s)
{
    uint32_t block_s = block_s_of(release);
    uint64_t end_s = ((uint64_t)offered_s / block_s + 1) * block_s;
    return end_s < UINT32_MAX ? (uint32_t)end_s : UINT32_MAX;
}

static uint32_t window_of(const struct pol_stage *stage)
{
    return stage->window_s > 0 ? stage->window_s : stage->execution_timeout_s;
}

uint64_t gw_trial_window_end_s(const struct gw_release *release, uint32_t stage, uint32_t offered_s)
{
    uint32_t block_s = block_s_of(release);
    return ((uint64_t)offered_s / block_s + 1) * block_s + window_of(&release->stages[stage]);
}

// The first block with this key or a larger one.
static uint32_t lower_bound(const struct gw_trial_blocks *blocks, uint64_t key)
{
    uint32_t low = 0;
    uint32_t high = blocks->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (blocks->items[middle].key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t gw_trial_blocks_end_s(const struct gw_trial_blocks *blocks, uint32_t stage)
{
    uint32_t at = blocks != NULL ? lower_bound(blocks, key_of(stage + 1, 0, false)) : 0;
    if (at == 0 || stage_of(&blocks->items[at - 1]) != stage) {
        return 0;
    }
    return end_of(blocks, &blocks->items[at - 1]) + window_of(&blocks->release->stages[stage]);
}

// An array with room for one more. NULL: no memory, the old one stays.
static void *grow(void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity) {
        return items;
    }
    uint32_t wanted = *capacity == 0 ? 4 : *capacity * 2;
    void *grown = realloc(items, (size_t)wanted * size);
    if (grown != NULL) {
        *capacity = wanted;
    }
    return grown;
}

static struct block *make_block(struct gw_trial_blocks *blocks, uint64_t key)
{
    uint32_t at = lower_bound(blocks, key);
    if (at < blocks->count && blocks->items[at].key == key) {
        return &blocks->items[at];
    }
    struct block *grown =
        grow(blocks->items, blocks->count, &blocks->capacity, sizeof(blocks->items[0]));
    if (grown == NULL) {
        return NULL;
    }
    blocks->items = grown;
    memmove(&grown[at + 1], &grown[at], (blocks->count - at) * sizeof(grown[0]));
    grown[at] = (struct block){.key = key};
    blocks->count++;
    return &grown[at];
}

static struct cell *make_cell(struct block *block, uint64_t segment)
{
    for (uint32_t i = 0; i < block->cell_count; i++) {
        if (block->cells[i].segment == segment) {
            return &block->cells[i];
        }
    }
    struct cell *grown =
        grow(block->cells, block->cell_count, &block->cell_capacity, sizeof(block->cells[0]));
    if (grown == NULL) {
        return NULL;
    }
    block->cells = grown;
    grown[block->cell_count] = (struct cell){.segment = segment};
    return &grown[block->cell_count++];
}

// ---- A device's part

struct part {
    uint64_t key;
    enum pol_cohort cohort;
    bool failed;
    bool succeeded;
    bool refused;
    struct failure failure;
};

static bool within(uint32_t at_s, uint64_t end_s)
{
    return at_s != 0 && at_s <= end_s;
}

// False: the device takes no part.
static bool part_of(const struct gw_trial_blocks *blocks, const struct gw_trial_entry *entry,
                    struct part *out)
{
    const struct gw_release *release = blocks->release;
    if ((entry->bits & GW_OUTCOME_DRAWN) == 0 || entry->stage >= release->stage_count ||
        release->stages[entry->stage].gate.rule != POL_GATE_LOGRANK) {
        return false;
    }
    const uint32_t number = entry->offered_s / blocks->block_s;
    const uint64_t end_s = gw_trial_window_end_s(release, entry->stage, entry->offered_s);
    bool failed = (entry->bits & GW_OUTCOME_FAILED) != 0;
    bool ran = (entry->bits & GW_OUTCOME_RAN) != 0;
    bool control = (entry->bits & GW_OUTCOME_CONTROL) != 0;
    *out = (struct part){.key = key_of(entry->stage, number, (entry->bits & GW_OUTCOME_ALONE) != 0),
                         .cohort = control ? POL_COHORT_CONTROL : POL_COHORT_UPDATED,
                         .failed = failed && within(entry->failed_s, end_s)};
    out->succeeded = !out->failed && within(entry->answered_s, end_s);
    out->refused = (entry->bits & GW_OUTCOME_NOT_APPLICABLE) != 0 && !ran && !failed;
    out->failure = (struct failure){.order = entry->order,
                                    .segment = entry->segment,
                                    .at_s = entry->failed_s,
                                    .cohort = (uint32_t)out->cohort};
    return true;
}

static bool comes_before(const struct failure *a, const struct failure *b)
{
    return a->at_s != b->at_s ? a->at_s < b->at_s : a->order < b->order;
}

static uint32_t place_of(const struct block *block, const struct failure *failure)
{
    uint32_t at = block->failure_count;
    while (at > 0 && comes_before(failure, &block->failures[at - 1])) {
        at--;
    }
    return at;
}

static bool add_failure(struct block *block, const struct failure *failure)
{
    struct failure *grown = grow(block->failures, block->failure_count, &block->failure_capacity,
                                 sizeof(block->failures[0]));
    if (grown == NULL) {
        return false;
    }
    block->failures = grown;
    uint32_t at = place_of(block, failure);
    memmove(&grown[at + 1], &grown[at], (block->failure_count - at) * sizeof(grown[0]));
    grown[at] = *failure;
    block->edits += at < block->failure_count;
    block->failure_count++;
    return true;
}

static void take_failure(struct block *block, const struct failure *failure)
{
    uint32_t at = block->failure_count;
    while (at > 0) {
        at--;
        const struct failure *one = &block->failures[at];
        if (one->at_s == failure->at_s && one->order == failure->order &&
            one->cohort == failure->cohort) {
            block->failure_count--;
            block->edits++;
            memmove(&block->failures[at], &block->failures[at + 1],
                    (block->failure_count - at) * sizeof(block->failures[0]));
            return;
        }
    }
}

// What was found of these blocks holds no more.
static void changed(struct gw_trial_blocks *blocks, uint64_t key)
{
    blocks->last.valid = false;
    if (key < blocks->kept.next) {
        blocks->kept.valid = false;
    }
}

static void change(struct gw_trial_blocks *blocks, const struct gw_trial_entry *entry, int32_t by)
{
    struct part part;
    if (!part_of(blocks, entry, &part)) {
        return;
    }
    struct block *block = make_block(blocks, part.key);
    struct cell *cell = block != NULL ? make_cell(block, entry->segment) : NULL;
    changed(blocks, part.key);
    if (cell == NULL || (part.failed && by > 0 && !add_failure(block, &part.failure))) {
        blocks->lost++;
        return;
    }
    if (part.failed && by < 0) {
        take_failure(block, &part.failure);
    }
    cell->offered[part.cohort] += by;
    cell->succeeded[part.cohort] += part.succeeded ? by : 0;
    cell->refused[part.cohort] += part.refused ? by : 0;
    cell->failed += part.failed ? by : 0;
}

void gw_trial_blocks_add(struct gw_trial_blocks *blocks, const struct gw_trial_entry *entry)
{
    change(blocks, entry, 1);
}

void gw_trial_blocks_take(struct gw_trial_blocks *blocks, const struct gw_trial_entry *entry)
{
    change(blocks, entry, -1);
}

// ---- Looks

// Whose devices a block is played with.
struct filter {
    const struct pol_held *held; // without theirs, unless
    uint64_t held_hash;
    const struct cell *one; // NULL, or the only segment that is asked for
};

static bool passes(const struct filter *filter, uint64_t segment)
{
    return filter->one != NULL ? segment == filter->one->segment
                               : segment == 0 || !pol_held_has(filter->held, segment);
}

struct times {
    uint32_t heard_s;
    bool closed;
    uint32_t tolerated_ppm;
};

static bool sum_cells(const struct block *from, const struct filter *filter, struct pol_block *out)
{
    int64_t offered[POL_COHORT_COUNT] = {0};
    const struct cell *first = filter->one != NULL ? filter->one : from->cells;
    uint32_t count = filter->one != NULL ? 1 : from->cell_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct cell *cell = &first[i];
        for (int k = 0; k < POL_COHORT_COUNT && passes(filter, cell->segment); k++) {
            offered[k] += cell->offered[k];
            out->succeeded[k] += (uint32_t)cell->succeeded[k];
            out->refused[k] += (uint32_t)cell->refused[k];
        }
    }
    int64_t devices = offered[POL_COHORT_CONTROL] + offered[POL_COHORT_UPDATED];
    for (int k = 0; k < POL_COHORT_COUNT; k++) {
        out->offered[k] = (uint32_t)offered[k];
    }
    return devices > 0 && devices <= POL_BLOCK_DEVICES_MAX;
}

// Can what was played be gone on with?
static bool goes_on(const struct played *played, const struct block *from,
                    const struct filter *filter, const struct times *times,
                    const struct pol_block *sums)
{
    return played->valid && played->closed == times->closed && played->edits == from->edits &&
           played->held == filter->held_hash &&
           memcmp(played->block.offered, sums->offered, sizeof(sums->offered)) == 0 &&
           (played->count == 0 || from->failures[played->count - 1].at_s <= times->heard_s);
}

static void begin_play(const struct block *from, const struct filter *filter,
                       const struct times *times, const struct pol_block *sums,
                       struct played *played)
{
    *played = (struct played){.valid = true,
                              .closed = times->closed,
                              .edits = from->edits,
                              .held = filter->held_hash,
                              .block = *sums};
    memset(played->block.succeeded, 0, sizeof(sums->succeeded)); // who did may have failed later
    memset(played->block.refused, 0, sizeof(sums->refused));
    if (times->closed) {
        pol_block_close(&played->block, times->tolerated_ppm, &played->won);
    }
}

// A block as the policy has it; what its failures win is in `played`. False: nobody is in it, or
// more than a block may have; then it says nothing.
static bool play(const struct block *from, const struct filter *filter, const struct times *times,
                 struct played *played, struct pol_block *out)
{
    struct pol_block sums = {.alone = (from->key & 1) != 0};
    if (!sum_cells(from, filter, &sums)) {
        return false;
    }
    if (!goes_on(played, from, filter, times, &sums)) {
        begin_play(from, filter, times, &sums, played);
    }
    struct pol_block *block = &played->block;
    for (; played->count < from->failure_count; played->count++) {
        const struct failure *failure = &from->failures[played->count];
        bool full = !block->closed && block->waiting == POL_BLOCK_WAITING_MAX; // wait for its end
        if (failure->at_s > times->heard_s || full) {
            break;
        }
        if (passes(filter, failure->segment)) {
            (void)pol_block_fail(block, (enum pol_cohort)failure->cohort, false,
                                 times->tolerated_ppm, &played->won);
        }
    }
    *out = *block;
    memcpy(out->succeeded, sums.succeeded, sizeof(out->succeeded));
    memcpy(out->refused, sums.refused, sizeof(out->refused));
    return true;
}

static struct times times_of(const struct gw_trial_blocks *blocks, const struct block *block,
                             const struct gw_trial_look *look)
{
    uint64_t end_s = end_of(blocks, block);
    return (struct times){
        .heard_s = look->heard_s,
        .closed = end_s <= look->offers_s && end_s <= look->heard_s,
        .tolerated_ppm = blocks->release->stages[look->stage].gate.tolerated_rise_ppm,
    };
}

static uint64_t hash_held(const struct pol_held *held)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < held->count; i++) {
        sum += base_mix64(held->names[i]);
    }
    return sum;
}

// Where to go on: behind what is kept, if it is of the same look.
static uint32_t begin(struct gw_trial_blocks *blocks, const struct gw_trial_look *look,
                      uint64_t held)
{
    struct kept *kept = &blocks->kept;
    if (!kept->valid || kept->stage != look->stage || kept->held != held) {
        *kept = (struct kept){.valid = true,
                              .stage = look->stage,
                              .held = held,
                              .next = key_of(look->stage, 0, false)};
    }
    return lower_bound(blocks, kept->next);
}

static void find_trial(struct gw_trial_blocks *blocks, const struct gw_trial_look *look,
                       uint64_t held, struct pol_trial *out)
{
    const struct filter filter = {.held = look->held, .held_hash = held};
    const struct pol_stage *stage = &blocks->release->stages[look->stage];
    uint32_t at = begin(blocks, look, held);
    bool all_over = true;
    *out = blocks->kept.trial;
    for (; at < blocks->count && stage_of(&blocks->items[at]) == look->stage; at++) {
        struct block *block = &blocks->items[at];
        struct times times = times_of(blocks, block, look);
        bool over = times.closed && end_of(blocks, block) + window_of(stage) <= look->heard_s;
        struct pol_block played;
        if (play(block, &filter, &times, &block->whole, &played)) {
            pol_logrank_add(&out->rise, &block->whole.won);
            pol_trial_add(out, &played, over, stage->gate.max_failure_ppm);
        }
        all_over = all_over && over;
        if (all_over) {
            blocks->kept.trial = *out;
            blocks->kept.next = block->key + 1;
        }
    }
}

void gw_trial_blocks_judged(struct gw_trial_blocks *blocks, const struct gw_trial_look *look,
                            struct pol_trial *out)
{
    struct last *last = &blocks->last;
    uint64_t held = hash_held(look->held);
    bool same = last->valid && last->stage == look->stage && last->heard_s == look->heard_s &&
                last->offers_s == look->offers_s && last->held == held;
    if (!same) {
        *last = (struct last){.valid = true,
                              .stage = look->stage,
                              .heard_s = look->heard_s,
                              .offers_s = look->offers_s,
                              .held = held};
        find_trial(blocks, look, held, &last->trial);
    }
    *out = last->trial;
}

// ---- Segments

struct seen {
    uint64_t segment;
    struct pol_sample sample;
    struct pol_logrank rise;
};

struct seen_all {
    uint32_t count;
    uint16_t slots[SEGMENT_SLOTS]; // index + 1; 0: free
    struct seen items[POL_SLICES_MAX];
};

// NULL: there are too many.
static struct seen *see(struct seen_all *all, uint64_t segment)
{
    uint32_t at = (uint32_t)base_mix64(segment) % SEGMENT_SLOTS;
    while (all->slots[at] != 0 && all->items[all->slots[at] - 1].segment != segment) {
        at = (at + 1) % SEGMENT_SLOTS;
    }
    if (all->slots[at] == 0) {
        if (all->count == POL_SLICES_MAX) {
            return NULL;
        }
        all->items[all->count] = (struct seen){.segment = segment};
        all->slots[at] = (uint16_t)++all->count;
    }
    return &all->items[all->slots[at] - 1];
}
_Static_assert(POL_SLICES_MAX<UINT16_MAX && SEGMENT_SLOTS> POL_SLICES_MAX, "slots hold all");

// Where a segment's part of a block is played: nothing is kept of one in which nobody failed, nor
// without memory.
static struct played *kept_of(struct cell *cell, struct played *unkept)
{
    if (cell->played == NULL && cell->failed > 0) {
        cell->played = calloc(1, sizeof(*cell->played));
    }
    return cell->played != NULL ? cell->played : unkept;
}

static void see_block(struct gw_trial_blocks *blocks, struct block *block,
                      const struct gw_trial_look *look, struct seen_all *all)
{
    struct times times = times_of(blocks, block, look);
    for (uint32_t i = 0; i < block->cell_count; i++) {
        struct cell *cell = &block->cells[i];
        const struct filter filter = {.one = cell};
        struct seen *seen = cell->segment != 0 ? see(all, cell->segment) : NULL;
        struct played unkept = {.valid = false};
        struct played *kept = seen != NULL ? kept_of(cell, &unkept) : NULL;
        struct pol_block played;
        if (kept != NULL && play(block, &filter, &times, kept, &played)) {
            pol_logrank_add(&seen->rise, &kept->won);
            seen->sample.trials +=
                played.offered[POL_COHORT_UPDATED] - played.refused[POL_COHORT_UPDATED];
            seen->sample.failures += played.failed[POL_COHORT_UPDATED];
        }
    }
}

static void show(const struct seen *seen, const struct gw_trial_look *look,
                 const struct pol_held *lifted, struct pol_slices *out)
{
    if (seen->sample.trials == 0) {
        return; // of control alone
    }
    out->count++;
    if (pol_held_has(look->held, seen->segment)) {
        return;
    }
    out->completed += seen->sample.trials;
    if (seen->sample.failures > 0 && !pol_held_has(lifted, seen->segment)) {
        out->failing[out->failing_count++] = (struct pol_slice){
            .name = seen->segment, .seen = seen->sample, .rise = pol_logrank_evidence(&seen->rise)};
    }
}

void gw_trial_blocks_slices(struct gw_trial_blocks *blocks, const struct gw_trial_look *look,
                            const struct pol_held *lifted, struct pol_slices *out)
{
    struct seen_all *all = calloc(1, sizeof(*all));
    *out = (struct pol_slices){.held_count = look->held->count};
    if (all == NULL) {
        return;
    }
    uint32_t at = lower_bound(blocks, key_of(look->stage, 0, false));
    for (; at < blocks->count && stage_of(&blocks->items[at]) == look->stage; at++) {
        see_block(blocks, &blocks->items[at], look, all);
    }
    for (uint32_t i = 0; i < all->count; i++) {
        show(&all->items[i], look, lifted, out);
    }
    free(all);
}
