// Plays the seeds of a swarm, so many at once, each as a run of its own. swarm_main.c calls it on
// the main thread. What came of a seed is read from its run.json. The folder of a seed that held
// goes; that of one that failed stays.
#include "swarm/swarm_kept.h"

#include "base/check.h"
#include "base/clock.h"
#include "model/population.h"
#include "model/sim_exit.h"
#include "base/os/folder.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

// Of so many seeds one goes on to its last second, for what goes wrong long after all was well, and
// verifies all that anybody signed.
#define WHOLE_EVERY 16

#define TOLD_US 60000000 // progress, at least so often

// So bad that the gate sees it in any sample: a gate that lets a milder one pass breaks nothing.
static const char *const bad_rules[] = {"all => exception @ 95%", "all => crash @ 95%",
                                        "all => wrong @ 95%"};

struct job {
    struct sim_child child;
    uint64_t seed;
};

struct swarm {
    const struct sim_swarm_options *options;
    struct job jobs[SIM_SWARM_JOBS_MAX];
    struct sim_swarm_kept kept;
    bool done[SIM_SWARM_SEEDS_MAX]; // from the first seed on: it ended before
    uint32_t next;                  // behind the last one that began
    uint32_t resumed;               // of `kept.ended`: before this swarm
    double took_s;                  // of `kept.took_s`: likewise
    uint64_t begin_us;              // of the first seed
    uint64_t told_us;               // when its progress was told last
    int exit;                       // of a run that showed nothing, or could not be played
    FILE *log;
};

static void fixed(struct sim_case *at, const char *option, const char *value)
{
    base_check(at->fixed_count + 2 <= SIM_CASE_FIXED_MAX);
    at->fixed[at->fixed_count++] = option;
    at->fixed[at->fixed_count++] = value;
}

static void fixed_switch(struct sim_case *at, const char *option)
{
    base_check(at->fixed_count < SIM_CASE_FIXED_MAX);
    at->fixed[at->fixed_count++] = option;
}

static void begun(const struct sim_swarm_options *options, struct sim_case *out)
{
    *out = (struct sim_case){.devices = options->devices,
                             .duration_s = options->duration_s,
                             .until_s = options->until_s};
    fixed(out, "--virtual", options->virtual_dir);
    fixed(out, "--root", options->root);
    fixed(out, "--arrival-rate", options->rate);
}

void sim_swarm_clean(const struct sim_swarm_options *options, struct sim_case *out)
{
    begun(options, out);
    out->seed = options->first_seed;
    out->until_s = 0;
    if (options->version[0] != '\0') {
        fixed(out, "--bad", bad_rules[0]);
        fixed(out, "--bad-version", options->version);
    }
}

void sim_swarm_case(const struct sim_swarm_options *options, uint64_t seed, struct sim_case *out)
{
    begun(options, out);
    sim_swarm_draw(seed, out);
    if (sim_draw(seed, 1, SIM_STREAM_SWARM_BAD) % WHOLE_EVERY != 0) {
        fixed_switch(out, "--until-rest");
        fixed_switch(out, "--own-signatures");
    }
    uint64_t draw = sim_draw(seed, 0, SIM_STREAM_SWARM_BAD);
    if (options->version[0] != '\0' && draw % 3 == 0) {
        size_t count = sizeof(bad_rules) / sizeof(bad_rules[0]);
        fixed(out, "--bad", bad_rules[(draw >> 8) % count]);
        fixed(out, "--bad-version", options->version);
    }
}

static enum base_status begin(struct swarm *swarm, struct job *job, struct base_error *error)
{
    struct sim_case at;
    base_assert(!swarm->done[swarm->next]);
    job->seed = (uint64_t)swarm->options->first_seed + swarm->next++;
    (void)snprintf(job->child.folder, sizeof(job->child.folder), "%s/seed-%llu",
                   swarm->options->out, (unsigned long long)job->seed);
    sim_swarm_case(swarm->options, job->seed, &at);
    return sim_case_begin(&at, &job->child, error);
}

