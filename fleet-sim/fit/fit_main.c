// `walle-fleet-sim fit`: options, and the course from curves to a scenario. fleet_main.c calls it
// on the main thread. What makes no sense is said before anything is written; a scenario that is
// played and is farther off than it may be stays, for it says how far.
#include "fit/fit.h"

#include "base/check.h"
#include "base/text/str_cut.h"
#include "model/sim_exit.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define POINTS_DEFAULT    12u
#define EXCHANGES_DEFAULT 1u
#define WITHIN_DEFAULT    5.0

enum key {
    KEY_OUT = 256,
    KEY_ROLLOUT,
    KEY_MANIFEST,
    KEY_POINTS,
    KEY_EXCHANGES,
    KEY_CHECK,
    KEY_ROOT,
    KEY_WITHIN
};

static const struct argp_option table[] = {
    {"out", KEY_OUT, "FILE", 0, "Where the scenario goes (fitted.conf)", 0},
    {"manifest", KEY_MANIFEST, "SHA", 0,
     "Of a file: the version, by the beginning of its manifest's hash (the one most were offered)",
     0},
    {"rollout", KEY_ROLLOUT, "ID", 0, "Of a gateway's folder: the rollout", 0},
    {"points", KEY_POINTS, "N", 0, "Of the line through the arrivals, 1 to 16 (12)", 0},
    {"exchanges", KEY_EXCHANGES, "N", 0,
     "Answers that a device waits for between offer and first run, 1 to 64 (1): of the files; an "
     "update, or files over 64 KiB, take one each, and so does what is signed and did not come "
     "with "
     "the offer",
     0},
    {"check", KEY_CHECK, "DIR", 0,
     "Play the scenario on this data folder of a gateway that is not running, with a rollout to "
     "everybody, and hold the run's curves against those given",
     0},
    {"root", KEY_ROOT, "FILE", 0, "The root of its devices, for --check", 0},
    {"within", KEY_WITHIN, "POINTS", 0,
     "So far the run of --check may be off, in points of the fleet (5)", 0},
    {0, 0, 0, 0, 0, 0},
};

static uint32_t take_number(const char *option, const char *value, uint32_t most,
                            struct argp_state *state)
{
    uint64_t number = 0;
    if (base_str_u64(base_str_of(value), &number) != BASE_OK || number < 1 || number > most) {
        argp_error(state, "%s %.60s: a whole number, 1 to %u, is expected", option, value, most);
    }
    return (uint32_t)number;
}

static double take_points(const char *value, struct argp_state *state)
{
    char *end = NULL;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !(number >= 0) || number > 100) {
        argp_error(state, "--within %.60s: points, 0 to 100, are expected", value);
    }
    return number;
}

static const char *take_rollout(const char *value, struct argp_state *state)
{
    uint64_t id = 0;
    if (strlen(value) != WIRE_DEVICE_HEX || wire_device_parse(base_str_of(value), &id) != BASE_OK) {
        argp_error(state, "--rollout %.60s: an id of 16 hex digits is expected", value);
    }
    return value;
}

static error_t on_end(const struct sim_fit *fit, struct argp_state *state)
{
    if (fit->from == NULL) {
        argp_error(state, "a file of curves, or the data folder of a gateway, is expected");
    }
    if ((fit->check == NULL) != (fit->root == NULL)) {
        argp_error(state, "--check DIR and --root FILE go together");
    }
    return 0;
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct sim_fit *fit = state->input;
    switch (key) {
    case KEY_OUT:
        fit->out = value;
        return 0;
    case KEY_MANIFEST:
        fit->manifest = value;
        return 0;
    case KEY_ROLLOUT:
        fit->rollout = take_rollout(value, state);
        return 0;
    case KEY_POINTS:
        fit->points = take_number("--points", value, SIM_ARRIVAL_POINTS_MAX, state);
        return 0;
    case KEY_EXCHANGES:
        fit->exchanges = take_number("--exchanges", value, SIM_FIT_EXCHANGES_MAX, state);
        return 0;
    case KEY_CHECK:
        fit->check = value;
        return 0;
    case KEY_ROOT:
        fit->root = value;
        return 0;
    case KEY_WITHIN:
        fit->within = take_points(value, state);
        return 0;
    case ARGP_KEY_ARG:
        if (fit->from != NULL) {
            argp_error(state, "'%.60s': one file or folder is expected", value);
        }
        fit->from = value;
        return 0;
    case ARGP_KEY_END:
        return on_end(fit, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum base_status curves_read(struct sim_fit *fit, struct base_error *error)
{
    struct stat about;
    bool folder = stat(fit->from, &about) == 0 && S_ISDIR(about.st_mode);
    if (folder != (fit->rollout != NULL)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              folder ? "%.120s is a folder: --rollout says of which rollout"
                                     : "%.120s is no folder: --rollout is of a gateway's",
                              fit->from);
    }
    return folder ? sim_fit_folder(fit, error) : sim_fit_file(fit, error);
}

static enum base_status fit_all(struct sim_fit *fit, FILE *log, struct base_error *error)
{
    BASE_TRY(curves_read(fit, error));
    BASE_TRY(sim_fit_check(fit, error));
    sim_fit_arrivals(fit);
    sim_fit_delay(fit);
    BASE_TRY(sim_fit_write(fit, error));
    if (fit->check != NULL) {
        BASE_TRY(sim_fit_play(fit, log, error));
    }
    sim_fit_tell(fit, log);
    return BASE_OK;
}

int sim_fit_main(int argc, char **argv, FILE *log)
{
    static char name[] = "walle-fleet-sim fit";
    struct base_error error = {.status = BASE_OK};
    struct sim_fit fit = {.out = "fitted.conf",
                          .points = POINTS_DEFAULT,
                          .exchanges = EXCHANGES_DEFAULT,
                          .within = WITHIN_DEFAULT,
                          .checked_off = -1};
    const struct argp parser = {
        table,
        on_option,
        "COVERAGE.csv|GATEWAY_DIR",
        "A scenario for run --scenario whose curves are those of a rollout that was: arrivals as "
        "devices were offered the version, and the delay of answers by which they ran it later. "
        "The curves are a file (lines MANIFEST,STAGE,SECOND,DEVICES with the stages offered and "
        "ran, as a run's coverage.csv has them, or SECOND,DEVICES of offers alone), or come from "
        "the records of a stopped gateway's devices. The rollout has to have been to everybody: "
        "where stages held devices back, the stages are fitted as if devices had come late.\v"
        "Examples:\n"
        "  walle-fleet-sim fit coverage.csv --out real.conf\n"
        "  walle-fleet-sim fit gateway --rollout ID --check gateway-before --root root.1\n\n"
        "Exit status: 0 the scenario is written, 1 its run is farther off than --within, 2 usage "
        "or curves that make no sense, 4 files or memory, 6 no such version or rollout.",
        NULL,
        NULL,
        NULL};
    argv[0] = name;
    if (!sim_command_read(&parser, 0, argc, argv, &fit)) {
        return SIM_EXIT_USAGE;
    }
    enum base_status status = fit_all(&fit, log, &error);
    bool far = fit.checked_off > fit.within;
    sim_fit_done(&fit);
    if (status != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim fit: %s\n", error.text);
        return status == BASE_ERR_INVALID     ? SIM_EXIT_USAGE
               : status == BASE_ERR_NOT_FOUND ? SIM_EXIT_NOBODY_FITS
                                              : SIM_EXIT_LOCAL;
    }
    return far ? SIM_EXIT_FAILED : SIM_EXIT_OK;
}
