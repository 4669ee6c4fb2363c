// walle-fleet-sim: the program. Options, signals, and the run; `walle-fleet-sim tunnel` is the law
// of the tunnel on a fleet of its own, `walle-fleet-sim law` compares a run with the gateway's log;
// `certify`, `swarm` and `shrink` play many runs.
// Main thread. A signal only sets a flag that the coordinator looks at, so a run that is
// interrupted still writes its reports. The exit status is enum sim_exit of run/fleet_run.h for a
// run; the two other commands have their own, in their help.
#include "certify/certify.h"
#include "compare/compare.h"
#include "compare/diff_main.h"
#include "compare/fleet_law.h"
#include "base/os/process_start.h"
#include "fit/fit.h"
#include "fork/fork.h"
#include "base/text/terminal.h"
#include "command/fleet_options.h"
#include "harvest/harvest.h"
#include "run/fleet_run.h"
#include "story/device_replay.h"

#include "swarm/sim_case.h"
#include "tunnel/tunnel_law.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static int shrink(int argc, char **argv, FILE *log)
{
    return sim_shrink_main(argc, argv, sim_options_table(), log);
}

// Commands with options of their own; run and simulate share theirs.
static const struct command {
    const char *name;
    int (*main)(int argc, char **argv, FILE *log);
} commands[] = {
    {"tunnel", sim_tunnel_law},       {"law", sim_law_main},
    {"certify", sim_certify_main},    {"conform", sim_conform_main},
    {"verify", sim_verify_main},      {"diff", sim_diff_main},
    {"population", sim_harvest_main}, {"fork", sim_fork_main},
    {"swarm", sim_swarm_main},        {"shrink", shrink},
    {"replay", sim_replay_main},      {"fit", sim_fit_main},
};

int main(int argc, char **argv)
{
    base_process_start(SIM_EXIT_LOCAL);
    base_terminal_guard();
    if (base_process_version(argc, argv, "walle-fleet-sim")) {
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].main(argc - 1, argv + 1, stdout);
        }
    }
    struct sim_options *options = calloc(1, sizeof(*options));
    struct base_error error = {.status = BASE_OK};
    if (options == NULL) {
        return SIM_EXIT_LOCAL;
    }
    enum base_status status = sim_options_parse(argc, argv, options, &error);
    if (status != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim: %s\n", error.text);
        sim_options_done(options);
        free(options);
        return status == BASE_ERR_NOT_FOUND ? SIM_EXIT_NOBODY_FITS : SIM_EXIT_USAGE;
    }
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    enum sim_exit code = sim_fleet_run(options, &interrupted, stdout);
    sim_options_done(options);
    free(options);
    return code;
}