static void note(struct swarm *swarm, const struct sim_case *at, const struct sim_case_end *end,
                 const char *line)
{
    json_t *faults = json_array();
    for (uint32_t i = 0; i < at->fault_count; i++) {
        (void)json_array_append_new(faults, json_string(at->faults[i]));
    }
    const char *broken = end->broken[0] != '\0' ? end->broken : NULL;
    const char *nothing = end->nothing && broken == NULL ? end->said : NULL;
    bool told = broken != NULL || nothing != NULL;
    (void)json_array_append_new(swarm->kept.runs,
                                json_pack("{s:I, s:i, s:s?, s:s?, s:o, s:s?}", "seed",
                                          (json_int_t)at->seed, "exit", end->exit, "broken", broken,
                                          "nothing_because", nothing, "faults", faults, "repeat",
                                          told ? line : NULL));
}

static double since_s(uint64_t from_us)
{
    return (double)(base_clock_mono_us() - from_us) / 1e6;
}

// Writes what there is: who is killed loses what came since.
static enum base_status keep(struct swarm *swarm, struct base_error *error)
{
    swarm->kept.took_s = swarm->took_s + since_s(swarm->begin_us);
    return sim_swarm_kept_write(swarm->options, &swarm->kept, error);
}

static void tell_so_far(const struct swarm *swarm)
{
    char pace[SIM_SWARM_PACE_MAX];
    const struct sim_swarm_kept *kept = &swarm->kept;
    sim_swarm_pace(kept->ended - swarm->resumed, swarm->options->seeds - kept->ended,
                   since_s(swarm->begin_us), pace);
    (void)fprintf(swarm->log, "%u of %u seeds, %u failed", kept->ended, swarm->options->seeds,
                  kept->failed);
    if (kept->nothing > 0) {
        (void)fprintf(swarm->log, ", %u tried nothing", kept->nothing);
    }
    (void)fprintf(swarm->log, "%s\n", pace);
}

static enum base_status tell_progress(struct swarm *swarm, struct base_error *error)
{
    uint32_t tenth = swarm->options->seeds / 10 > 0 ? swarm->options->seeds / 10 : 1;
    uint64_t now_us = base_clock_mono_us();
    bool last = swarm->kept.ended == swarm->options->seeds;
    bool due = swarm->kept.ended % tenth == 0 || now_us >= swarm->told_us + TOLD_US;
    if (due || last) {
        tell_so_far(swarm);
        swarm->told_us = now_us;
    }
    (void)fflush(swarm->log);
    return due && !last ? keep(swarm, error) : BASE_OK;
}

// What one came to, by its line where there is something to look at.
static void tell_end(struct swarm *swarm, struct job *job, const struct sim_case_end *end,
                     const char *line)
{
    unsigned long long seed = job->seed;
    swarm->kept.ended++;
    if (end->broken[0] != '\0') {
        swarm->kept.failed++;
        (void)fprintf(swarm->log, "seed %llu FAILED: %s%s%s\n  %s\n", seed, end->broken,
                      end->device[0] != '\0' ? ", as on device " : "", end->device, line);
        return;
    }
    if (end->nothing) {
        swarm->kept.nothing++;
        swarm->exit = end->exit;
        (void)fprintf(swarm->log, "seed %llu tried NOTHING: %s\n  %s\n", seed, end->said, line);
    }
    sim_child_remove(&job->child);
}

static enum base_status showed_nothing(struct swarm *swarm, const struct sim_case_end *end,
                                       const char *which, struct base_error *error)
{
    bool died = end->exit < 0;
    swarm->exit = died ? SIM_EXIT_LOCAL : end->exit;
    (void)fprintf(swarm->log, "%s: %s\n", which, end->said); // whole: an error has less room
    return base_error_set(error, BASE_ERR_INVALID, "%s %s: nothing is shown, see %.64s%s", which,
                          died ? "was ended by a signal" : "came to nothing", swarm->options->out,
                          end->exit == SIM_EXIT_NOBODY_ONLINE
                              ? " (seeds whose devices are not in that folder: --first-seed)"
                              : "");
}

