// Alias tables: a draw is one row by its number, and by a second number that row or the one it is
// paired with, whatever the weights are. people.c fills them on the main thread; shards draw from
// them at every wake, so nothing here changes after sim_table_ready. Whole numbers only.
#include "people/people_tables.h"

#include "base/check.h"
#include "people/sim_draw.h"

#include <stdlib.h>
#include <string.h>

static uint64_t key_of(const struct sim_table *table, const uint8_t value[SIM_TRAIT_COUNT])
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < table->given_count; i++) {
        key = key << 5 | value[table->columns[i]];
    }
    return key;
}

enum base_status sim_table_add(struct sim_table *table, uint64_t weight, uint32_t line,
                               const uint8_t value[SIM_TRAIT_COUNT])
{
    base_assert(table->groups == NULL);
    if (table->row_count == table->row_room) {
        uint32_t room = table->row_room == 0 ? 16 : table->row_room * 2;
        struct sim_table_row *more = realloc(table->rows, room * sizeof(*more));
        if (more == NULL) {
            return BASE_ERR_NOMEM;
        }
        table->rows = more;
        table->row_room = room;
    }
    struct sim_table_row *row = &table->rows[table->row_count++];
    *row = (struct sim_table_row){.key = key_of(table, value), .weight = weight, .line = line};
    memcpy(row->value, value, SIM_TRAIT_COUNT);
    return BASE_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct sim_table_row *x = a;
    const struct sim_table_row *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return (x->line > y->line) - (x->line < y->line);
}

// Pairs rows that weigh too little with rows that weigh too much.
static void make_alias(struct sim_table_row *rows, uint32_t count, uint32_t *stack)
{
    uint64_t whole = 0;
    uint32_t little = 0;
    uint32_t much = count;
    for (uint32_t i = 0; i < count; i++) {
        whole += rows[i].weight;
    }
    base_assert(whole > 0);
    for (uint32_t i = 0; i < count;
         i++) { // rows that weigh little from the front, the others behind
        rows[i].weight *= count;
        stack[rows[i].weight < whole ? little++ : --much] = i;
    }
    while (little > 0 && much < count) {
        struct sim_table_row *row = &rows[stack[--little]];
        struct sim_table_row *from = &rows[stack[much]];
        row->stays = (uint32_t)(((unsigned __int128)row->weight << 32) / whole);
        row->other = stack[much];
        from->weight -= whole - row->weight;
        if (from->weight < whole) {
            stack[little++] = stack[much++];
        }
    }
    for (; little > 0; little--) { // all that is left is whole
        rows[stack[little - 1]].stays = UINT32_MAX;
        rows[stack[little - 1]].other = stack[little - 1];
    }
    for (; much < count; much++) {
        rows[stack[much]].stays = UINT32_MAX;
        rows[stack[much]].other = stack[much];
    }
}

enum base_status sim_table_ready(struct sim_table *table)
{
    base_assert(table->groups == NULL);
    uint32_t *stack = calloc(table->row_count + 1, sizeof(*stack));
    table->groups = calloc(table->row_count + 1, sizeof(*table->groups));
    enum base_status status = stack != NULL && table->groups != NULL ? BASE_OK : BASE_ERR_NOMEM;
    if (status == BASE_OK && table->row_count > 0) {
        qsort(table->rows, table->row_count, sizeof(*table->rows), by_key);
    }
    for (uint32_t i = 0; status == BASE_OK && i < table->row_count;) {
        struct sim_table_group *group = &table->groups[table->group_count++];
        *group = (struct sim_table_group){table->rows[i].key, i, 0};
        while (i < table->row_count && table->rows[i].key == group->key) {
            group->count++;
            i++;
        }
        make_alias(&table->rows[group->first], group->count, stack);
    }
    free(stack);
    return status;
}

const struct sim_table_group *sim_table_group(const struct sim_table *table,
                                              const uint8_t value[SIM_TRAIT_COUNT])
{
    uint64_t key = key_of(table, value);
    uint32_t low = 0;
    uint32_t high = table->group_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->groups[middle].key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < table->group_count && table->groups[low].key == key ? &table->groups[low] : NULL;
}

bool sim_table_draw(const struct sim_table *table, uint64_t random, uint8_t value[SIM_TRAIT_COUNT])
{
    const struct sim_table_group *group = sim_table_group(table, value);
    if (group == NULL) {
        return false;
    }
    const struct sim_table_row *rows = &table->rows[group->first];
    const struct sim_table_row *row = &rows[sim_below(random, group->count)];
    row = (uint32_t)random < row->stays ? row : &rows[row->other];
    for (uint32_t i = table->given_count; i < table->column_count; i++) {
        value[table->columns[i]] = row->value[table->columns[i]];
    }
    return true;
}

void sim_table_done(struct sim_table *table)
{
    free(table->rows);
    free(table->groups);
    memset(table, 0, sizeof(*table));
}
