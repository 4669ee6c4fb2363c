// Reader of "samples" in task.json, see the header. task_source.c checks the list with the rest of
// the document, task_dry_run.c takes its samples one by one; one thread. Nothing is opened here:
// what a file lacks is said when the sample is tried.
#include "cli/task/task_samples.h"

#include "base/os/path_part.h"
#include "cli/base/cli_json.h"

#include <stdio.h>
#include <string.h>

static const char *const sample_fields[] = {"events", "input", "attrs", "give", "user", NULL};
static const char *const file_fields[] = {"events", "input", "attrs"};

static bool path_ok(const json_t *value, bool confined)
{
    const char *path = json_string_value(value);
    return path != NULL && path[0] != '\0' && strchr(path, '\n') == NULL &&
           !(confined && base_path_fault(base_str_of(path)) != NULL);
}

static enum base_status check_given(const json_t *give, bool confined, const char *what,
                                    struct base_error *error)
{
    const char *name;
    json_t *value;
    if (give == NULL) {
        return BASE_OK;
    }
    if (!json_is_object(give) || json_object_size(give) > TASK_SAMPLE_GIVEN_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s: \"give\" is {NAME: PATH, ...}, at most %d files", what,
                              TASK_SAMPLE_GIVEN_MAX);
    }
    json_object_foreach((json_t *)(uintptr_t)give, name, value)
    {
        if (!path_ok(value, confined)) {
            return base_error_set(error, BASE_ERR_INVALID, "%s: give: \"%.32s\": no path%s", what,
                                  name, confined ? " inside the repository's folder" : "");
        }
    }
    return BASE_OK;
}

static enum base_status check_one(const json_t *sample, bool confined, const char *what,
                                  struct base_error *error)
{
    if (!json_is_object(sample)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s is {\"events\": FILE}, {\"input\": FILE}, or what else "
                              "docs/VM.md says",
                              what);
    }
    BASE_TRY(cli_json_only(sample, sample_fields, what, error));
    for (size_t i = 0; i < sizeof(file_fields) / sizeof(file_fields[0]); ++i) {
        const json_t *value = json_object_get(sample, file_fields[i]);
        if (value != NULL && !path_ok(value, confined)) {
            return base_error_set(error, BASE_ERR_INVALID, "%s: \"%s\": no path of a file%s", what,
                                  file_fields[i],
                                  confined ? " inside the repository's folder" : "");
        }
    }
    const json_t *user = json_object_get(sample, "user");
    if (user != NULL && !json_is_string(user)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: \"user\" is no text", what);
    }
    if (json_object_get(sample, "events") != NULL && json_object_get(sample, "input") != NULL) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s: \"events\" and \"input\" are two samples: a device gives a run "
                              "one of them",
                              what);
    }
    return check_given(json_object_get(sample, "give"), confined, what, error);
}

enum base_status task_samples_check(const json_t *document, bool confined, struct base_error *error)
{
    const json_t *samples = json_object_get(document, "samples");
    if (samples == NULL) {
        return BASE_OK;
    }
    if (!json_is_array(samples) || json_array_size(samples) > TASK_SAMPLES_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"samples\" is a list of at most %d", TASK_SAMPLES_MAX);
    }
    for (size_t i = 0; i < json_array_size(samples); ++i) {
        char what[48];
        (void)snprintf(what, sizeof(what), "task.json: samples[%zu]", i);
        BASE_TRY(check_one(json_array_get(samples, i), confined, what, error));
    }
    return BASE_OK;
}

// ---- Taking one

static bool path_join(const char *folder, const char *path, char out[TASK_SOURCE_PATH_MAX])
{
    return snprintf(out, TASK_SOURCE_PATH_MAX, "%s%s%s", path[0] == '/' ? "" : folder,
                    path[0] == '/' ? "" : "/", path) < TASK_SOURCE_PATH_MAX;
}

static bool given_join(const char *folder, const json_t *give, struct task_sample *out)
{
    const char *name;
    json_t *value;
    char path[TASK_SOURCE_PATH_MAX];
    size_t at = 0;
    json_object_foreach((json_t *)(uintptr_t)give, name, value)
    {
        if (!path_join(folder, json_string_value(value), path)) {
            return false;
        }
        int size = snprintf(out->give + at, sizeof(out->give) - at, "%s%s=%s", at > 0 ? "\n" : "",
                            name, path);
        if (size < 0 || (size_t)size >= sizeof(out->give) - at) {
            return false;
        }
        at += (size_t)size;
    }
    return true;
}

// The last part of the first path that the sample has: what tells it from the others.
static const char *first_file(const json_t *sample)
{
    const char *name;
    json_t *value;
    const char *path = cli_json_text(sample, "events", cli_json_text(sample, "input", NULL));
    json_object_foreach(json_object_get(sample, "give"), name, value)
    {
        path = path != NULL ? path : json_string_value(value);
    }
    path = path != NULL ? path : cli_json_text(sample, "attrs", "");
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

enum base_status task_sample_take(const char *folder, const json_t *samples, size_t index,
                                  struct task_sample *out, struct base_error *error)
{
    const json_t *sample = json_array_get(samples, index);
    char *const paths[] = {out->events, out->input, out->attrs};
    memset(out, 0, sizeof(*out));
    const char *file = first_file(sample);
    (void)snprintf(out->label, sizeof(out->label),
                   file[0] != '\0' ? "samples[%zu] (%.60s)" : "samples[%zu]%s", index, file);
    bool fits = given_join(folder, json_object_get(sample, "give"), out);
    for (size_t i = 0; i < sizeof(file_fields) / sizeof(file_fields[0]); ++i) {
        const char *path = json_string_value(json_object_get(sample, file_fields[i]));
        fits = fits && (path == NULL || path_join(folder, path, paths[i]));
    }
    out->user = json_string_value(json_object_get(sample, "user"));
    return fits ? BASE_OK
                : base_error_set(error, BASE_ERR_TOO_LARGE, "task.json: %s: a path is too long",
                                 out->label);
}
