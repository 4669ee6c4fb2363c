// Connection counts by address: open addressing with linear probing, at most half full, entries
// moved back when one leaves. Called by every worker's listener and connections. Any thread: one
// mutex, taken once an accept and once a close. The table has room for twice the most connections
// there may be and never grows, so an accept allocates nothing. server.c makes it.
#include "http/guard/peer_table.h"

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/prng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct peer_entry {
    struct gw_peer_address address;
    uint32_t count; // 0: free
};

struct gw_peer_table {
    pthread_mutex_t mutex;
    struct base_hash_key key; // peers cannot choose addresses that meet in one place
    uint32_t mask;
    uint32_t total;
    uint32_t total_max;
    struct peer_entry *entries;
};

bool gw_peer_is_v4(const struct gw_peer_address *address)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(address->bytes, mapped, sizeof(mapped)) == 0;
}

struct gw_peer_address gw_peer_network(const struct gw_peer_address *address)
{
    struct gw_peer_address network = *address;
    if (!gw_peer_is_v4(address)) {
        memset(network.bytes + 8, 0, 8);
    }
    return network;
}

enum base_status gw_peer_table_new(uint32_t connections_max, struct gw_peer_table **out_table)
{
    if (connections_max == 0 || connections_max > (1u << 24)) {
        return BASE_ERR_INVALID;
    }
    uint32_t capacity = 16;
    while (capacity < 2 * connections_max) {
        capacity *= 2;
    }
    struct gw_peer_table *table = calloc(1, sizeof(*table));
    if (table == NULL) {
        return BASE_ERR_NOMEM;
    }
    table->entries = calloc(capacity, sizeof(*table->entries));
    if (table->entries == NULL || pthread_mutex_init(&table->mutex, NULL) != 0) {
        free(table->entries);
        free(table);
        return BASE_ERR_NOMEM;
    }
    table->mask = capacity - 1;
    table->total_max = connections_max;
    table->key = (struct base_hash_key){base_entropy_u64(), base_entropy_u64()};
    *out_table = table;
    return BASE_OK;
}

void gw_peer_table_free(struct gw_peer_table *table)
{
    if (table == NULL) {
        return;
    }
    pthread_mutex_destroy(&table->mutex);
    free(table->entries);
    free(table);
}

static uint32_t home_of(const struct gw_peer_table *table, const struct gw_peer_address *address)
{
    return (uint32_t)base_keyed64(&table->key, address->bytes, sizeof(address->bytes)) &
           table->mask;
}

// Index of the address, or of the free place where it would go.
static uint32_t find(const struct gw_peer_table *table, const struct gw_peer_address *address)
{
    uint32_t at = home_of(table, address);
    while (table->entries[at].count != 0 &&
           memcmp(&table->entries[at].address, address, sizeof(*address)) != 0) {
        at = (at + 1) & table->mask;
    }
    return at;
}

enum base_status gw_peer_table_take(struct gw_peer_table *table,
                                    const struct gw_peer_address *address, uint64_t total_max,
                                    uint64_t address_max)
{
    const struct gw_peer_address network = gw_peer_network(address);
    enum base_status status = BASE_ERR_LIMIT;
    pthread_mutex_lock(&table->mutex);
    uint32_t at = find(table, &network);
    if (table->total < table->total_max && table->total < total_max &&
        table->entries[at].count < address_max) {
        table->entries[at].address = network;
        table->entries[at].count++;
        table->total++;
        status = BASE_OK;
    }
    pthread_mutex_unlock(&table->mutex);
    return status;
}

// Closes the hole at `at`: a later entry of the same run moves in when its home allows it.
static void remove_at(struct gw_peer_table *table, uint32_t at)
{
    uint32_t hole = at;
    uint32_t next = (at + 1) & table->mask;
    while (table->entries[next].count != 0) {
        uint32_t home = home_of(table, &table->entries[next].address);
        if (((next - home) & table->mask) >= ((next - hole) & table->mask)) {
            table->entries[hole] = table->entries[next];
            hole = next;
        }
        next = (next + 1) & table->mask;
    }
    memset(&table->entries[hole], 0, sizeof(table->entries[hole]));
}

void gw_peer_table_give(struct gw_peer_table *table, const struct gw_peer_address *address)
{
    const struct gw_peer_address network = gw_peer_network(address);
    pthread_mutex_lock(&table->mutex);
    uint32_t at = find(table, &network);
    base_check(table->entries[at].count > 0);
    base_check(table->total > 0);
    table->total--;
    if (--table->entries[at].count == 0) {
        remove_at(table, at);
    }
    pthread_mutex_unlock(&table->mutex);
}

uint32_t gw_peer_table_total(struct gw_peer_table *table)
{
    pthread_mutex_lock(&table->mutex);
    uint32_t total = table->total;
    pthread_mutex_unlock(&table->mutex);
    return total;
}

uint32_t gw_peer_table_count(struct gw_peer_table *table, const struct gw_peer_address *address)
{
    const struct gw_peer_address network = gw_peer_network(address);
    pthread_mutex_lock(&table->mutex);
    uint32_t count = table->entries[find(table, &network)].count;
    pthread_mutex_unlock(&table->mutex);
    return count;
}
