// Reported failures beside the build they are of, see the header. Called by `walle rollout explain`
// and `walle device why` with --build; one thread. What devices report is theirs to choose: it is
// taken apart here, printed by task_trace.c, and never a path before that checked it.
#include "cli/rollout/reported_trace.h"

#include "cli/base/cli_json.h"
#include "cli/task/task_build.h"
#include "cli/task/task_trace.h"

#include "base/check.h"

#include <string.h>

#define STACK_MAX 512

enum base_status reported_trace_check(const char *build, const char *manifest,
                                      struct base_error *error)
{
    struct task_build loaded = {0};
    char hex[WIRE_SHA256_HEX + 1];
    enum base_status status = task_build_load(build, &loaded, error);
    if (status == BASE_OK) {
        wire_sha256_hex(&loaded.manifest_digest, hex);
        if (strcmp(hex, manifest) != 0) {
            status = base_error_set(error, BASE_ERR_INVALID,
                                    "--build: %.60s is another version: manifest %.12s..., not "
                                    "%.12s...",
                                    build, hex, manifest);
        }
    }
    task_build_done(&loaded);
    return status;
}

bool reported_trace_fits(const char *build, const char *task, const char *version)
{
    struct task_build loaded = {0};
    struct base_error error = {.status = BASE_OK};
    bool fits = task_build_load(build, &loaded, &error) == BASE_OK &&
                base_str_equal(loaded.manifest.task_name, base_str_of(task)) &&
                base_str_equal(loaded.manifest.version, base_str_of(version));
    task_build_done(&loaded);
    return fits;
}

// The places at the end of a detail, "(inner.py:2 < task.py:5)", as a stack: one a line.
static bool stack_of(const char *detail, char out[STACK_MAX])
{
    const char *open = strrchr(detail, '(');
    const char *close = open != NULL ? strchr(open, ')') : NULL;
    size_t at = 0;
    if (close == NULL || close[1] != '\0' || (size_t)(close - open) >= STACK_MAX) {
        return false;
    }
    for (const char *from = open + 1; from < close;) {
        const char *next = strstr(from, " < ");
        const char *end = next != NULL && next < close ? next : close;
        struct task_trace_call call;
        if (!task_trace_call_parse((struct base_str){from, (size_t)(end - from)}, &call)) {
            return false;
        }
        memcpy(out + at, from, (size_t)(end - from));
        at += (size_t)(end - from);
        out[at++] = '\n';
        base_assert(at < STACK_MAX);
        from = end < close ? end + 3 : close;
    }
    out[at] = '\0';
    return at > 0;
}

void reported_trace_print(FILE *out, const char *build, const char *detail)
{
    char stack[STACK_MAX];
    if (stack_of(detail, stack)) {
        task_trace_print(out, build, stack);
    }
}

void reported_trace_rollout(FILE *out, const char *build, json_t *rollout)
{
    size_t index;
    json_t *item;
    char stack[STACK_MAX];
    json_array_foreach(json_object_get(rollout, "fingerprints"), index, item)
    {
        const char *detail = json_string_value(json_object_get(item, "detail"));
        if (detail == NULL || !stack_of(detail, stack)) {
            continue;
        }
        (void)json_object_set_new(item, "traceback", task_trace_json(build, stack));
        if (out != NULL) {
            fprintf(out, "%s\n", cli_shown(detail));
            task_trace_print(out, build, stack);
        }
    }
}
