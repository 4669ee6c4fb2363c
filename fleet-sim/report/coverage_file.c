// The coverage curves of a run, exact to a twentieth of a second: timeline.csv has what the shards
// had published when the coordinator looked, which is up to a second old; here is what each
// device's ledger entry says. Called by fleet_run.c on the coordinator's thread, after the shards'
// threads have ended. Two runs are compared by these curves (compare/conform_main.c).
//
// Rows are `manifest,stage,t_s,devices`: so many had come so far before t_s. A moment in which
// nobody did has no row.
#include "report/run_result.h"

#include "base/check.h"

#include <stdlib.h>

#define BIN_MS   50u
#define BINS_MAX 40000u // of a curve; a longer run has wider bins

enum stage { STAGE_OFFERED, STAGE_DOWNLOADED, STAGE_ACTIVATED, STAGE_RAN, STAGE_COUNT };

static const char *const stage_names[STAGE_COUNT] = {"offered", "downloaded", "activated", "ran"};

struct curves {
    uint32_t bin_ms;
    uint32_t bins;
    uint32_t *counts[SIM_VERSIONS_MAX]; // STAGE_COUNT rows of `bins`; NULL: nobody was offered it
};

// 0: not yet.
static void moments(const struct sim_ledger *ledger, uint32_t device, uint32_t out_ms[STAGE_COUNT])
{
    const struct sim_ledger_times times = sim_ledger_times(ledger, device);
    out_ms[STAGE_OFFERED] = times.offered_ms > 0 ? times.offered_ms : 1;
    out_ms[STAGE_DOWNLOADED] = times.downloaded_ms;
    out_ms[STAGE_ACTIVATED] = times.activated_ms;
    out_ms[STAGE_RAN] = times.ran_ms;
}

static uint32_t last_moment(const struct sim_run_result *result)
{
    uint32_t last_ms = 0;
    for (uint32_t s = 0; s < result->ledger_count; s++) {
        const struct sim_ledger *ledger = result->ledgers[s];
        for (uint32_t i = 0; i < ledger->count; i++) {
            uint32_t at_ms[STAGE_COUNT];
            moments(ledger, i, at_ms);
            for (uint32_t stage = 0; stage < STAGE_COUNT; stage++) {
                last_ms = at_ms[stage] > last_ms ? at_ms[stage] : last_ms;
            }
        }
    }
    return last_ms;
}

static bool entry_count(struct curves *curves, const struct sim_ledger *ledger, uint32_t device)
{
    const struct sim_ledger_entry *entry = &ledger->entries[device];
    uint32_t **counts = &curves->counts[entry->offered];
    uint32_t at_ms[STAGE_COUNT];
    base_assert(entry->offered < SIM_VERSIONS_MAX);
    if (entry->offered == SIM_VERSION_NONE) {
        return true;
    }
    if (*counts == NULL) {
        *counts = calloc((size_t)curves->bins * STAGE_COUNT, sizeof(uint32_t));
    }
    moments(ledger, device, at_ms);
    for (uint32_t stage = 0; *counts != NULL && stage < STAGE_COUNT; stage++) {
        if (at_ms[stage] > 0) {
            (*counts)[stage * curves->bins + at_ms[stage] / curves->bin_ms]++;
        }
    }
    return *counts != NULL;
}

static void curve_write(const struct curves *curves, uint8_t version, const char *manifest,
                        FILE *file)
{
    for (uint32_t stage = 0; stage < STAGE_COUNT; stage++) {
        const uint32_t *counts = curves->counts[version] + (size_t)stage * curves->bins;
        uint64_t sum = 0;
        for (uint32_t b = 0; b < curves->bins; b++) {
            sum += counts[b];
            if (counts[b] > 0) {
                (void)fprintf(file, "%s,%s,%.3f,%llu\n", manifest, stage_names[stage],
                              (double)(b + 1) * curves->bin_ms / 1000, (unsigned long long)sum);
            }
        }
    }
}

static void write_all(const struct curves *curves, struct sim_versions *versions, FILE *file)
{
    for (uint32_t v = 1; v < SIM_VERSIONS_MAX; v++) {
        if (curves->counts[v] != NULL) {
            struct sim_version version = sim_versions_get(versions, (uint8_t)v);
            char manifest[WIRE_SHA256_HEX + 1];
            wire_sha256_hex(&version.manifest, manifest);
            curve_write(curves, (uint8_t)v, manifest, file);
        }
    }
}

enum base_status sim_coverage_write(const struct sim_run_result *result, FILE *file)
{
    uint32_t last_ms = last_moment(result);
    struct curves curves = {.bin_ms = BIN_MS};
    bool room = true;
    if (last_ms / BIN_MS >= BINS_MAX) {
        curves.bin_ms = last_ms / BINS_MAX + 1;
    }
    curves.bins = last_ms / curves.bin_ms + 1;
    base_assert(curves.bins <= BINS_MAX);
    for (uint32_t s = 0; s < result->ledger_count; s++) {
        const struct sim_ledger *ledger = result->ledgers[s];
        for (uint32_t i = 0; i < ledger->count && room; i++) {
            room = entry_count(&curves, ledger, i);
        }
    }
    (void)fputs("manifest,stage,t_s,devices\n", file);
    if (room) {
        write_all(&curves, result->versions, file);
    }
    for (uint32_t v = 0; v < SIM_VERSIONS_MAX; v++) {
        free(curves.counts[v]);
    }
    return !room ? BASE_ERR_NOMEM : ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}
