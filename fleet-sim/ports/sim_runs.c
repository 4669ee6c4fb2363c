// Ends of runs by their version. Called by sim_task.c around a run, on the shard's thread. A
// version has one place, by its first bytes: another one there takes it over. The result lies in
// memory of its own; all else is copied. Durations are kept as they were: in virtual time each
// device's is drawn.
#include "ports/sim_runs.h"

#include "base/check.h"

#include <string.h>

static struct sim_kept_run *place(struct sim_runs *runs, const struct wire_sha256 *version)
{
    uint64_t first = 0;
    memcpy(&first, version->bytes, sizeof(first));
    return &runs->items[first % SIM_RUNS_MAX];
}

static struct sim_kept_run *find(struct sim_runs *runs, const struct wire_sha256 *version)
{
    struct sim_kept_run *run = place(runs, version);
    return run->kept && wire_sha256_equal(&run->version, version) ? run : NULL;
}

void sim_runs_init(struct sim_runs *runs, const struct base_alloc_port *alloc)
{
    memset(runs, 0, sizeof(*runs));
    runs->alloc = alloc;
}

static void forget(struct sim_runs *runs, struct sim_kept_run *run)
{
    if (run->kept) {
        runs->alloc->release(runs->alloc->ctx, run->result);
    }
    *run = (struct sim_kept_run){0};
}

void sim_runs_done(struct sim_runs *runs)
{
    for (uint32_t i = 0; i < SIM_RUNS_MAX; i++) {
        forget(runs, &runs->items[i]);
    }
}

bool sim_runs_share(struct sim_runs *runs, const struct wire_sha256 *version,
                    struct sim_task_end *out)
{
    const struct sim_kept_run *run = find(runs, version);
    if (run == NULL) {
        return false;
    }
    runs->shared++;
    *out = run->end;
    out->end.detail = base_str_of(out->detail);
    return true;
}

static bool may_be_shared(const struct dev_task_end *end)
{
    return end->outcome != WIRE_OUTCOME_FAIL_TIMEOUT && end->effect_count == 0;
}

void sim_runs_keep(struct sim_runs *runs, const struct wire_sha256 *version,
                   const struct sim_task_end *end)
{
    struct sim_kept_run *run = place(runs, version);
    base_assert(find(runs, version) == NULL);
    if (!may_be_shared(&end->end)) {
        return;
    }
    char *result = runs->alloc->alloc(runs->alloc->ctx, end->end.result.size + 1);
    if (result == NULL) {
        return;
    }
    if (end->end.result.size > 0) {
        memcpy(result, end->end.result.data, end->end.result.size);
    }
    forget(runs, run);
    *run = (struct sim_kept_run){.kept = true, .version = *version, .end = *end, .result = result};
    run->end.end.result.data = result;
    run->end.end.effects = NULL;
}

void sim_runs_compare(struct sim_runs *runs, const struct wire_sha256 *version,
                      const struct sim_task_end *end)
{
    const struct sim_kept_run *run = find(runs, version);
    if (run == NULL || end->end.outcome == WIRE_OUTCOME_FAIL_TIMEOUT) {
        return; // the host was slow, say
    }
    bool same = run->end.end.outcome == end->end.outcome && end->end.effect_count == 0 &&
                base_str_equal(run->end.end.result, end->end.result) &&
                strcmp(run->end.detail, end->detail) == 0 &&
                run->end.end.fingerprint == end->end.fingerprint &&
                run->end.end.left_out == end->end.left_out &&
                run->end.end.refused == end->end.refused;
    runs->compared++;
    runs->mismatches += !same;
}
