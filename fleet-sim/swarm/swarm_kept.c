// Writing and reading back OUT/swarm.json. swarm_play.c does both on the main thread: it writes
// when it tells how far it is, when it is interrupted and at the end, and reads once, behind the
// run without faults. That run's digest stands for all that a seed's run depends on beside its
// options: folder, root and program. What is read may have been written by anybody: an item that is
// no seed of this swarm ends the reading, and so does one without all that is written of a seed.
#include "swarm/swarm_kept.h"

#include "base/check.h"
#include "base/os/output_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES (SIM_TEXT_MAX + 16)
#define EXIT_MAX   255 // of a process

static void path_of(const struct sim_swarm_options *options, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/swarm.json", options->out);
}

// What seeds have in common, by the names of the options.
static json_t *same_make(const struct sim_swarm_options *options, const struct sim_swarm_kept *kept)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:s}", "devices", (json_int_t)options->devices,
                     "first-seed", (json_int_t)options->first_seed, "faults-until",
                     (json_int_t)options->until_s, "duration", (json_int_t)options->duration_s,
                     "arrival-rate", options->rate, "bad-version", options->version, "clean",
                     kept->clean);
}

enum base_status sim_swarm_kept_write(const struct sim_swarm_options *options,
                                      const struct sim_swarm_kept *kept, struct base_error *error)
{
    char path[PATH_BYTES];
    struct base_output_file file;
    path_of(options, path);
    json_t *compared = json_object();
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        (void)json_object_set_new(compared, sim_oracle_name((enum sim_oracle)i),
                                  json_integer(kept->compared[i]));
    }
    base_assert(kept->failed + kept->nothing <= kept->ended);
    json_t *root = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:o, s:o, s:O}", "devices", (int)options->devices,
        "seeds", (int)kept->ended, "wanted", (int)options->seeds, "failed", (int)kept->failed,
        "nothing", (int)kept->nothing, "over_before", (int)kept->over, "took_s", kept->took_s, "of",
        same_make(options, kept), "compared", compared, "runs", kept->runs);
    enum base_status status = base_output_open(&file, path, error);
    if (status == BASE_OK) {
        status = root != NULL && json_dumpf(root, file.file, JSON_INDENT(1)) == 0 ? BASE_OK
                                                                                  : BASE_ERR_IO;
        status = base_output_close(&file, status, error);
    }
    json_decref(root);
    return status;
}

// ---- Going on

static enum base_status same_check(const struct sim_swarm_options *options, json_t *is,
                                   const json_t *was, struct base_error *error)
{
    const char *name;
    json_t *wanted;
    json_object_foreach(is, name, wanted)
    {
        const json_t *found = json_object_get(was, name);
        if (json_equal(wanted, found)) {
            continue;
        }
        if (strcmp(name, "clean") == 0) {
            return base_error_set(error, BASE_ERR_EXISTS,
                                  "--resume: the run without faults is another than when the seeds "
                                  "of %.200s/swarm.json were played: of another folder, root or "
                                  "program",
                                  options->out);
        }
        char *text = json_dumps(found, JSON_ENCODE_ANY);
        (void)base_error_set(error, BASE_ERR_EXISTS,
                             "--resume: the seeds of %.200s/swarm.json are of another --%s: %.60s",
                             options->out, name, text != NULL ? text : "it says none");
        free(text);
        return BASE_ERR_EXISTS;
    }
    return BASE_OK;
}

static enum base_status spoilt(const struct sim_swarm_options *options, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_CORRUPT,
                          "--resume: %.200s/swarm.json is not what a swarm writes", options->out);
}

static bool is_whole(const json_t *item, json_int_t least, json_int_t most)
{
    return json_is_integer(item) && json_integer_value(item) >= least &&
           json_integer_value(item) <= most;
}

// Every member that swarm_play.c writes of a seed, and one that goes with the others.
static bool run_complete(const json_t *run)
{
    size_t index;
    const json_t *fault;
    const json_t *broken = json_object_get(run, "broken");
    const json_t *nothing = json_object_get(run, "nothing_because");
    const json_t *faults = json_object_get(run, "faults");
    const json_t *repeat = json_object_get(run, "repeat");
    bool told = json_is_string(broken) || json_is_string(nothing);
    bool texts = true;
    json_array_foreach(faults, index, fault)
    {
        texts = texts && json_is_string(fault);
    }
    return is_whole(json_object_get(run, "exit"), -1, EXIT_MAX) && json_is_array(faults) && texts &&
           (json_is_null(broken) || json_string_length(broken) > 0) &&
           (json_is_null(nothing) || (json_is_string(nothing) && json_is_null(broken))) &&
           (told ? json_is_string(repeat) : json_is_null(repeat));
}