// INVALID: it could not be played, which no fault brings about.
static enum base_status take_ended(struct swarm *swarm, struct job *job, int status,
                                   struct base_error *error)
{
    struct sim_case at;
    struct sim_case_end end;
    char line[SIM_CASE_TEXT_MAX];
    job->child.pid = 0;
    sim_swarm_case(swarm->options, job->seed, &at);
    sim_case_text(&at, line);
    sim_case_read(&job->child, status, &end);
    if (end.could_not) {
        char which[32];
        (void)snprintf(which, sizeof(which), "seed %llu", (unsigned long long)job->seed);
        return showed_nothing(swarm, &end, which, error);
    }
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        swarm->kept.compared[i] += end.compared >> i & 1u;
    }
    note(swarm, &at, &end, line);
    tell_end(swarm, job, &end, line);
    return tell_progress(swarm, error);
}

// Was every rollout over before the run?
static bool is_over(const json_t *report)
{
    size_t index;
    const json_t *rollout;
    const json_t *rollouts = json_object_get(report, "rollouts");
    bool over = json_array_size(rollouts) > 0;
    json_array_foreach(rollouts, index, rollout)
    {
        over = over && json_is_true(json_object_get(rollout, "over_before"));
    }
    return over;
}

// What the seeds have of the run without faults.
static void clean_read(const struct sim_child *child, struct sim_swarm_kept *out)
{
    json_t *report = sim_child_report(child);
    const char *digest =
        json_string_value(json_object_get(json_object_get(report, "virtual"), "digest"));
    out->over = is_over(report);
    (void)snprintf(out->clean, sizeof(out->clean), "%s", digest != NULL ? digest : "");
    json_decref(report);
}

// What held says nothing where nothing was there to hold: without a fault, a release has to reach
// devices.
static enum base_status play_clean(struct swarm *swarm, const volatile int *interrupted,
                                   struct base_error *error)
{
    struct sim_case at;
    struct sim_case_end end;
    struct sim_child *child = &swarm->jobs[0].child;
    int status = 0;
    (void)snprintf(child->folder, sizeof(child->folder), "%s/clean", swarm->options->out);
    sim_swarm_clean(swarm->options, &at);
    BASE_TRY(sim_case_begin(&at, child, error));
    while (waitpid(child->pid, &status, 0) < 0 && *interrupted == 0) {
        if (errno != EINTR) {
            return base_error_set(error, BASE_ERR_IO, "waiting for a run: %s", strerror(errno));
        }
    }
    if (*interrupted != 0) {
        return base_error_set(error, BASE_ERR_CLOSED, "interrupted before the first seed");
    }
    child->pid = 0;
    sim_case_read(child, status, &end);
    if (end.exit != SIM_EXIT_OK) {
        return showed_nothing(swarm, &end, "the run without faults", error);
    }
    clean_read(child, &swarm->kept);
    if (swarm->kept.over) {
        (void)fprintf(swarm->log, "the rollout was over before these runs: they try devices and "
                                  "transport, and no gate\n");
        (void)fflush(swarm->log);
    }
    sim_child_remove(child);
    return BASE_OK;
}

static void tell_compared(const struct swarm *swarm)
{
    (void)fprintf(swarm->log, "seeds in which each invariant compared something:");
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        (void)fprintf(swarm->log, "%s %s %u", i > 0 ? "," : "", sim_oracle_name((enum sim_oracle)i),
                      swarm->kept.compared[i]);
    }
    (void)fprintf(swarm->log, "\n");
    (void)fflush(swarm->log);
}

static enum base_status interrupted_after(const struct swarm *swarm, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_CLOSED,
                          "interrupted after %u of %u seeds: --resume goes on", swarm->kept.ended,
                          swarm->options->seeds);
}

