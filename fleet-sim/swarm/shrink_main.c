// `walle-fleet-sim shrink`: makes a failing run smaller for as long as the same invariant breaks.
// First families of faults go, then single faults, then devices, then time. fleet_main.c calls it
// on the main thread; every try is a run of its own.
#include "swarm/sim_case.h"

#include "base/check.h"
#include "base/os/folder.h"
#include "model/sim_exit.h"
#include "words/command_words.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#define DURATION_LEAST_S 5
#define SHRINK_NAME_MAX  32

struct shrink {
    struct sim_case at; // the smallest that failed
    struct sim_case_end end;
    char out[SIM_TEXT_MAX];
    uint32_t tries;
    FILE *log;
    const struct argp_option *options;               // of a run
    char names[SIM_CASE_FIXED_MAX][SHRINK_NAME_MAX]; // of options that stay, whole
    uint32_t name_count;
};

// ---- The line that is given

static bool take_number(const char *text, uint32_t *out)
{
    uint64_t number = 0;
    if (base_str_u64(base_str_of(text), &number) != BASE_OK || number > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static bool take_fault(struct sim_case *at, const char *text)
{
    if (at->fault_count == SIM_FAULTS_MAX || strlen(text) >= SIM_CASE_FAULT_MAX) {
        return false;
    }
    (void)snprintf(at->faults[at->fault_count++], SIM_CASE_FAULT_MAX, "%s", text);
    return true;
}

// An option that shrinks, and its value. False: it makes no sense.
static bool take_option(struct shrink *shrink, const char *name, const char *value)
{
    struct sim_case *at = &shrink->at;
    uint32_t seed = 0;
    if (strcmp(name, "fault") == 0) {
        return take_fault(at, value);
    }
    if (strcmp(name, "devices") == 0) {
        return take_number(value, &at->devices) && at->devices > 0;
    }
    if (strcmp(name, "first-device") == 0) {
        return take_number(value, &at->first_device);
    }
    if (strcmp(name, "duration") == 0) {
        return take_number(value, &at->duration_s) && at->duration_s > 0;
    }
    if (strcmp(name, "faults-until") == 0) {
        return take_number(value, &at->until_s);
    }
    if (strcmp(name, "seed") == 0 && take_number(value, &seed)) {
        at->seed = seed;
        return true;
    }
    if (strcmp(name, "out") == 0) {
        return snprintf(shrink->out, sizeof(shrink->out), "%s", value) < SIM_TEXT_MAX;
    }
    return false;
}

static bool shrinks(const char *name)
{
    static const char *const names[] = {"fault",        "devices", "first-device", "duration",
                                        "faults-until", "seed",    "out"};
    bool found = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found = found || strcmp(name, names[i]) == 0;
    }
    return found;
}

static void keep_word(struct shrink *shrink, struct argp_state *state, const char *word)
{
    if (shrink->at.fixed_count == SIM_CASE_FIXED_MAX) {
        argp_error(state, "too many words");
    }
    shrink->at.fixed[shrink->at.fixed_count++] = word;
}

// The option of a run that has this key; its name may have come shortened.
static const struct argp_option *option_of(const struct argp_option *option, int key)
{
    while (option->key != 0 || option->name != NULL || option->doc != NULL) {
        if (option->key == key && option->name != NULL) {
            return option;
        }
        ++option;
    }
    return NULL;
}

// A word behind `run`, as a run would read it.
static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct shrink *shrink = state->input;
    const struct argp_option *option = option_of(shrink->options, key);
    if (key == ARGP_KEY_ARG) {
        argp_error(state, "'%.60s': a run takes options alone", value);
    }
    if (key == ARGP_KEY_END && shrink->at.duration_s == 0) {
        argp_error(state, "--duration is needed");
    }
    if (option == NULL) {
        return ARGP_ERR_UNKNOWN;
    }
    if (strcmp(option->name, "scenario") == 0) {
        argp_error(state, "--scenario: its lines are to stand here as options, to be made fewer");
    }
    if (shrinks(option->name)) {
        if (!take_option(shrink, option->name, value)) {
            argp_error(state, "--%s: its value is wrong: %.60s", option->name, value);
        }
    } else if (strcmp(option->name, "no-live") != 0) {
        char *word = shrink->names[shrink->name_count];
        (void)snprintf(word, SHRINK_NAME_MAX, "--%s", option->name);
        keep_word(shrink, state, word);
        shrink->name_count++;
        if (value != NULL) {
            keep_word(shrink, state, value);
        }
    }
    return 0;
}

// The words behind `run`; ends the process where one of them makes no sense here.
static bool parse(struct shrink *shrink, int argc, char **argv)
{
    static char name[] = "walle-fleet-sim shrink";
    const struct argp parser = {shrink->options, on_option, NULL, NULL, NULL, NULL, NULL};
    argv[0] = name;
    return sim_command_read(&parser, ARGP_NO_HELP, argc, argv, shrink);
}

// ---- Tries

static enum base_status play(struct shrink *shrink, const struct sim_case *at,
                             struct sim_case_end *out)
{
    struct sim_child child = {0};
    struct base_error error = {0};
    int status = 0;
    (void)snprintf(child.folder, sizeof(child.folder), "%s/try", shrink->out);
    enum base_status begun = sim_case_begin(at, &child, &error);
    if (begun != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim shrink: %s\n", error.text);
        return begun;
    }
    while (waitpid(child.pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return BASE_ERR_IO;
        }
    }
    shrink->tries++;
    sim_case_read(&child, status, out);
    sim_child_remove(&child);
    return BASE_OK;
}

