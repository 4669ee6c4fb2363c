// walle-fleet-sim: the program. Options, signals, and the run; `walle-fleet-sim tunnel` is the law
// of the tunnel on a fleet of its own, `walle-fleet-sim law` compares a run with the gateway's log;
// `certify`, `swarm` and `shrink` play many runs.
// Main thread. A signal only sets a flag that the coordinator looks at, so a run that is
// interrupted still writes its reports. The exit status is enum sim_exit of run/fleet_run.h for a
// run; the two other commands have their own, in their help.
#include "certify/certify.h"
#include "compare/compare.h"
#include "compare/diff_main.h"
#include "run/fleet_law.h"
#include "base/os/process_start.h"
#include "base/text/terminal.h"
#include "command/fleet_options.h"
#include "harvest/harvest.h"
#include "run/fleet_run.h"

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

int main(int argc, char **argv)
{
    base_process_start(SIM_EXIT_LOCAL);
    base_terminal_guard();
    if (base_process_version(argc, argv, "walle-fleet-sim")) {
        return EXIT_SUCCESS;
    }
    if (argc > 1 && strcmp(argv[1], "tunnel") == 0) {
        return sim_tunnel_law(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "law") == 0) {
        return sim_law_main(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "certify") == 0) {
        return sim_certify_main(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "conform") == 0) {
        return sim_conform_main(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "population") == 0) {
        return sim_harvest_main(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "verify") == 0) {
        return sim_verify_main(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "diff") == 0) {
        return sim_diff_main(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "swarm") == 0) {
        return sim_swarm_main(argc - 1, argv + 1, stdout);
    }
    if (argc > 1 && strcmp(argv[1], "shrink") == 0) {
        return sim_shrink_main(argc - 1, argv + 1, sim_options_table(), stdout);
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
