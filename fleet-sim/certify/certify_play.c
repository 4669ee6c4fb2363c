// Plays the runs of a certificate: each is `walle-fleet-sim run --virtual` in a process of its own,
// so that what is certified is the very program and the very gate that ship, and a run that dies
// takes no other with it. certify_main.c calls it. What a run came to is read from its run.json;
// its folder goes then, but for those that did not end as a run should.
#include "certify/certify.h"

#include "base/clock.h"
#include "model/ledger.h"
#include "model/sim_exit.h"
#include "swarm/child_run.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#define WORDS_MAX 40

struct job {
    struct sim_child child;
    uint32_t at; // of the result's runs
};

struct play {
    struct sim_certify_result *result;
    struct job jobs[SIM_CERTIFY_JOBS_MAX];
    uint32_t next; // run to begin
    uint32_t ended;
    FILE *log;
};

static void words_of(const struct sim_certify_result *result, uint32_t at, const char *folder,
                     char texts[6][32], const char *words[WORDS_MAX])
{
    const struct sim_certify_options *options = result->options;
    const char *rule = result->pack->cases[at / options->seeds].rule;
    uint32_t count = 0;
    (void)snprintf(texts[0], 32, "%u", options->devices);
    (void)snprintf(texts[1], 32, "%u", SIM_CERTIFY_SEED_FIRST + at % options->seeds);
    (void)snprintf(texts[2], 32, "%u", options->horizon_s);
    (void)snprintf(texts[3], 32, "%u", options->checkin_interval_s);
    (void)snprintf(texts[4], 32, "%.3f", options->arrival_rate);
    const char *const all[] = {
        "walle-fleet-sim",  "run",         "--virtual",       options->virtual_dir,
        "--root",           options->root, "--devices",       texts[0],
        "--seed",           texts[1],      "--duration",      texts[2],
        "--arrival-rate",   texts[4],      "--until-rollout", options->rollout,
        "--own-signatures", "--no-live",   "--out",           folder,
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        words[count++] = all[i];
    }
    if (options->checkin_interval_s > 0) {
        words[count++] = "--checkin-interval";
        words[count++] = texts[3];
    }
    if (rule[0] != '\0') {
        words[count++] = "--bad";
        words[count++] = rule;
        words[count++] = "--bad-version";
        words[count++] = options->version;
    }
    words[count] = NULL;
}

static enum base_status begin(struct play *play, struct job *job, struct base_error *error)
{
    char texts[6][32];
    const char *words[WORDS_MAX];
    job->at = play->next++;
    (void)snprintf(job->child.folder, sizeof(job->child.folder), "%s/run-%u",
                   play->result->options->out, job->at);
    words_of(play->result, job->at, job->child.folder, texts, words);
    return sim_child_begin(&job->child, words, error);
}

// Of the run's rollout, and of nothing else.
static enum base_status take_rollout(const json_t *root, const struct sim_certify_options *options,
                                     struct sim_certify_run *out, struct base_error *error)
{
    bool found = false;
    size_t index;
    const json_t *rollout;
    json_array_foreach(json_object_get(root, "rollouts"), index, rollout)
    {
        const char *own = json_string_value(json_object_get(rollout, "id"));
        const char *state = json_string_value(json_object_get(rollout, "state"));
        const char *version = json_string_value(json_object_get(rollout, "version"));
        if (own == NULL || state == NULL || version == NULL || strcmp(own, options->rollout) != 0) {
            continue;
        }
        if (strcmp(version, options->version) != 0) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "--version %.64s: rollout %s is of another one, %.64s",
                                  options->version, options->rollout, version);
        }
        if (json_is_true(json_object_get(rollout, "over_before"))) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "--rollout %s: it is over (%s), and its gate judges nothing more",
                                  options->rollout, state);
        }
        found = true;
        // Guarded until devices come that the folder knows of before: none of them does here.
        out->completed = strcmp(state, "completed") == 0 || strcmp(state, "guarding") == 0;
        (void)snprintf(out->state, sizeof(out->state), "%s", state);
        out->stopped = strcmp(state, "rolled_back") == 0 || strcmp(state, "rolling_back") == 0 ||
                       strcmp(state, "paused") == 0;
    }
    return found ? BASE_OK
                 : base_error_set(error, BASE_ERR_INVALID, "--rollout %s: no such rollout in %.80s",
                                  options->rollout, options->virtual_dir);
}

// The first moment at which the gate was seen to have acted.
static double stopped_s(const json_t *root)
{
    size_t index;
    const json_t *mark;
    json_array_foreach(json_object_get(root, "marks"), index, mark)
    {
        const char *text = json_string_value(json_object_get(mark, "text"));
        if (text != NULL &&
            (strstr(text, " rolling_back") != NULL || strstr(text, " rolled_back") != NULL ||
             strstr(text, " paused") != NULL)) {
            return json_number_value(json_object_get(mark, "t_s"));
        }
    }
    return 0;
}

