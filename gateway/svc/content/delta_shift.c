// See delta_shift.h. A rolling hash goes over both contents; positions whose hash says so, about
// one in `rate`, are anchors. Old anchors lie in a table; every new one that finds its like votes
// for the distance. Depends on the contents alone. Background threads.
#include "svc/content/delta_shift.h"

#include <stdbool.h>
#include <stdlib.h>

#define RUN_ELEMENTS 24u // in a hash
#define RATE_LOG_MIN 5u  // one anchor in 32 positions
#define ANCHORS_LOG  17u // old ones, about: the table is twice as large
#define TABLE_LOG    (ANCHORS_LOG + 1)
#define VOTES_MAX    64u // different shifts counted in a window
#define VOTES_MIN    2u  // fewer are chance
#define PER_STRIDE   2u  // best shifts taken
#define PROBES_MAX   8u
#define FACTOR       UINT64_C(0x9e3779b97f4a7c15)
#define MIXER        UINT64_C(0xd6e8feb86659fd93)

#define STRIDES 3u

static const uint32_t strides[STRIDES] = {1, 2, 4};
_Static_assert(PER_STRIDE *STRIDES <= GW_DELTA_VOTED_MAX, "room");

struct anchor {
    uint32_t tag; // of the hash; 0 with position 0: free
    uint32_t position;
};

// Of one stride.
struct search {
    uint32_t stride;
    uint32_t rate_log;
    uint64_t drop; // FACTOR to the power of RUN_ELEMENTS
    struct anchor table[1u << TABLE_LOG];
};

struct gw_delta_index {
    const struct gw_delta_pair *pair;
    struct search searches[STRIDES];
};

struct votes {
    uint32_t count;
    int64_t shift[VOTES_MAX];
    uint32_t number[VOTES_MAX];
};

static uint64_t mix(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= MIXER;
    return hash ^ hash >> 29;
}

// The slot of a hash: taken by its like, or free; the table's size: none is near.
static uint32_t slot(const struct search *search, uint64_t mixed)
{
    const uint32_t mask = (1u << TABLE_LOG) - 1;
    uint32_t tag = (uint32_t)mixed | 1;
    uint32_t at = (uint32_t)(mixed >> 20);
    for (uint32_t i = 0; i < PROBES_MAX; i++) {
        uint32_t there = search->table[(at + i) & mask].tag;
        if (there == tag || there == 0) {
            return (at + i) & mask;
        }
    }
    return 1u << TABLE_LOG;
}

static void vote(struct votes *votes, int64_t shift)
{
    uint32_t i = 0;
    while (i < votes->count && votes->shift[i] != shift) {
        i++;
    }
    if (i == VOTES_MAX) {
        return;
    }
    if (i == votes->count) {
        votes->shift[i] = shift;
        votes->number[i] = 0;
        votes->count++;
    }
    votes->number[i]++;
}

static void keep(struct search *search, uint64_t mixed, size_t position)
{
    uint32_t at = slot(search, mixed);
    if (at < 1u << TABLE_LOG && search->table[at].tag == 0) { // of its likes the first stays
        search->table[at] =
            (struct anchor){.tag = (uint32_t)mixed | 1, .position = (uint32_t)position};
    }
}

static void look_up(const struct search *search, uint64_t mixed, size_t position,
                    struct votes *votes)
{
    uint32_t at = slot(search, mixed);
    if (at < 1u << TABLE_LOG && search->table[at].tag != 0) {
        vote(votes, (int64_t)search->table[at].position - (int64_t)position);
    }
}

// A position whose hash says so.
struct meeting {
    uint64_t mixed;
    size_t position;
};

// Over every `stride`th byte up to `to`.
struct pass {
    const uint8_t *bytes;
    size_t at; // behind the run
    size_t to;
    uint64_t hash;
    uint64_t last; // of the last anchor: a run of equal bytes is everywhere, its first place counts
};