// Takes the smaller case when it fails as the first one did.
static bool takes(struct shrink *shrink, const struct sim_case *smaller, const char *what)
{
    struct sim_case_end end = {0};
    if (play(shrink, smaller, &end) != BASE_OK || end.could_not ||
        strcmp(end.broken, shrink->end.broken) != 0) {
        return false;
    }
    shrink->at = *smaller;
    (void)fprintf(shrink->log, "%s: %u devices, %u faults, %u s\n", what, smaller->devices,
                  smaller->fault_count, smaller->duration_s);
    (void)fflush(shrink->log);
    return true;
}

// Without the faults of these families, and without the one at `but`.
static struct sim_case without(const struct sim_case *at, uint32_t families, uint32_t but)
{
    struct sim_case smaller = *at;
    smaller.fault_count = 0;
    for (uint32_t i = 0; i < at->fault_count; i++) {
        if ((families >> sim_case_family(at->faults[i]) & 1u) == 0 && i != but) {
            memcpy(smaller.faults[smaller.fault_count++], at->faults[i], SIM_CASE_FAULT_MAX);
        }
    }
    return smaller;
}

static void fewer_faults(struct shrink *shrink)
{
    struct sim_case smaller = without(&shrink->at, UINT32_MAX, UINT32_MAX);
    if (shrink->at.fault_count > 0 && takes(shrink, &smaller, "no fault")) {
        return;
    }
    for (uint32_t f = 0; f < SIM_FAULT_FAMILY_COUNT; f++) {
        smaller = without(&shrink->at, 1u << f, UINT32_MAX);
        if (smaller.fault_count > 0 && smaller.fault_count < shrink->at.fault_count) {
            (void)takes(shrink, &smaller, "a family less");
        }
    }
    for (uint32_t i = shrink->at.fault_count; i > 0 && shrink->at.fault_count > 1; i--) {
        smaller = without(&shrink->at, 0, i - 1);
        (void)takes(shrink, &smaller, "a fault less");
    }
}

// A part of the devices, from `skip` on.
static bool part(struct shrink *shrink, uint32_t skip, uint32_t count)
{
    struct sim_case smaller = shrink->at;
    if (count == 0 || count >= smaller.devices) {
        return false;
    }
    base_assert(skip + count <= smaller.devices);
    smaller.first_device += skip;
    smaller.devices = count;
    return takes(shrink, &smaller, "fewer devices");
}

// Halves, then ever smaller pieces at either end, as long as one of them goes.
static void fewer_devices(struct shrink *shrink)
{
    for (uint32_t cut = 2; shrink->at.devices > 1;) {
        uint32_t all = shrink->at.devices;
        uint32_t gone = all / cut > 0 ? all / cut : 1;
        if (part(shrink, 0, all - gone) || part(shrink, gone, all - gone)) {
            continue;
        }
        if (gone == 1) {
            return;
        }
        cut *= 2;
    }
}

static void less_time(struct shrink *shrink)
{
    struct sim_case smaller = shrink->at;
    smaller.until_s = 0;
    bool more = shrink->at.until_s == 0 || takes(shrink, &smaller, "faults that do not end");
    while (more && shrink->at.duration_s / 2 >= DURATION_LEAST_S) {
        smaller = shrink->at;
        smaller.duration_s /= 2;
        more = takes(shrink, &smaller, "less time");
    }
}

static int told(struct shrink *shrink)
{
    char line[SIM_CASE_TEXT_MAX];
    uint32_t families = sim_case_families(&shrink->at);
    sim_case_text(&shrink->at, line);
    (void)fprintf(
        shrink->log, "smallest after %u runs (%s): %u devices, %d families of faults\n%s\n",
        shrink->tries, shrink->end.broken, shrink->at.devices, __builtin_popcount(families), line);
    return SIM_EXIT_OK;
}

int sim_shrink_main(int argc, char **argv, const struct argp_option *options, FILE *log)
{
    static struct shrink shrink;
    struct base_error error = {0};
    shrink = (struct shrink){.log = log, .options = options, .at = {.devices = 1000, .seed = 1}};
    (void)snprintf(shrink.out, sizeof(shrink.out), "out/shrink");
    bool help = argc > 1 && strcmp(argv[argc - 1], "--help") == 0;
    if (help || argc < 3 || strcmp(argv[1], "run") != 0) {
        (void)fprintf(
            help ? log : stderr,
            "Usage: walle-fleet-sim shrink run OPTION...\n"
            "The line of a run that breaks an invariant, as swarm prints it: tries it with "
            "fewer faults, devices and\nless time, and prints the smallest that breaks the "
            "same one. --duration SECONDS is needed. Exit status: 0 there it is;\n"
            "1 the run as given breaks nothing; 2 usage, 4 files or memory, as of a run that "
            "could not be played.\n");
        return help ? SIM_EXIT_OK : SIM_EXIT_USAGE;
    }
    if (!parse(&shrink, argc - 1, argv + 1)) { // `run` where a program's name stands
        return SIM_EXIT_USAGE;
    }
    if (base_folder_make(shrink.out, &error) != BASE_OK ||
        play(&shrink, &shrink.at, &shrink.end) != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim shrink: %s\n", error.text);
        return SIM_EXIT_LOCAL;
    }
    if (shrink.end.could_not) {
        (void)fprintf(stderr, "walle-fleet-sim shrink: the run as given: %s\n", shrink.end.said);
        return shrink.end.exit;
    }
    if (shrink.end.broken[0] == '\0') {
        (void)fprintf(stderr, "walle-fleet-sim shrink: this run breaks nothing\n");
        return SIM_EXIT_FAILED;
    }
    (void)fprintf(log, "breaks: %s\n", shrink.end.broken);
    fewer_faults(&shrink);
    fewer_devices(&shrink);
    less_time(&shrink);
    return told(&shrink);
}
