// Ways to fail, counted: each (version, outcome, words) once, with the number of devices. The
// ledger adds a way when a run of a device fails for the first time; fleet_run.c merges the shards'
// tables after their threads have ended, and fleet_outcome.c and report/evidence_file.c ask for the
// most frequent one. A table belongs to one shard's thread. At most SIM_FAILURES_MAX ways are told
// apart, so finding one by walking is cheap enough.
#include "model/failures.h"

#include <string.h>

static void add(struct sim_failures *failures, const struct sim_failure *way)
{
    for (uint32_t i = 0; i < failures->count; i++) {
        struct sim_failure *known = &failures->items[i];
        if (known->version == way->version && known->outcome == way->outcome &&
            strcmp(known->detail, way->detail) == 0) {
            known->devices += way->devices;
            return;
        }
    }
    if (failures->count < SIM_FAILURES_MAX) {
        failures->items[failures->count++] = *way;
    }
}

void sim_failures_add(struct sim_failures *failures, uint8_t version,
                      enum wire_outcome_kind outcome, struct base_str detail)
{
    struct sim_failure way = {.devices = 1, .version = version, .outcome = (uint8_t)outcome};
    size_t size = detail.size < WIRE_EVIDENCE_DETAIL_MAX ? detail.size : WIRE_EVIDENCE_DETAIL_MAX;
    for (size_t i = 0; i < size; i++) {
        bool printable = detail.data[i] >= 0x20 && detail.data[i] <= 0x7e;
        way.detail[i] = printable ? detail.data[i] : '?';
    }
    add(failures, &way);
}

void sim_failures_merge(struct sim_failures *into, const struct sim_failures *from)
{
    for (uint32_t i = 0; i < from->count; i++) {
        add(into, &from->items[i]);
    }
}

const struct sim_failure *sim_failures_top(const struct sim_failures *failures, uint8_t version,
                                           enum wire_outcome_kind outcome)
{
    const struct sim_failure *top = NULL;
    for (uint32_t i = 0; i < failures->count; i++) {
        const struct sim_failure *one = &failures->items[i];
        bool is_of = one->version == version && one->outcome == (uint8_t)outcome;
        if (is_of && (top == NULL || one->devices > top->devices)) {
            top = one;
        }
    }
    return top;
}
