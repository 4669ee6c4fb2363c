// Open addressing with linear probing, at most half full, entries moved back when one leaves. Used
// by the budget of bodies (behind its mutex) and by each worker's proxy. An entry whose counts are
// both zero is a free place, so there is no mark for deleted ones and the table stays as large as
// what is held. The hash is keyed with entropy of the table's own: nobody can choose actors that
// meet in one place.
#include "http/guard/actor_table.h"

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/prng.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 64u

struct entry {
    struct gw_actor_key key;
    uint64_t counts[GW_ACTOR_COUNTS]; // all zero: free
};

struct gw_actor_table {
    struct base_hash_key key; // nobody can choose actors that meet in one place
    uint32_t mask;
    uint32_t used;
    struct entry *entries;
};

static bool is_free(const struct entry *entry)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < GW_ACTOR_COUNTS; i++) {
        any |= entry->counts[i];
    }
    return any == 0;
}

enum base_status gw_actor_table_new(struct gw_actor_table **out_table)
{
    struct gw_actor_table *table = calloc(1, sizeof(*table));
    struct entry *entries = calloc(CAPACITY_FIRST, sizeof(*entries));
    if (table == NULL || entries == NULL) {
        free(entries);
        free(table);
        return BASE_ERR_NOMEM;
    }
    table->entries = entries;
    table->mask = CAPACITY_FIRST - 1;
    table->key = (struct base_hash_key){base_entropy_u64(), base_entropy_u64()};
    *out_table = table;
    return BASE_OK;
}

void gw_actor_table_free(struct gw_actor_table *table)
{
    if (table != NULL) {
        free(table->entries);
        free(table);
    }
}

static uint32_t home_of(const struct gw_actor_table *table, const struct gw_actor_key *key)
{
    return (uint32_t)base_keyed64(&table->key, key, sizeof(*key)) & table->mask;
}

// Index of the actor, or of the free place where it would go.
static uint32_t find(const struct gw_actor_table *table, const struct gw_actor_key *key)
{
    uint32_t at = home_of(table, key);
    while (!is_free(&table->entries[at]) &&
           memcmp(&table->entries[at].key, key, sizeof(*key)) != 0) {
        at = (at + 1) & table->mask;
    }
    return at;
}

static bool grow(struct gw_actor_table *table)
{
    uint32_t old_capacity = table->mask + 1;
    struct entry *old = table->entries;
    struct entry *entries = calloc((size_t)old_capacity * 2, sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    table->entries = entries;
    table->mask = old_capacity * 2 - 1;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (!is_free(&old[i])) {
            entries[find(table, &old[i].key)] = old[i];
        }
    }
    free(old);
    return true;
}

uint64_t gw_actor_table_get(const struct gw_actor_table *table, const struct gw_actor_key *key,
                            uint32_t which)
{
    return table->entries[find(table, key)].counts[which];
}

enum base_status gw_actor_table_add(struct gw_actor_table *table, const struct gw_actor_key *key,
                                    uint32_t which, uint64_t amount)
{
    uint32_t at = find(table, key);
    if (amount == 0) {
        return BASE_OK;
    }
    if (is_free(&table->entries[at])) {
        if ((table->used + 1) * 2 > table->mask + 1) {
            if (!grow(table)) {
                return BASE_ERR_NOMEM;
            }
            at = find(table, key);
        }
        table->entries[at].key = *key;
        table->used++;
    }
    table->entries[at].counts[which] += amount;
    return BASE_OK;
}

// Closes the hole at `at`: a later entry of the same run moves in when its home allows it.
static void remove_at(struct gw_actor_table *table, uint32_t at)
{
    uint32_t hole = at;
    uint32_t next = (at + 1) & table->mask;
    while (!is_free(&table->entries[next])) {
        uint32_t home = home_of(table, &table->entries[next].key);
        if (((next - home) & table->mask) >= ((next - hole) & table->mask)) {
            table->entries[hole] = table->entries[next];
            hole = next;
        }
        next = (next + 1) & table->mask;
    }
    memset(&table->entries[hole], 0, sizeof(table->entries[hole]));
    table->used--;
}

void gw_actor_table_sub(struct gw_actor_table *table, const struct gw_actor_key *key,
                        uint32_t which, uint64_t amount)
{
    uint32_t at = find(table, key);
    if (amount == 0) {
        return;
    }
    base_check(table->entries[at].counts[which] >= amount);
    table->entries[at].counts[which] -= amount;
    if (is_free(&table->entries[at])) {
        remove_at(table, at);
    }
}

uint32_t gw_actor_table_size(const struct gw_actor_table *table)
{
    return table->used;
}
