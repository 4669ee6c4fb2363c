// See delta_shift.h. A rolling hash goes over both contents; positions whose hash says so, about
// one in `rate`, are anchors. Old anchors lie in a table; every new one that finds its like votes
// for the distance. Depends on the contents alone. Background threads.
#include "svc/delta_shift.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ELEMENTS 24u // in a hash
#define RATE_LOG_MIN 5u  // one anchor in 32 positions
#define ANCHORS_LOG  17u // old ones, about: the table is twice as large
#define TABLE_LOG    (ANCHORS_LOG + 1)
#define VOTES_MAX    64u // different shifts counted in a window
#define VOTES_MIN    2u  // fewer are chance
#define PER_STRIDE   2u  // best shifts taken
#define FACTOR       UINT64_C(0x9e3779b97f4a7c15)
#define MIXER        UINT64_C(0xd6e8feb86659fd93)

static const uint32_t strides[] = {1, 2, 4};
_Static_assert(PER_STRIDE * sizeof(strides) / sizeof(strides[0]) <= GW_DELTA_VOTED_MAX, "room");

struct anchor {
    uint32_t tag; // of the hash; 0 with position 0: free
    uint32_t position;
};

struct search {
    uint32_t stride;
    uint32_t rate_log;
    uint64_t drop; // FACTOR to the power of RUN_ELEMENTS
    struct anchor *table;
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

// The slot of a hash: taken by its like, or free. NULL: the table is full around it.
static struct anchor *slot(const struct search *search, uint64_t mixed)
{
    uint32_t tag = (uint32_t)mixed | 1;
    uint32_t at = (uint32_t)(mixed >> 20) & ((1u << TABLE_LOG) - 1);
    for (uint32_t i = 0; i < 8; i++) {
        struct anchor *anchor = &search->table[(at + i) & ((1u << TABLE_LOG) - 1)];
        if (anchor->tag == tag || anchor->tag == 0) {
            return anchor;
        }
    }
    return NULL;
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

// What to do at an anchor: keep it (votes NULL), or vote.
static void meet(const struct search *search, uint64_t mixed, size_t position, struct votes *votes)
{
    struct anchor *anchor = slot(search, mixed);
    if (anchor == NULL) {
        return;
    }
    if (votes != NULL && anchor->tag != 0) {
        vote(votes, (int64_t)anchor->position - (int64_t)position);
    } else if (votes == NULL && anchor->tag == 0) {
        *anchor = (struct anchor){.tag = (uint32_t)mixed | 1, .position = (uint32_t)position};
    }
}

// Goes over the bytes from `from` to `to` in steps, once for each place a number may begin at.
static void scan(const struct search *search, const uint8_t *bytes, size_t from, size_t to,
                 struct votes *votes)
{
    const size_t stride = search->stride;
    const size_t run = RUN_ELEMENTS * stride;
    for (size_t phase = 0; phase < stride && to - from >= run + phase; phase++) {
        uint64_t hash = 0;
        uint64_t last = 0;
        size_t at = from + phase;
        for (; at < from + phase + run; at += stride) {
            hash = hash * FACTOR + bytes[at] + 1;
        }
        for (;; at += stride) {
            uint64_t mixed = mix(hash);
            // A run of equal bytes is everywhere: only its first place counts.
            if (mixed >> (64 - search->rate_log) == 0 && hash != last) {
                meet(search, mixed, at - run, votes);
                last = hash;
            }
            if (at >= to) {
                break;
            }
            hash = hash * FACTOR + bytes[at] + 1 - (bytes[at - run] + UINT64_C(1)) * search->drop;
        }
    }
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

enum base_status gw_delta_shifts_find(const struct gw_delta_pair *pair, size_t window,
                                      struct gw_delta_shifts *out)
{
    struct search search = {.rate_log = rate_log(pair->old_size), .drop = 1};
    search.table = malloc(sizeof(search.table[0]) << TABLE_LOG);
    if (search.table == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < RUN_ELEMENTS; i++) {
        search.drop *= FACTOR;
    }
    for (size_t from = 0; from < pair->fresh_size; from += window) {
        out[from / window].count = 0;
    }
    for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
        search.stride = strides[s];
        memset(search.table, 0, sizeof(search.table[0]) << TABLE_LOG);
        scan(&search, pair->old, 0, pair->old_size, NULL);
        for (size_t from = 0; from < pair->fresh_size; from += window) {
            size_t left = pair->fresh_size - from;
            struct votes votes = {.count = 0};
            scan(&search, pair->fresh, from, from + (left < window ? left : window), &votes);
            take_best(&votes, &out[from / window]);
        }
    }
    free(search.table);
    return BASE_OK;
}
