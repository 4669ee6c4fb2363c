// `walle-fleet-sim swarm`: many seeds, each with faults of its own, every invariant held against
// what really happened. Options and course; fleet_main.c calls it on the main thread. A signal ends
// it after the runs under way were told to end.
#include "swarm/swarm.h"

#include "model/sim_exit.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>

enum key {
    KEY_VIRTUAL = 256,
    KEY_ROOT,
    KEY_DEVICES,
    KEY_SEEDS,
    KEY_FIRST,
    KEY_JOBS,
    KEY_DURATION,
    KEY_UNTIL,
    KEY_RATE,
    KEY_VERSION,
    KEY_RESUME,
    KEY_OUT,
};

static const struct argp_option table[] = {
    {"virtual", KEY_VIRTUAL, "DIR", 0,
     "Data folder of a gateway that is not running, with the rollout under way", 0},
    {"root", KEY_ROOT, "FILE", 0, "Root that every device is born with", 0},
    {"devices", KEY_DEVICES, "N", 0, "Virtual devices of each seed (2000)", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Seeds (50)", 0},
    {"first-seed", KEY_FIRST, "S", 0, "The first of them (1)", 0},
    {"jobs", KEY_JOBS, "N", 0, "Runs at once (2)", 0},
    {"faults-until", KEY_UNTIL, "SECONDS", 0, "When faults end, in virtual time (1800)", 0},
    {"duration", KEY_DURATION, "SECONDS", 0, "When a run ends (7200)", 0},
    {"arrival-rate", KEY_RATE, "R", 0, "Devices a second that come online (10000)", 0},
    {"bad-version", KEY_VERSION, "SHA|X.Y.Z", 0,
     "The rollout's version: it goes wrong with a third of the seeds", 0},
    {"resume", KEY_RESUME, 0, 0,
     "Go on with the swarm that swarm.json in --out is of: its seeds are not played again", 0},
    {"out", KEY_OUT, "DIR", 0, "Where swarm.json and what failed go (out/swarm)", 0},
    {0, 0, 0, 0, 0, 0},
};

static volatile int interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static error_t text_take(struct argp_state *state, const char *value, char out[SIM_TEXT_MAX])
{
    int size = snprintf(out, SIM_TEXT_MAX, "%s", value);
    if (size <= 0 || size >= SIM_TEXT_MAX) {
        argp_error(state, "'%.60s': empty or too long", value);
    }
    return 0;
}

static error_t number_take(struct argp_state *state, const char *value, uint64_t max, uint32_t *out)
{
    uint64_t number = 0;
    if (base_str_u64(base_str_of(value), &number) != BASE_OK || number == 0 || number > max) {
        argp_error(state, "'%.60s': a number from 1 to %llu is expected", value,
                   (unsigned long long)max);
    }
    *out = (uint32_t)number;
    return 0;
}

static error_t check(struct argp_state *state, const struct sim_swarm_options *options)
{
    if (options->virtual_dir[0] == '\0' || options->root[0] == '\0') {
        argp_error(state, "--virtual and --root are needed");
    }
    if (options->until_s >= options->duration_s) {
        argp_error(state, "--faults-until %u: a run ends after %u s (--duration)", options->until_s,
                   options->duration_s);
    }
    return 0;
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct sim_swarm_options *options = state->input;
    switch (key) {
    case KEY_VIRTUAL:
        return text_take(state, value, options->virtual_dir);
    case KEY_ROOT:
        return text_take(state, value, options->root);
    case KEY_VERSION:
        return text_take(state, value, options->version);
    case KEY_RATE:
        return text_take(state, value, options->rate);
    case KEY_OUT:
        return text_take(state, value, options->out);
    case KEY_DEVICES:
        return number_take(state, value, 1000000, &options->devices);
    case KEY_SEEDS:
        return number_take(state, value, SIM_SWARM_SEEDS_MAX, &options->seeds);
    case KEY_FIRST:
        return number_take(state, value, UINT32_MAX, &options->first_seed);
    case KEY_JOBS:
        return number_take(state, value, SIM_SWARM_JOBS_MAX, &options->jobs);
    case KEY_DURATION:
        return number_take(state, value, 1000000, &options->duration_s);
    case KEY_UNTIL:
        return number_take(state, value, 1000000, &options->until_s);
    case KEY_RESUME:
        options->resume = true;
        return 0;
    case ARGP_KEY_END:
        return check(state, options);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int exit_of(enum base_status status, int of_run)
{
    switch (status) {
    case BASE_ERR_INVALID:
        return of_run;
    case BASE_OK:
        return SIM_EXIT_OK;
    case BASE_ERR_CLOSED:
        return SIM_EXIT_INTERRUPTED;
    case BASE_ERR_CONFLICT:
        return SIM_EXIT_FAILED;
    default:
        return SIM_EXIT_LOCAL;
    }
}

int sim_swarm_main(int argc, char **argv, FILE *log)
{
    static char name[] = "walle-fleet-sim swarm";
    static struct sim_swarm_options options;
    struct base_error error = {0};
    int of_run = SIM_EXIT_LOCAL;
    const struct argp parser = {
        table,
        on_option,
        NULL,
        "Runs in virtual time with one seed after another. Each seed draws which faults there are "
        "and how often; then they end, and everybody has to come to the release. Every invariant "
        "is held against what really happened. A seed that fails is told with the line that "
        "repeats it, which `walle-fleet-sim shrink` makes smaller. A run without faults comes "
        "first: "
        "where it reaches nobody, no seed is played.\vExit status: 0 every seed held; 1 one did "
        "not; 2 usage, 4 files or memory, 5 interrupted; else that of the run without faults.",
        NULL,
        NULL,
        NULL};
    options = (struct sim_swarm_options){.devices = 2000,
                                         .seeds = 50,
                                         .first_seed = 1,
                                         .jobs = 2,
                                         .duration_s = 7200,
                                         .until_s = 1800};
    (void)snprintf(options.out, sizeof(options.out), "out/swarm");
    (void)snprintf(options.rate, sizeof(options.rate), "10000");
    argv[0] = name;
    if (!sim_command_read(&parser, 0, argc, argv, &options)) {
        return SIM_EXIT_USAGE;
    }
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    enum base_status status = sim_swarm_play(&options, &interrupted, log, &of_run, &error);
    if (status != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim swarm: %s\n", error.text);
    }
    return exit_of(status, of_run);
}