// Gives every idle job a seed that did not end before, while there is one.
static enum base_status begin_all(struct swarm *swarm, struct base_error *error)
{
    const struct sim_swarm_options *options = swarm->options;
    for (uint32_t i = 0; i < options->jobs; i++) {
        while (swarm->next < options->seeds && swarm->done[swarm->next]) {
            swarm->next++;
        }
        if (swarm->next < options->seeds && swarm->jobs[i].child.pid == 0) {
            BASE_TRY(begin(swarm, &swarm->jobs[i], error));
        }
    }
    return BASE_OK;
}

static enum base_status play_all(struct swarm *swarm, const volatile int *interrupted,
                                 struct base_error *error)
{
    const struct sim_swarm_options *options = swarm->options;
    while (swarm->kept.ended < options->seeds) {
        BASE_TRY(begin_all(swarm, error));
        int status = 0;
        pid_t pid = waitpid(-1, &status, 0);
        if (*interrupted != 0) {
            return interrupted_after(swarm, error);
        }
        if (pid < 0 && errno != EINTR) {
            return base_error_set(error, BASE_ERR_IO, "waiting for a run: %s", strerror(errno));
        }
        for (uint32_t i = 0; i < options->jobs && pid > 0; i++) {
            if (swarm->jobs[i].child.pid == pid) {
                BASE_TRY(take_ended(swarm, &swarm->jobs[i], status, error));
            }
        }
    }
    return BASE_OK;
}

// Seeds that ended in a swarm before this one.
static enum base_status resume(struct swarm *swarm, struct base_error *error)
{
    struct sim_swarm_kept *kept = &swarm->kept;
    if (!swarm->options->resume) {
        return BASE_OK;
    }
    BASE_TRY(sim_swarm_kept_read(swarm->options, kept, swarm->done, error));
    swarm->resumed = kept->ended;
    swarm->took_s = kept->took_s;
    swarm->exit = kept->nothing > 0 ? kept->nothing_exit : swarm->exit;
    (void)fprintf(swarm->log, "%u of %u seeds were played before\n", kept->ended,
                  swarm->options->seeds);
    (void)fflush(swarm->log);
    return BASE_OK;
}

// The run without faults, what was there, all other seeds, and what came of them.
static enum base_status play(struct swarm *swarm, const volatile int *interrupted,
                             struct base_error *error)
{
    struct base_error unkept = {.status = BASE_OK};
    BASE_TRY(base_folder_make(swarm->options->out, error));
    enum base_status status = play_clean(swarm, interrupted, error);
    if (status == BASE_OK) {
        status = resume(swarm, error);
    }
    swarm->begin_us = base_clock_mono_us();
    swarm->told_us = swarm->begin_us;
    if (status == BASE_OK) {
        status = play_all(swarm, interrupted, error);
        for (uint32_t i = 0; i < swarm->options->jobs; i++) {
            sim_child_stop(&swarm->jobs[i].child);
        }
        if (status == BASE_OK) {
            status = keep(swarm, error);
        } else if (keep(swarm, &unkept) != BASE_OK) {
            (void)fprintf(swarm->log, "%s\n", unkept.text);
        }
    }
    sim_child_stop(&swarm->jobs[0].child); // the run without faults
    return status;
}

enum base_status sim_swarm_play(const struct sim_swarm_options *options,
                                const volatile int *interrupted, FILE *log, int *out_exit,
                                struct base_error *error)
{
    static struct swarm swarm;
    const struct sim_swarm_kept *kept = &swarm.kept;
    memset(&swarm, 0, sizeof(swarm));
    swarm.options = options;
    swarm.log = log;
    swarm.exit = SIM_EXIT_LOCAL;
    swarm.kept.runs = json_array();
    enum base_status status = play(&swarm, interrupted, error);
    if (status == BASE_OK) {
        tell_compared(&swarm);
    }
    *out_exit = swarm.exit;
    json_decref(swarm.kept.runs);
    if (status == BASE_OK && kept->nothing == options->seeds) {
        status = base_error_set(error, BASE_ERR_INVALID, "no seed tried anything");
    }
    if (status == BASE_OK && kept->failed > 0) {
        status = base_error_set(error, BASE_ERR_CONFLICT, "%u of %u seeds failed", kept->failed,
                                options->seeds);
    }
    return status;
}