// False: too short for one run.
static bool pass_begin(const struct search *search, const uint8_t *bytes, size_t from, size_t to,
                       struct pass *out)
{
    const size_t run = (size_t)RUN_ELEMENTS * search->stride;
    if (from > to || to - from < run) {
        return false;
    }
    *out = (struct pass){.bytes = bytes, .at = from, .to = to};
    for (; out->at < from + run; out->at += search->stride) {
        out->hash = out->hash * FACTOR + bytes[out->at] + 1;
    }
    return true;
}

// The next anchor. False: there is none.
static bool pass_next(const struct search *search, struct pass *pass, struct meeting *out)
{
    const size_t run = (size_t)RUN_ELEMENTS * search->stride;
    const uint8_t *bytes = pass->bytes;
    uint64_t hash = pass->hash;
    size_t at = pass->at;
    bool found = false;
    while (!found && at <= pass->to + search->stride - 1) {
        uint64_t mixed = mix(hash);
        found = mixed >> (64 - search->rate_log) == 0 && hash != pass->last;
        if (found) {
            *out = (struct meeting){.mixed = mixed, .position = at - run};
            pass->last = hash;
        }
        if (at < pass->to) {
            hash = hash * FACTOR + bytes[at] + 1 - (bytes[at - run] + UINT64_C(1)) * search->drop;
        }
        at += search->stride;
    }
    pass->hash = hash;
    pass->at = at;
    return found;
}

static void take_best(struct votes *votes, struct gw_delta_shifts *out)
{
    for (uint32_t taken = 0; taken < PER_STRIDE; taken++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < votes->count; i++) {
            best = votes->number[i] > votes->number[best] ? i : best;
        }
        if (votes->count == 0 || votes->number[best] < VOTES_MIN) {
            return;
        }
        out->shift[out->count++] = votes->shift[best];
        votes->number[best] = 0;
    }
}

static uint32_t rate_log(size_t old_size)
{
    uint32_t log = RATE_LOG_MIN;
    while (old_size >> log > (size_t)1 << ANCHORS_LOG) {
        log++;
    }
    return log;
}

static void search_fill(struct search *search, const uint8_t *bytes, size_t size)
{
    struct pass pass;
    struct meeting meeting;
    for (size_t phase = 0; phase < search->stride; phase++) {
        if (!pass_begin(search, bytes, phase, size, &pass)) {
            return;
        }
        while (pass_next(search, &pass, &meeting)) {
            keep(search, meeting.mixed, meeting.position);
        }
    }
}

enum base_status gw_delta_index_new(const struct gw_delta_pair *pair,
                                    struct gw_delta_index **out_index)
{
    struct gw_delta_index *index = calloc(1, sizeof(*index));
    if (index == NULL) {
        return BASE_ERR_NOMEM;
    }
    index->pair = pair;
    for (uint32_t s = 0; s < STRIDES; s++) {
        struct search *search = &index->searches[s];
        search->stride = strides[s];
        search->rate_log = rate_log(pair->old_size);
        search->drop = 1;
        for (uint32_t i = 0; i < RUN_ELEMENTS; i++) {
            search->drop *= FACTOR;
        }
        search_fill(search, pair->old, pair->old_size);
    }
    *out_index = index;
    return BASE_OK;
}

void gw_delta_index_free(struct gw_delta_index *index)
{
    free(index);
}

void gw_delta_index_vote(const struct gw_delta_index *index, size_t from, size_t to,
                         struct gw_delta_shifts *out)
{
    out->count = 0;
    for (uint32_t s = 0; s < STRIDES; s++) {
        const struct search *search = &index->searches[s];
        struct votes votes = {.count = 0};
        struct pass pass;
        struct meeting meeting;
        for (size_t phase = 0; phase < search->stride; phase++) {
            if (!pass_begin(search, index->pair->fresh, from + phase, to, &pass)) {
                break;
            }
            while (pass_next(search, &pass, &meeting)) {
                look_up(search, meeting.mixed, meeting.position, &votes);
            }
        }
        take_best(&votes, out);
    }
}
