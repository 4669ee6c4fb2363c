// Plays the branches of a fork, one after the other, each in a process of its own, and holds what
// was before the fork against the run that is forked. fork_main.c calls it on the main thread,
// which waits for each of them.
#include "fork/fork.h"

#include "base/check.h"
#include "base/os/folder.h"
#include "digest/run_digest.h"
#include "model/sim_exit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX (2u * SIM_ACTS_MAX + 3u)

// ---- The run that is forked

static enum base_status report_load(const char *folder, json_t **out_root, struct base_error *error)
{
    char path[PATH_MAX + 16];
    json_error_t why;
    (void)snprintf(path, sizeof(path), "%s/run.json", folder);
    *out_root = json_load_file(path, 0, &why);
    return *out_root != NULL ? BASE_OK
                             : base_error_set(error, BASE_ERR_IO, "%.150s: %.100s", path, why.text);
}

// What is compared, and how far: the version the run was about, and the run's end.
static enum base_status run_take(struct sim_fork *fork, const json_t *root,
                                 struct base_error *error)
{
    const json_t *about = json_object_get(root, "about");
    const char *manifest = json_string_value(json_object_get(about, "manifest"));
    double duration_s = json_number_value(json_object_get(root, "duration_s"));
    size_t index;
    const json_t *item;
    if (manifest == NULL || manifest[0] == '\0') {
        return base_error_set(error, BASE_ERR_INVALID,
                              "no device met a release in that run: there is nothing to compare");
    }
    if (fork->at_s < 1 || fork->at_s > duration_s) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--at %u: the run went on for %.0f s, and is forked within them",
                              fork->at_s, duration_s);
    }
    fork->to_s = fork->to_s > 0 ? fork->to_s : (uint32_t)ceil(duration_s);
    if (fork->to_s <= fork->at_s) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "branches end at second %u and begin at %u: --to says a later end",
                              fork->to_s, fork->at_s);
    }
    (void)snprintf(fork->manifest, sizeof(fork->manifest), "%.79s", manifest);
    sim_fork_name(json_object_get(about, "task"), json_object_get(about, "version"), fork->version);
    json_array_foreach(json_object_get(root, "versions"), index, item)
    {
        fork->called_bad = fork->called_bad || json_is_true(json_object_get(item, "bad"));
    }
    return BASE_OK;
}

// ---- Branches

// Everything before the fork, in all shards and the core.
static enum base_status prefix_check(const struct sim_fork *fork, const struct sim_branch *branch,
                                     const struct sim_digest *first, struct base_error *error)
{
    struct sim_digest again;
    uint32_t line = 0;
    uint32_t second = 0;
    BASE_TRY(sim_digest_read(branch->again.child.folder, &again, error));
    bool alike = again.lines == first->lines;
    bool parts = alike && sim_digest_part(first, &again, &line, &second);
    sim_digest_done(&again);
    if (alike && (!parts || second >= fork->at_s)) {
        return BASE_OK;
    }
    return base_error_set(
        error, BASE_ERR_CONFLICT,
        "branch %s is another run from second %u on, before the fork: the folder, "
        "the files or the program of the run are others by now, and nothing is "
        "compared",
        branch->name, alike ? second : 0);
}

static enum base_status branch_play(struct sim_fork *fork, struct sim_branch *branch,
                                    struct base_error *error)
{
    const char *more[WORDS_MAX];
    char name[SIM_BRANCH_NAME + 16];
    char to[16];
    char said[SIM_CHILD_SAID_MAX];
    uint32_t count = 0;
    (void)snprintf(name, sizeof(name), "fork/%s", branch->name);
    (void)snprintf(to, sizeof(to), "%u", fork->to_s);
    more[count++] = "--again-to";
    more[count++] = to;
    for (uint32_t i = 0; i < branch->act_count; i++) {
        more[count++] = "--act";
        more[count++] = branch->acts[i];
    }
    base_assert(count < WORDS_MAX);
    more[count] = NULL;
    BASE_TRY(sim_again_open(&branch->again, fork->out, name, error));
    if (sim_again_play(&branch->again, more, error) != BASE_OK) {
        sim_child_said(&branch->again.child, said);
        return base_error_set(error, BASE_ERR_CONFLICT, "branch %s: %.200s", branch->name, said);
    }
    return BASE_OK;
}

static enum base_status play_all(struct sim_fork *fork, const struct sim_digest *first, FILE *log,
                                 struct base_error *error)
{
    for (uint32_t i = 0; i < fork->count; i++) {
        struct sim_branch *branch = &fork->branches[i];
        (void)fprintf(log, "branch %-20s to second %u\n", branch->name, fork->to_s);
        (void)fflush(log);
        BASE_TRY(branch_play(fork, branch, error));
        BASE_TRY(prefix_check(fork, branch, first, error));
        BASE_TRY(sim_branch_read(fork, branch, branch->again.child.folder, error));
    }
    return BASE_OK;
}

enum base_status sim_fork_play(struct sim_fork *fork, FILE *log, struct base_error *error)
{
    struct sim_digest first;
    char folder[PATH_MAX];
    json_t *root = NULL;
    base_assert(fork->count > 1);
    // Whether it can be played again is said before anything is made.
    BASE_TRY(sim_again_open(&fork->branches[0].again, fork->out, "fork", error));
    BASE_TRY(report_load(fork->out, &root, error));
    enum base_status status = run_take(fork, root, error);
    json_decref(root);
    if (status != BASE_OK) {
        return status;
    }
    (void)snprintf(folder, sizeof(folder), "%.4000s/fork", fork->out);
    BASE_TRY(base_folder_make(folder, error));
    BASE_TRY(sim_digest_read(fork->out, &first, error));
    status = play_all(fork, &first, log, error);
    sim_digest_done(&first);
    return status;
}

void sim_fork_done(struct sim_fork *fork)
{
    for (uint32_t i = 0; i < fork->count; i++) {
        free(fork->branches[i].seconds);
        free(fork->branches[i].running);
        free(fork->branches[i].harmed);
    }
    free(fork->branches);
    *fork = (struct sim_fork){.count = 0};
}