// One seed. EXISTS: it is none of these, or twice.
static enum base_status run_take(const struct sim_swarm_options *options, json_t *run,
                                 struct sim_swarm_kept *kept, bool *out_done,
                                 struct base_error *error)
{
    const json_t *number = json_object_get(run, "seed");
    json_int_t seed = json_integer_value(number);
    json_int_t first = (json_int_t)options->first_seed;
    if (!json_is_integer(number)) {
        return spoilt(options, error);
    }
    if (seed < first || seed - first >= (json_int_t)options->seeds || out_done[seed - first]) {
        return base_error_set(error, BASE_ERR_EXISTS,
                              "--resume: %.200s/swarm.json has seed %lld, which is none of these, "
                              "or twice: --seeds",
                              options->out, (long long)seed);
    }
    if (!run_complete(run)) {
        return spoilt(options, error);
    }
    out_done[seed - first] = true;
    kept->ended++;
    kept->failed += json_is_string(json_object_get(run, "broken"));
    if (json_is_string(json_object_get(run, "nothing_because"))) {
        kept->nothing++;
        kept->nothing_exit = (int)json_integer_value(json_object_get(run, "exit"));
    }
    return json_array_append(kept->runs, run) == 0 ? BASE_OK : BASE_ERR_NOMEM;
}

// What is said of all seeds is what they come to.
static bool sums_fit(const struct sim_swarm_options *options, const json_t *root,
                     const struct sim_swarm_kept *kept)
{
    const json_t *took_s = json_object_get(root, "took_s");
    json_int_t ended = kept->ended;
    base_assert(kept->failed + kept->nothing <= kept->ended);
    return is_whole(json_object_get(root, "devices"), options->devices, options->devices) &&
           is_whole(json_object_get(root, "seeds"), ended, ended) &&
           is_whole(json_object_get(root, "wanted"), ended, SIM_SWARM_SEEDS_MAX) &&
           is_whole(json_object_get(root, "failed"), kept->failed, kept->failed) &&
           is_whole(json_object_get(root, "nothing"), kept->nothing, kept->nothing) &&
           json_is_boolean(json_object_get(root, "over_before")) && json_is_number(took_s) &&
           json_number_value(took_s) >= 0;
}

static enum base_status take(const struct sim_swarm_options *options, const json_t *root,
                             struct sim_swarm_kept *kept, bool *out_done, struct base_error *error)
{
    size_t index;
    json_t *run;
    const json_t *runs = json_object_get(root, "runs");
    const json_t *compared = json_object_get(root, "compared");
    json_t *same = same_make(options, kept);
    enum base_status status = same_check(options, same, json_object_get(root, "of"), error);
    json_decref(same);
    BASE_TRY(status);
    json_array_foreach(runs, index, run)
    {
        BASE_TRY(run_take(options, run, kept, out_done, error));
    }
    if (!json_is_array(runs) || !sums_fit(options, root, kept)) {
        return spoilt(options, error);
    }
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const json_t *count = json_object_get(compared, sim_oracle_name((enum sim_oracle)i));
        if (!is_whole(count, 0, kept->ended)) {
            return spoilt(options, error);
        }
        kept->compared[i] = (uint32_t)json_integer_value(count);
    }
    kept->took_s = json_number_value(json_object_get(root, "took_s"));
    return BASE_OK;
}

enum base_status sim_swarm_kept_read(const struct sim_swarm_options *options,
                                     struct sim_swarm_kept *kept, bool *out_done,
                                     struct base_error *error)
{
    char path[PATH_BYTES];
    json_error_t why;
    path_of(options, path);
    base_assert(kept->ended == 0);
    base_assert(json_array_size(kept->runs) == 0);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return BASE_OK;
    }
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    enum base_status status =
        json_is_object(root) ? take(options, root, kept, out_done, error) : spoilt(options, error);
    json_decref(root);
    return status;
}

// ---- Progress

void sim_swarm_pace(uint32_t ended, uint32_t left, double took_s, char out[SIM_SWARM_PACE_MAX])
{
    out[0] = '\0';
    double each_s = ended > 0 && took_s > 0 ? took_s / ended : 0;
    double more_s = each_s * left;
    if (more_s < 60) {
        return;
    }
    if (more_s < 7200) {
        (void)snprintf(out, SIM_SWARM_PACE_MAX, "; %.1f a minute, about %.0f minutes more",
                       60 / each_s, more_s / 60);
    } else {
        (void)snprintf(out, SIM_SWARM_PACE_MAX, "; %.1f a minute, about %.1f hours more",
                       60 / each_s, more_s / 3600);
    }
}