enum base_status sim_certify_run_read(const json_t *report,
                                      const struct sim_certify_options *options, bool healthy,
                                      struct sim_certify_run *out, struct base_error *error)
{
    struct sim_certify_run run = {0};
    BASE_TRY(take_rollout(report, options, &run, error));
    run.ended_s = json_number_value(json_object_get(report, "duration_s"));
    run.stopped_s = run.stopped ? stopped_s(report) : 0;
    // A bad release that the gate let through stays where it came to: that is what is measured.
    const char *meant = !healthy && run.completed ? sim_oracle_name(SIM_ORACLE_BACK) : NULL;
    const char *broken = sim_report_broken(report, meant);
    (void)snprintf(run.broken, sizeof(run.broken), "%s", broken != NULL ? broken : "");
    run.good = broken == NULL && (run.stopped || run.completed);
    run.harmed = healthy ? 0 : (uint64_t)json_integer_value(json_object_get(report, "exposed"));
    *out = run;
    return BASE_OK;
}

static void text_take(const json_t *object, const char *key, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(object, key));
    (void)snprintf(out, capacity, "%s", text != NULL ? text : "");
}

// The first run that ends says what all of them are of.
static void about_take(const json_t *report, const struct sim_certify_options *options,
                       struct sim_certify_about *out)
{
    const json_t *about = json_object_get(report, "about");
    size_t index;
    const json_t *rollout;
    if (out->run.ended[0] != '\0') {
        return;
    }
    text_take(about, "began", out->run.began, sizeof(out->run.began));
    text_take(about, "ended", out->run.ended, sizeof(out->run.ended));
    text_take(about, "task", out->run.task, sizeof(out->run.task));
    text_take(about, "version", out->run.version, sizeof(out->run.version));
    text_take(about, "manifest", out->run.manifest, sizeof(out->run.manifest));
    text_take(about, "machine", out->run.machine, sizeof(out->run.machine));
    json_array_foreach(json_object_get(report, "rollouts"), index, rollout)
    {
        const char *id = json_string_value(json_object_get(rollout, "id"));
        if (id != NULL && strcmp(id, options->rollout) == 0) {
            text_take(rollout, "stages", out->stages, sizeof(out->stages));
        }
    }
}

static enum base_status read_run(const struct play *play, const struct job *job, int status,
                                 struct base_error *error)
{
    struct sim_certify_run *run = &play->result->runs[job->at];
    bool ended = WIFEXITED(status) && WEXITSTATUS(status) <= SIM_EXIT_FAILED;
    json_t *root = sim_child_report(&job->child); // none is left of an earlier run
    bool healthy = job->at < play->result->options->seeds;
    enum base_status taken =
        root != NULL ? sim_certify_run_read(root, play->result->options, healthy, run, error)
                     : BASE_OK;
    if (taken == BASE_OK && (!ended || root == NULL)) {
        char said[SIM_CHILD_SAID_MAX];
        sim_child_said(&job->child, said);
        taken = base_error_set(error, BASE_ERR_IO, "a run came to nothing: %.100s: see %s.log",
                               said, job->child.folder);
    }
    if (taken != BASE_OK) {
        json_decref(root);
        return taken;
    }
    about_take(root, play->result->options, &play->result->about);
    json_decref(root);
    return BASE_OK;
}

static enum base_status take_ended(struct play *play, pid_t pid, int status,
                                   struct base_error *error)
{
    uint32_t total = play->result->pack->count * play->result->options->seeds;
    for (uint32_t i = 0; i < play->result->options->jobs; i++) {
        struct job *job = &play->jobs[i];
        if (job->child.pid == pid) {
            job->child.pid = 0;
            BASE_TRY(read_run(play, job, status, error));
            if (play->result->runs[job->at].good) {
                sim_child_remove(&job->child);
            }
            play->ended++;
            if (play->ended % play->result->options->seeds == 0) {
                (void)fprintf(play->log, "%u of %u runs\n", play->ended, total);
                (void)fflush(play->log);
            }
        }
    }
    return BASE_OK;
}

static void stop_all(struct play *play)
{
    for (uint32_t i = 0; i < play->result->options->jobs; i++) {
        sim_child_stop(&play->jobs[i].child);
    }
}

static enum base_status play_all(struct play *play, const volatile int *interrupted,
                                 struct base_error *error)
{
    uint32_t total = play->result->pack->count * play->result->options->seeds;
    while (play->ended < total) {
        for (uint32_t i = 0; i < play->result->options->jobs && play->next < total; i++) {
            if (play->jobs[i].child.pid == 0) {
                BASE_TRY(begin(play, &play->jobs[i], error));
            }
        }
        int status = 0;
        pid_t pid = waitpid(-1, &status, 0);
        if (*interrupted != 0) {
            return base_error_set(error, BASE_ERR_CLOSED, "interrupted: nothing is certified");
        }
        if (pid > 0) {
            BASE_TRY(take_ended(play, pid, status, error));
        } else if (errno != EINTR) {
            return base_error_set(error, BASE_ERR_IO, "waiting for a run: %s", strerror(errno));
        }
    }
    return BASE_OK;
}

enum base_status sim_certify_play(struct sim_certify_result *result,
                                  const volatile int *interrupted, FILE *log,
                                  struct base_error *error)
{
    struct play play = {.result = result, .log = log};
    uint64_t begin_us = base_clock_mono_us();
    enum base_status status = play_all(&play, interrupted, error);
    stop_all(&play);
    result->took_s = (double)(base_clock_mono_us() - begin_us) / 1e6;
    return status;
}
