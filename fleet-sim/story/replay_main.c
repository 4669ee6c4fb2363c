// `walle-fleet-sim replay`: options, the run played again, its story shown. fleet_main.c calls it
// on the main thread. The run has to come again as it was: a story of another run would explain
// nothing.
#include "story/device_replay.h"

#include "base/text/str_cut.h"
#include "compare/play_again.h"
#include "digest/run_digest.h"
#include "digest/story_lines.h"
#include "model/sim_exit.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

enum key { KEY_OUTPUT = 'o', KEY_DEVICE = 'd' };

static const struct argp_option table[] = {
    {"device", KEY_DEVICE, "N", 0,
     "Which one: its index in the population, as diff and traces have it, or its id of 16 hex "
     "digits, as the gateway has it",
     0},
    {"output", KEY_OUTPUT, "text|json", 0, "A timeline for people, or all of it as JSON (text)", 0},
    {0, 0, 0, 0, 0, 0},
};

struct options {
    const char *out;
    const char *device;
    bool json;
};

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case KEY_DEVICE:
        options->device = value;
        return 0;
    case KEY_OUTPUT:
        options->json = strcmp(value, "json") == 0;
        if (!options->json && strcmp(value, "text") != 0) {
            argp_error(state, "-o %.60s: text or json is expected", value);
        }
        return 0;
    case ARGP_KEY_ARG:
        if (options->out != NULL) {
            argp_error(state, "'%.60s': one folder of a run is expected", value);
        }
        options->out = value;
        return 0;
    case ARGP_KEY_END:
        if (options->out == NULL || options->device == NULL) {
            argp_error(state, "one folder of a run (its --out) and --device are expected");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// Did all of it come again, in each shard and the core?
static enum base_status check_again(const char *first, const char *again, struct base_error *error)
{
    struct sim_digest digests[2] = {{.lines = 0}, {.lines = 0}};
    char roots[2][SIM_DIGEST_HEX + 1] = {"", ""};
    enum base_status status = sim_digest_read(first, &digests[0], error);
    if (status == BASE_OK) {
        status = sim_digest_read(again, &digests[1], error);
    }
    for (uint32_t i = 0; i < 2; i++) {
        sim_digest_root(&digests[i], roots[i]);
        sim_digest_done(&digests[i]);
    }
    if (status == BASE_OK && strcmp(roots[0], roots[1]) != 0) {
        status = base_error_set(error, BASE_ERR_CONFLICT,
                                "the run does not come again as it was: its folder, its files or "
                                "the program are others by now (verify says what differs)");
    }
    return status;
}

static enum base_status story_read(const struct sim_again *again, json_t **out_story,
                                   struct base_error *error)
{
    char path[SIM_CHILD_FOLDER_MAX + 32];
    json_t *report = sim_child_report(&again->child);
    (void)snprintf(path, sizeof(path), "%s/" SIM_STORY_FILE, again->child.folder);
    enum base_status status =
        sim_replay_read(path, json_object_get(report, "versions"), out_story, error);
    json_decref(report);
    return status;
}

static enum base_status replay(const struct options *options, json_t **out_story,
                               struct base_error *error)
{
    static struct sim_again again;
    char device[64];
    char said[SIM_CHILD_SAID_MAX];
    const char *const more[] = {"--trace", device, NULL};
    uint64_t number = 0;
    struct base_str text = base_str_of(options->device);
    if (base_str_u64(text, &number) != BASE_OK &&
        (text.size != WIRE_DEVICE_HEX || wire_device_parse(text, &number) != BASE_OK)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--device %.60s: an index, or an id of 16 hex digits, is expected",
                              options->device);
    }
    (void)snprintf(device, sizeof(device), "device:%.40s", options->device);
    BASE_TRY(sim_again_open(&again, options->out, "replay", error));
    if (sim_again_play(&again, more, error) != BASE_OK) {
        sim_child_said(&again.child, said);
        bool nobody = strstr(said, "no device of the run") != NULL;
        return base_error_set(error, nobody ? BASE_ERR_INVALID : BASE_ERR_IO, "%.200s", said);
    }
    BASE_TRY(check_again(options->out, again.child.folder, error));
    BASE_TRY(story_read(&again, out_story, error));
    sim_child_remove(&again.child);
    return BASE_OK;
}

int sim_replay_main(int argc, char **argv, FILE *out)
{
    static char name[] = "walle-fleet-sim replay";
    struct base_error error = {.status = BASE_OK};
    struct options options = {.out = NULL};
    json_t *story = NULL;
    const struct argp parser = {
        table,
        on_option,
        "OUT",
        "Everything that one device of a run in virtual time did and was told: plays the run of "
        "OUT/repro.txt once more and shows the device's wakes, requests and answers, offers, what "
        "it activated and ran, outcomes, faults that it met, what it saved, in the order of "
        "virtual time; then what is true of it in the end, and what the gateway believes.\v"
        "Example:\n  walle-fleet-sim replay out/fleet --device 421\n\n"
        "Exit status: 0 it was shown, 2 usage, a run in real time, or no such device in the run, "
        "4 files or memory, or a run that does not come again as it was.",
        NULL,
        NULL,
        NULL};
    argv[0] = name;
    if (!sim_command_read(&parser, 0, argc, argv, &options)) {
        return SIM_EXIT_USAGE;
    }
    enum base_status status = replay(&options, &story, &error);
    if (status != BASE_OK) {
        return sim_command_failed(name, status, &error);
    }
    if (options.json) {
        (void)json_dumpf(story, out, JSON_INDENT(1));
        (void)fputc('\n', out);
    } else {
        sim_replay_print(story, out);
    }
    json_decref(story);
    return SIM_EXIT_OK;
}
