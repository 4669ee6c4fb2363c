// Plays the seeds of a swarm, so many at once, each as a run of its own. swarm_main.c calls it on
// the main thread. What came of a seed is read from its run.json. The folder of a seed that held
// goes; that of one that failed stays.
#include "swarm/swarm.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/os/output_file.h"
#include "model/ledger.h"
#include "model/population.h"
#include "model/sim_exit.h"
#include "base/os/folder.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

// Of so many seeds one goes on to its last second, for what goes wrong long after all was well, and
// verifies all that anybody signed.
#define WHOLE_EVERY 16

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
    uint32_t next;
    uint32_t ended;
    uint32_t failed;
    uint32_t nothing; // of `ended`: broke nothing, for no release reached devices
    bool over;        // the rollout was over before: no seed tries its gate
    uint32_t compared[SIM_ORACLE_COUNT]; // seeds in which each invariant compared something
    int exit;                            // of a run that showed nothing, or could not be played
    json_t *runs;
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
    (void)json_array_append_new(
        swarm->runs, json_pack("{s:I, s:i, s:s?, s:s?, s:o, s:s?}", "seed", (json_int_t)at->seed,
                               "exit", end->exit, "broken", broken, "nothing_because", nothing,
                               "faults", faults, "repeat", told ? line : NULL));
}

static void tell_progress(const struct swarm *swarm)
{
    uint32_t tenth = swarm->options->seeds / 10 > 0 ? swarm->options->seeds / 10 : 1;
    if (swarm->ended % tenth == 0 || swarm->ended == swarm->options->seeds) {
        (void)fprintf(swarm->log, "%u of %u seeds, %u failed", swarm->ended, swarm->options->seeds,
                      swarm->failed);
        if (swarm->nothing > 0) {
            (void)fprintf(swarm->log, ", %u tried nothing", swarm->nothing);
        }
        (void)fprintf(swarm->log, "\n");
    }
    (void)fflush(swarm->log);
}

// What one came to, by its line where there is something to look at.
static void tell_end(struct swarm *swarm, struct job *job, const struct sim_case_end *end,
                     const char *line)
{
    unsigned long long seed = job->seed;
    swarm->ended++;
    if (end->broken[0] != '\0') {
        swarm->failed++;
        (void)fprintf(swarm->log, "seed %llu FAILED: %s\n  %s\n", seed, end->broken, line);
        return;
    }
    if (end->nothing) {
        swarm->nothing++;
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
        swarm->compared[i] += end.compared >> i & 1u;
    }
    note(swarm, &at, &end, line);
    tell_end(swarm, job, &end, line);
    tell_progress(swarm);
    return BASE_OK;
}

// Was every rollout over before the run?
static bool is_over(const struct sim_child *child)
{
    size_t index;
    const json_t *rollout;
    json_t *report = sim_child_report(child);
    json_t *rollouts = json_object_get(report, "rollouts");
    bool over = json_array_size(rollouts) > 0;
    json_array_foreach(rollouts, index, rollout)
    {
        over = over && json_is_true(json_object_get(rollout, "over_before"));
    }
    json_decref(report);
    return over;
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
    swarm->over = is_over(child);
    if (swarm->over) {
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
                      swarm->compared[i]);
    }
    (void)fprintf(swarm->log, "\n");
    (void)fflush(swarm->log);
}

static enum base_status play_all(struct swarm *swarm, const volatile int *interrupted,
                                 struct base_error *error)
{
    const struct sim_swarm_options *options = swarm->options;
    while (swarm->ended < options->seeds) {
        for (uint32_t i = 0; i < options->jobs && swarm->next < options->seeds; i++) {
            if (swarm->jobs[i].child.pid == 0) {
                BASE_TRY(begin(swarm, &swarm->jobs[i], error));
            }
        }
        int status = 0;
        pid_t pid = waitpid(-1, &status, 0);
        if (*interrupted != 0) {
            return base_error_set(error, BASE_ERR_CLOSED, "interrupted after %u of %u seeds",
                                  swarm->ended, options->seeds);
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

static enum base_status report(const struct swarm *swarm, double took_s, struct base_error *error)
{
    char path[SIM_TEXT_MAX + 16];
    struct base_output_file file;
    (void)snprintf(path, sizeof(path), "%s/swarm.json", swarm->options->out);
    json_t *compared = json_object();
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        (void)json_object_set_new(compared, sim_oracle_name((enum sim_oracle)i),
                                  json_integer(swarm->compared[i]));
    }
    json_t *root =
        json_pack("{s:i, s:i, s:i, s:i, s:b, s:f, s:o, s:O}", "devices",
                  (int)swarm->options->devices, "seeds", (int)swarm->ended, "failed",
                  (int)swarm->failed, "nothing", (int)swarm->nothing, "over_before",
                  (int)swarm->over, "took_s", took_s, "compared", compared, "runs", swarm->runs);
    enum base_status status = base_output_open(&file, path, error);
    if (status == BASE_OK) {
        status = root != NULL && json_dumpf(root, file.file, JSON_INDENT(1)) == 0 ? BASE_OK
                                                                                  : BASE_ERR_IO;
        status = base_output_close(&file, status, error);
    }
    json_decref(root);
    return status;
}

enum base_status sim_swarm_play(const struct sim_swarm_options *options,
                                const volatile int *interrupted, FILE *log, int *out_exit,
                                struct base_error *error)
{
    static struct swarm swarm;
    uint64_t begin_us = base_clock_mono_us();
    swarm = (struct swarm){
        .options = options, .log = log, .exit = SIM_EXIT_LOCAL, .runs = json_array()};
    BASE_TRY(base_folder_make(options->out, error));
    enum base_status status = play_clean(&swarm, interrupted, error);
    if (status == BASE_OK) {
        status = play_all(&swarm, interrupted, error);
    }
    for (uint32_t i = 0; i < options->jobs; i++) {
        sim_child_stop(&swarm.jobs[i].child);
    }
    if (status == BASE_OK) {
        status = report(&swarm, (double)(base_clock_mono_us() - begin_us) / 1e6, error);
        tell_compared(&swarm);
    }
    *out_exit = swarm.exit;
    json_decref(swarm.runs);
    if (status == BASE_OK && swarm.nothing == options->seeds) {
        status = base_error_set(error, BASE_ERR_INVALID, "no seed tried anything");
    }
    if (status == BASE_OK && swarm.failed > 0) {
        status = base_error_set(error, BASE_ERR_CONFLICT, "%u of %u seeds failed", swarm.failed,
                                options->seeds);
    }
    return status;
}
