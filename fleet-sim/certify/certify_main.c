// The command line of `walle-fleet-sim certify`, and its course: options, pack, runs, report.
// fleet_main.c calls it on the main thread. A signal ends it after the runs under way were told to
// end; what was played by then certifies nothing.
#include "certify/certify.h"

#include "model/sim_exit.h"
#include "base/os/folder.h"
#include "swarm/child_run.h"
#include "wire/digest.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_DEFAULT 5000 // the default ladder's beta wants 20 of the one in a hundred it is for
#define SEEDS_DEFAULT   97
#define JOBS_DEFAULT    2
#define HORIZON_DEFAULT 14400

enum key {
    KEY_VIRTUAL = 256,
    KEY_ROOT,
    KEY_ROLLOUT,
    KEY_VERSION,
    KEY_DEVICES,
    KEY_SEEDS,
    KEY_JOBS,
    KEY_PACK,
    KEY_OUT,
    KEY_HORIZON,
    KEY_INTERVAL,
    KEY_RATE,
};

static const struct argp_option table[] = {
    {"virtual", KEY_VIRTUAL, "DIR", 0,
     "Data folder of a gateway that is not running, with the rollout under way", 0},
    {"root", KEY_ROOT, "FILE", 0, "Root that every device is born with", 0},
    {"rollout", KEY_ROLLOUT, "ID", 0, "Rollout that is played", 0},
    {"version", KEY_VERSION, "SHA|X.Y.Z", 0, "Its version, which goes wrong", 0},
    {"devices", KEY_DEVICES, "N", 0, "Virtual devices of each run (5000)", 0},
    {"seeds", KEY_SEEDS, "N", 0,
     "Runs of each case, with other devices and draws (97, which bound 95 % of such runs for all "
     "cases of the product's pack together; 59 do for one by itself)",
     0},
    {"jobs", KEY_JOBS, "N", 0, "Runs at once (2)", 0},
    {"pack", KEY_PACK, "FILE", 0,
     "Bad releases: lines NAME: RULE, a rule as for run --bad (those of the product)", 0},
    {"duration", KEY_HORIZON, "SECONDS", 0, "Virtual time of a run at most (14400)", 0},
    {"checkin-interval", KEY_INTERVAL, "SECONDS", 0, "Between check-ins (as the gateway says)", 0},
    {"arrival-rate", KEY_RATE, "R", 0, "Devices a second that come online (10 a second)", 0},
    {"out", KEY_OUT, "DIR", 0, "Where the certificate goes (out/certificate)", 0},
    {0, 0, 0, 0, 0, 0},
};

static volatile int interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static error_t text_take(struct argp_state *state, const char *value, char *out, size_t capacity)
{
    int size = snprintf(out, capacity, "%s", value);
    if (size <= 0 || (size_t)size >= capacity) {
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

static error_t rate_take(struct argp_state *state, const char *value, double *out)
{
    char *end = NULL;
    *out = strtod(value, &end);
    if (end == value || *end != '\0' || !(*out > 0) || *out > 1e7) {
        argp_error(state, "'%.60s': devices a second, above 0, are expected", value);
    }
    return 0;
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct sim_certify_options *options = state->input;
    uint64_t id = 0;
    switch (key) {
    case KEY_VIRTUAL:
        return text_take(state, value, options->virtual_dir, sizeof(options->virtual_dir));
    case KEY_ROOT:
        return text_take(state, value, options->root, sizeof(options->root));
    case KEY_VERSION:
        return text_take(state, value, options->version, sizeof(options->version));
    case KEY_PACK:
        return text_take(state, value, options->pack, sizeof(options->pack));
    case KEY_OUT:
        return text_take(state, value, options->out, sizeof(options->out));
    case KEY_ROLLOUT:
        if (wire_device_parse(base_str_of(value), &id) != BASE_OK) {
            argp_error(state, "--rollout %.60s: 16 hex digits are expected", value);
        }
        return text_take(state, value, options->rollout, sizeof(options->rollout));
    case KEY_DEVICES:
        return number_take(state, value, 1000000, &options->devices);
    case KEY_SEEDS:
        return number_take(state, value, SIM_CERTIFY_SEEDS_MAX, &options->seeds);
    case KEY_JOBS:
        return number_take(state, value, SIM_CERTIFY_JOBS_MAX, &options->jobs);
    case KEY_HORIZON:
        return number_take(state, value, 1000000, &options->horizon_s);
    case KEY_INTERVAL:
        return number_take(state, value, 86400, &options->checkin_interval_s);
    case KEY_RATE:
        return rate_take(state, value, &options->arrival_rate);
    case ARGP_KEY_END:
        if (options->virtual_dir[0] == '\0' || options->root[0] == '\0' ||
            options->rollout[0] == '\0' || options->version[0] == '\0') {
            argp_error(state, "--virtual, --root, --rollout and --version are needed");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// One of before would pass for this one, should this one not come about.
static void certificate_remove(const char *folder)
{
    static const char *const files[] = {"certificate.json", "certificate.html"};
    char path[SIM_TEXT_MAX + 32];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
}

static enum base_status certify(const struct sim_certify_options *options, FILE *log,
                                struct base_error *error)
{
    static struct sim_certify_pack pack;
    BASE_TRY(sim_certify_pack_read(options->pack, &pack, error));
    BASE_TRY(base_folder_make(options->out, error));
    certificate_remove(options->out);
    struct sim_certify_result result = {.options = options, .pack = &pack};
    result.runs = calloc((size_t)pack.count * options->seeds, sizeof(result.runs[0]));
    if (result.runs == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = sim_certify_play(&result, &interrupted, log, error);
    if (status == BASE_OK) {
        status = sim_certify_report(&result, log, error);
    }
    free(result.runs);
    return status;
}

int sim_certify_main(int argc, char **argv, FILE *log)
{
    static char name[] = "walle-fleet-sim certify";
    static struct sim_certify_options options;
    struct base_error error = {0};
    const struct argp parser = {
        table,
        on_option,
        NULL,
        "How many devices a bad release harms before the gate stops it: plays a rollout of a "
        "stopped gateway's folder in virtual time, healthy and with each bad release of a pack, "
        "many times. Writes certificate.html and certificate.json.\vExit status: 0 every run ended "
        "by itself; "
        "1 one did not, or broke an invariant; 2 usage, 4 files or memory, 5 interrupted.",
        NULL,
        NULL,
        NULL};
    options = (struct sim_certify_options){.devices = DEVICES_DEFAULT,
                                           .seeds = SEEDS_DEFAULT,
                                           .jobs = JOBS_DEFAULT,
                                           .horizon_s = HORIZON_DEFAULT,
                                           .arrival_rate = 10};
    (void)snprintf(options.out, sizeof(options.out), "out/certificate");
    argv[0] = name;
    if (!sim_command_read(&parser, 0, argc, argv, &options)) {
        return SIM_EXIT_USAGE;
    }
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    enum base_status status = certify(&options, log, &error);
    if (status == BASE_OK) {
        return SIM_EXIT_OK;
    }
    (void)fprintf(stderr, "walle-fleet-sim certify: %s\n", error.text);
    switch (status) {
    case BASE_ERR_CLOSED:
        return SIM_EXIT_INTERRUPTED;
    case BASE_ERR_INVALID:
    case BASE_ERR_LIMIT:
    case BASE_ERR_TOO_LARGE:
        return SIM_EXIT_USAGE;
    case BASE_ERR_CONFLICT:
        return SIM_EXIT_FAILED;
    default:
        return SIM_EXIT_LOCAL;
    }
}
