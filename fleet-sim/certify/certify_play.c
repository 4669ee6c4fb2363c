// Plays the runs of a certificate: each is `walle-fleet-sim run --virtual` in a process of its own,
// so that what is certified is the very program and the very gate that ship, and a run that dies
// takes no other with it. certify_main.c calls it. What a run came to is read from its run.json;
// its folder goes then, but for those that did not end as a run should.
#include "certify/certify.h"

#include "base/clock.h"
#include "model/sim_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 40

extern char **environ;

struct job {
    pid_t pid;   // 0: none
    uint32_t at; // of the result's runs
    char folder[SIM_TEXT_MAX + 32];
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
    (void)snprintf(texts[1], 32, "%u", 1 + at % options->seeds);
    (void)snprintf(texts[2], 32, "%u", options->horizon_s);
    (void)snprintf(texts[3], 32, "%u", options->checkin_interval_s);
    (void)snprintf(texts[4], 32, "%.3f", options->arrival_rate);
    const char *const all[] = {
        "walle-fleet-sim",
        "run",
        "--virtual",
        options->virtual_dir,
        "--root",
        options->root,
        "--devices",
        texts[0],
        "--seed",
        texts[1],
        "--duration",
        texts[2],
        "--arrival-rate",
        texts[4],
        "--until-rollout",
        options->rollout,
        "--no-live",
        "--out",
        folder,
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

static void remove_run(const struct job *job)
{
    static const char *const files[] = {"run.json",    "report.html",  "timeline.csv",
                                        "latency.csv", "coverage.csv", "repro.txt",
                                        "digest.bin",  "arguments.bin"};
    char path[SIM_TEXT_MAX + 64];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", job->folder, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(job->folder);
    (void)snprintf(path, sizeof(path), "%s.log", job->folder);
    (void)unlink(path);
}

static enum base_status begin(struct play *play, struct job *job, struct base_error *error)
{
    char texts[6][32];
    const char *words[WORDS_MAX];
    char log[SIM_TEXT_MAX + 48];
    posix_spawn_file_actions_t actions;
    job->at = play->next++;
    (void)snprintf(job->folder, sizeof(job->folder), "%s/run-%u", play->result->options->out,
                   job->at);
    (void)snprintf(log, sizeof(log), "%s.log", job->folder);
    words_of(play->result, job->at, job->folder, texts, words);
    remove_run(job); // of another certificate
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log,
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0666);
    }
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    }
    if (failed == 0) {
        failed = posix_spawn(&job->pid, "/proc/self/exe", &actions, NULL,
                             (char *const *)(uintptr_t)words, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        job->pid = 0;
        return base_error_set(error, BASE_ERR_IO, "a run cannot be started: %s", strerror(failed));
    }
    return BASE_OK;
}

// Of the run's rollout, and of nothing else. False: it releases another version.
static bool take_rollout(const json_t *root, const struct sim_certify_options *options,
                         struct sim_certify_run *out)
{
    bool is_version = true;
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
        is_version = strcmp(version, options->version) == 0;
        out->completed = strcmp(state, "completed") == 0;
        out->stopped = strcmp(state, "rolled_back") == 0 || strcmp(state, "rolling_back") == 0 ||
                       strcmp(state, "paused") == 0;
    }
    return is_version;
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

static bool oracles_hold(const json_t *root)
{
    size_t index;
    const json_t *oracle;
    bool hold = true;
    json_array_foreach(json_object_get(root, "oracles"), index, oracle)
    {
        hold = hold && json_is_true(json_object_get(oracle, "holds"));
    }
    return hold;
}

static enum base_status read_run(const struct play *play, const struct job *job, int status,
                                 struct base_error *error)
{
    char path[SIM_TEXT_MAX + 48];
    json_error_t why;
    struct sim_certify_run *run = &play->result->runs[job->at];
    (void)snprintf(path, sizeof(path), "%s/run.json", job->folder);
    bool ended = WIFEXITED(status) && WEXITSTATUS(status) <= SIM_EXIT_FAILED;
    json_t *root = ended ? json_load_file(path, 0, &why) : NULL;
    if (root == NULL) {
        return base_error_set(error, BASE_ERR_IO, "a run came to nothing: see %s.log", job->folder);
    }
    bool healthy = job->at < play->result->options->seeds;
    if (!take_rollout(root, play->result->options, run)) {
        json_decref(root);
        return base_error_set(error, BASE_ERR_INVALID, "--version %s: rollout %s is of another one",
                              play->result->options->version, play->result->options->rollout);
    }
    run->harmed = (uint64_t)json_integer_value(json_object_get(root, "exposed"));
    run->ended_s = json_number_value(json_object_get(root, "duration_s"));
    run->stopped_s = run->stopped ? stopped_s(root) : 0;
    run->good = oracles_hold(root) && (run->stopped || run->completed);
    run->harmed = healthy ? 0 : run->harmed;
    json_decref(root);
    return BASE_OK;
}

static enum base_status take_ended(struct play *play, pid_t pid, int status,
                                   struct base_error *error)
{
    uint32_t total = play->result->pack->count * play->result->options->seeds;
    for (uint32_t i = 0; i < play->result->options->jobs; i++) {
        struct job *job = &play->jobs[i];
        if (job->pid == pid) {
            job->pid = 0;
            BASE_TRY(read_run(play, job, status, error));
            if (play->result->runs[job->at].good) {
                remove_run(job);
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
        if (play->jobs[i].pid != 0) {
            (void)kill(play->jobs[i].pid, SIGTERM);
            (void)waitpid(play->jobs[i].pid, NULL, 0);
        }
    }
}

static enum base_status play_all(struct play *play, const volatile int *interrupted,
                                 struct base_error *error)
{
    uint32_t total = play->result->pack->count * play->result->options->seeds;
    while (play->ended < total) {
        for (uint32_t i = 0; i < play->result->options->jobs && play->next < total; i++) {
            if (play->jobs[i].pid == 0) {
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
