// A device's story read again and shown: a line an event, the moment first. replay_main.c calls it
// on the main thread. What came from a device or a gateway is shown without control characters: a
// line is one line.
#include "story/device_replay.h"

#include "base/check.h"

#include <errno.h>
#include <string.h>

#define LINE_MAX_BYTES (1u << 20)

// ---- Reading

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

// "ipv 1.0.0" beside the hash.
static void version_name(json_t *event, const json_t *versions)
{
    const char *manifest = text_of(event, "manifest");
    size_t index;
    const json_t *version;
    json_array_foreach(versions, index, version)
    {
        if (manifest[0] != '\0' && strcmp(text_of(version, "manifest"), manifest) == 0) {
            char name[160];
            (void)snprintf(name, sizeof(name), "%.80s %.60s", text_of(version, "task"),
                           text_of(version, "version"));
            (void)json_object_set_new(event, "version", json_string(name));
        }
    }
}

// Puts a line of the file where it belongs; takes `line`.
static bool line_take(json_t *line, const json_t *versions, json_t *story)
{
    const char *what = text_of(line, "what");
    if (strcmp(what, "device") == 0 || strcmp(what, "gateway") == 0) {
        return json_object_set_new(story, what, line) == 0;
    }
    if (what[0] == '\0' || !json_is_number(json_object_get(line, "t_s"))) {
        json_decref(line);
        return false;
    }
    version_name(line, versions);
    return json_array_append_new(json_object_get(story, "events"), line) == 0;
}

static enum base_status lines_read(FILE *file, const json_t *versions, json_t *story,
                                   uint32_t *out_line)
{
    json_error_t why;
    for (;; ++*out_line) {
        json_t *line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &why);
        if (line == NULL) {
            bool ended =
                json_error_code(&why) == json_error_premature_end_of_input || feof(file) != 0;
            return ended ? BASE_OK : BASE_ERR_INVALID;
        }
        if (!line_take(line, versions, story)) {
            return BASE_ERR_INVALID;
        }
    }
}

enum base_status sim_replay_read(const char *path, const json_t *versions, json_t **out_story,
                                 struct base_error *error)
{
    uint32_t line = 1;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    json_t *story = json_pack("{s:[]}", "events");
    enum base_status status =
        story != NULL ? lines_read(file, versions, story, &line) : BASE_ERR_NOMEM;
    (void)fclose(file);
    bool whole =
        json_object_get(story, "device") != NULL && json_object_get(story, "gateway") != NULL;
    if (status == BASE_OK && whole) {
        *out_story = story;
        return BASE_OK;
    }
    json_decref(story);
    return base_error_set(error, status != BASE_OK ? status : BASE_ERR_INVALID,
                          status != BASE_OK ? "%.200s: line %u makes no sense"
                                            : "%.200s: it ends at line %u, before the story does",
                          path, line);
}

// ---- Showing

static void plain_put(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        (void)fputc((unsigned char)*text < ' ' || *text == 127 ? ' ' : *text, out);
    }
}

static void event_print(const json_t *event, FILE *out)
{
    const char *manifest = text_of(event, "manifest");
    const char *version = text_of(event, "version");
    (void)fprintf(out, "%13.6f  %-10s ", json_number_value(json_object_get(event, "t_s")),
                  text_of(event, "what"));
    plain_put(text_of(event, "text"), out);
    if (manifest[0] != '\0') {
        (void)fputs(" [", out);
        plain_put(version, out);
        (void)fprintf(out, "%s%.8s]", version[0] != '\0' ? " " : "", manifest);
    }
    (void)fputc('\n', out);
}

static void device_print(const json_t *device, FILE *out)
{
    const char *name;
    json_t *value;
    base_assert(json_is_object(device));
    (void)fprintf(
        out, "device %lld, id %s:", (long long)json_integer_value(json_object_get(device, "index")),
        text_of(device, "id"));
    json_object_foreach(json_object_get((json_t *)(uintptr_t)device, "attributes"), name, value)
    {
        (void)fprintf(out, " %s=", name);
        plain_put(json_is_string(value) ? json_string_value(value) : "?", out);
    }
    (void)fputs("\n\n", out);
}

// A moment of the ledger; 0: it never came.
static void moment_print(const json_t *truth, const char *key, const char *words, FILE *out)
{
    json_int_t ms = json_integer_value(json_object_get(truth, key));
    if (ms > 0) {
        (void)fprintf(out, ", %s at %.3f", words, (double)ms / 1e3);
    }
}

static void truth_print(const json_t *truth, FILE *out)
{
    (void)fprintf(out, "\ntruth      %lld wakes",
                  (long long)json_integer_value(json_object_get(truth, "wakes")));
    moment_print(truth, "offered_ms", "offered", out);
    moment_print(truth, "downloaded_ms", "downloaded", out);
    moment_print(truth, "activated_ms", "activated", out);
    moment_print(truth, "ran_ms", "first ran", out);
    (void)fputs(json_is_true(json_object_get(truth, "failed")) ? "; it failed here\n" : "\n", out);
}

// What the gateway believes, a line for each rollout that it weighed.
static void beliefs_print(const json_t *gateway, FILE *out)
{
    size_t index;
    const json_t *rollout;
    const json_t *why = json_object_get(gateway, "why");
    const json_t *unknown = json_object_get(json_object_get(gateway, "device"), "status");
    if (unknown != NULL) {
        (void)fprintf(out, "gateway    it does not know the device (%lld)\n",
                      (long long)json_integer_value(unknown));
    }
    json_array_foreach(json_object_get(why, "rollouts"), index, rollout)
    {
        (void)fprintf(out, "gateway    rollout %s of %s: ", text_of(rollout, "rollout"),
                      text_of(rollout, "version"));
        plain_put(text_of(rollout, "reason_text"), out);
        const char *last = text_of(rollout, "last");
        (void)fprintf(out, "; bucket %lld%s%s\n",
                      (long long)json_integer_value(json_object_get(rollout, "bucket")),
                      last[0] != '\0' ? ", last heard: " : ", nothing heard of it", last);
    }
}

void sim_replay_print(const json_t *story, FILE *out)
{
    size_t index;
    const json_t *event;
    const json_t *gateway = json_object_get(story, "gateway");
    json_int_t left_out = json_integer_value(json_object_get(gateway, "not_written"));
    device_print(json_object_get(story, "device"), out);
    json_array_foreach(json_object_get(story, "events"), index, event)
    {
        event_print(event, out);
    }
    if (left_out > 0) {
        (void)fprintf(out, "%13s  %lld more events\n", "", (long long)left_out);
    }
    truth_print(json_object_get(gateway, "truth"), out);
    beliefs_print(gateway, out);
}
