// Joint tables of a population, filled row by row and then made ready to draw from.
#ifndef SIM_PEOPLE_TABLES_H
#define SIM_PEOPLE_TABLES_H

#include "people/people.h"

#define SIM_WEIGHT_MAX 1000000000u

struct sim_table_row {
    uint64_t key; // of the given values
    uint64_t weight;
    uint32_t stays; // of 2^32: else it is the other row
    uint32_t other; // index in its group
    uint32_t line;  // of the file
    uint8_t value[SIM_TRAIT_COUNT];
};

// Rows that hold for the same given values.
struct sim_table_group {
    uint64_t key;
    uint32_t first;
    uint32_t count;
};

struct sim_table {
    enum sim_trait columns[SIM_TRAIT_COUNT]; // the given ones first
    uint32_t column_count;
    uint32_t given_count;
    uint32_t line; // of the file
    struct sim_table_row *rows;
    uint32_t row_count;
    uint32_t row_room;
    struct sim_table_group *groups; // by key
    uint32_t group_count;
};

// NOMEM. A weight is 1 to SIM_WEIGHT_MAX; the values are those of the table's columns, by trait.
BASE_NODISCARD enum base_status sim_table_add(struct sim_table *table, uint64_t weight,
                                              uint32_t line, const uint8_t value[SIM_TRAIT_COUNT]);
// Groups the rows and makes the alias tables. NOMEM.
BASE_NODISCARD enum base_status sim_table_ready(struct sim_table *table);
// The group for these values; NULL: the table has none.
const struct sim_table_group *sim_table_group(const struct sim_table *table,
                                              const uint8_t value[SIM_TRAIT_COUNT]);
// Fills in the columns that are not given. False: it has no rows for the given ones.
bool sim_table_draw(const struct sim_table *table, uint64_t random, uint8_t value[SIM_TRAIT_COUNT]);
void sim_table_done(struct sim_table *table);

#endif
