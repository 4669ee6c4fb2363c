// Populations from a file: who the devices are, where they live and what networks they have.
//
// A file has tables, each joint over its columns; a table that is `given` columns of earlier ones
// has rows for each of their values. So what belongs together stays together: a version of one
// system, a chip of one model, the networks of a region.
//
//   table os os_version model chip ram_mb
//   120 android 14 nova kirin-9 4096       a weight, then a value of each column; - : it has none
//   table region
//   table network given region
//   30 cn-east wifi                        the given columns first
//   zone cn-east 8                         hours later than UTC, -12 to 14
//   network wifi delay_ms=15 jitter_ms=10 loss=0.1% bad=1% bad_loss=10% down_kbps=40000
//           up_kbps=20000 offline=0        (on one line)
//
// Nothing is stored of a device: its values are drawn by alias tables from seed and index, the same
// on every machine. What was read does not change, so any thread may ask.
#ifndef SIM_PEOPLE_H
#define SIM_PEOPLE_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum sim_trait {
    SIM_TRAIT_APP_VERSION,
    SIM_TRAIT_CHANNEL,
    SIM_TRAIT_CHIP,
    SIM_TRAIT_MODEL,
    SIM_TRAIT_NETWORK,
    SIM_TRAIT_OS,
    SIM_TRAIT_OS_VERSION,
    SIM_TRAIT_RAM_MB,
    SIM_TRAIT_REGION,
    SIM_TRAIT_COUNT
};

#define SIM_TRAIT_ABSENT     31 // the device has no such attribute; values have numbers below
#define SIM_TRAIT_VALUES_MAX 32 // numbers of one trait, that one included
#define SIM_TABLES_MAX       16
#define SIM_TABLE_ROWS_MAX   65536u // of all tables

// How a trait's values read and compare.
enum sim_trait_kind { SIM_KIND_TEXT, SIM_KIND_VERSION, SIM_KIND_INTEGER };

struct sim_trait_about {
    struct base_str name;
    enum sim_trait_kind kind;
};
extern const struct sim_trait_about sim_trait_about[SIM_TRAIT_COUNT];

struct sim_value {
    struct base_str text; // with a NUL behind it
    int64_t integer;      // of SIM_KIND_INTEGER
};

// A class of networks. Of a message: how long it is on its way, one way, and how often it is lost.
struct sim_network {
    uint32_t delay_us;
    uint32_t jitter_us; // mean of what is added, long tailed
    uint32_t loss_ppm;
    uint32_t bad_ppm;      // share of the time in which the link is bad
    uint32_t bad_loss_ppm; // then
    uint32_t down_kbps;
    uint32_t up_kbps;
    uint32_t offline_ppm; // share of the time in which nothing gets through
};

struct sim_people;

// INVALID, with the file and the line in `error`; NOMEM, and what opening a file gives.
BASE_NODISCARD enum base_status sim_people_parse(const char *name, struct base_str text,
                                                 struct sim_people **out_people,
                                                 struct base_error *error);
BASE_NODISCARD enum base_status sim_people_load(const char *path, struct sim_people **out_people,
                                                struct base_error *error);
void sim_people_free(struct sim_people *people); // accepts NULL

// Values of a trait, in the order of the file.
uint32_t sim_people_count(const struct sim_people *people, enum sim_trait trait);
const struct sim_value *sim_people_value(const struct sim_people *people, enum sim_trait trait,
                                         uint32_t value);
// Values of the device with this index; SIM_TRAIT_ABSENT where it has none.
void sim_people_draw(const struct sim_people *people, uint64_t seed, uint64_t index,
                     uint8_t out_value[SIM_TRAIT_COUNT]);
// Hours later than UTC in a region, 0 to 23; 0 where the file does not say.
uint32_t sim_people_zone(const struct sim_people *people, uint32_t region);
// The class of a network; NULL: the file does not describe it.
const struct sim_network *sim_people_network(const struct sim_people *people, uint32_t network);

#endif
