// `walle-fleet-sim fork`: options, the branches, the report. fleet_main.c calls it on the main
// thread; nothing is played before all that is asked for is known to make sense. What came of it
// goes to the terminal and into OUT/fork.
#include "fork/fork.h"

#include "base/check.h"
#include "base/text/str_cut.h"
#include "model/sim_exit.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum key { KEY_AT = 256, KEY_TO, KEY_BRANCH, KEY_JSON };

static const struct argp_option table[] = {
    {"at", KEY_AT, "SECOND", 0, "Virtual second of the run from which on branches differ", 0},
    {"branch", KEY_BRANCH, "'[NAME:] DEED; DEED'", 0,
     "What is done then: pause, resume, promote, abort or kill, an operator's word on the run's "
     "rollout; calm, no fault from then on; 'fault FAULT', as --fault of run has it, which devices "
     "meet from their next wake on. '+S DEED' is so many seconds later. Up to 7 branches",
     0},
    {"to", KEY_TO, "SECOND", 0, "All branches end then (when the run did)", 0},
    {"json", KEY_JSON, "FILE", 0, "Write the comparison there too, as JSON", 0},
    {0, 0, 0, 0, 0, 0},
};

struct parse {
    struct sim_fork *fork;
    const char *branches[SIM_BRANCHES_MAX];
    uint32_t branch_count;
};

static uint32_t take_second(const char *option, const char *value, struct argp_state *state)
{
    uint64_t number = 0;
    if (base_str_u64(base_str_of(value), &number) != BASE_OK || number < 1 ||
        number > SIM_ACT_AT_MAX) {
        argp_error(state, "%s %.60s: a whole second, 1 to %u, is expected", option, value,
                   SIM_ACT_AT_MAX);
    }
    return (uint32_t)number;
}

static void check_end(const struct parse *parse, struct argp_state *state)
{
    if (parse->fork->out == NULL) {
        argp_error(state, "one folder of a run is expected (its --out)");
    } else if (parse->fork->at_s == 0) {
        argp_error(state, "--at SECOND is expected: where the branches part");
    } else if (parse->branch_count == 0) {
        argp_error(state, "--branch is expected: what is done then, as in --branch pause");
    }
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct parse *parse = state->input;
    switch (key) {
    case KEY_AT:
        parse->fork->at_s = take_second("--at", value, state);
        return 0;
    case KEY_TO:
        parse->fork->to_s = take_second("--to", value, state);
        return 0;
    case KEY_BRANCH:
        if (parse->branch_count == SIM_BRANCHES_MAX - 1) {
            argp_error(state, "--branch: at most %u", SIM_BRANCHES_MAX - 1);
        }
        parse->branches[parse->branch_count++] = value;
        return 0;
    case KEY_JSON:
        parse->fork->json = value;
        return 0;
    case ARGP_KEY_ARG:
        if (parse->fork->out != NULL) {
            argp_error(state, "'%.60s': one folder of a run is expected", value);
        }
        parse->fork->out = value;
        return 0;
    case ARGP_KEY_END:
        check_end(parse, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum base_status branches_take(const struct parse *parse, struct base_error *error)
{
    struct sim_fork *fork = parse->fork;
    struct base_error inner = {.status = BASE_OK};
    fork->branches = calloc(SIM_BRANCHES_MAX, sizeof(*fork->branches));
    if (fork->branches == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    (void)snprintf(fork->branches[0].name, sizeof(fork->branches[0].name), "as-it-was");
    fork->count = 1;
    for (uint32_t i = 0; i < parse->branch_count; i++) {
        if (sim_branch_add(fork, parse->branches[i], &inner) != BASE_OK) {
            return base_error_set(error, BASE_ERR_INVALID, "--branch '%.60s': %s",
                                  parse->branches[i], inner.text);
        }
    }
    return sim_branches_place(fork, error);
}

static enum base_status fork_all(const struct parse *parse, FILE *log, struct base_error *error)
{
    char folder[PATH_MAX];
    BASE_TRY(branches_take(parse, error));
    BASE_TRY(sim_fork_play(parse->fork, log, error));
    (void)snprintf(folder, sizeof(folder), "%.4000s/fork", parse->fork->out);
    return sim_fork_report(parse->fork, folder, log, error);
}

static bool any_broken(const struct sim_fork *fork)
{
    bool broken = false;
    for (uint32_t i = 0; i < fork->count; i++) {
        broken = broken || fork->branches[i].broken[0] != '\0';
    }
    return broken;
}

int sim_fork_main(int argc, char **argv, FILE *log)
{
    static char name[] = "walle-fleet-sim fork";
    struct base_error error = {.status = BASE_OK};
    struct sim_fork fork = {.out = NULL};
    struct parse parse = {.fork = &fork};
    const struct argp parser = {
        table,
        on_option,
        "OUT",
        "What if, from a second of a run in virtual time on? Plays the run of OUT/repro.txt once "
        "more as it was, and once for each --branch, with the same devices and the same draws, and "
        "tells what differs: devices reached and harmed, time to detect, requests. Everything "
        "before that second has to come again as it was, or nothing is compared. The comparison is "
        "OUT/fork/fork.html and fork.json, each branch a run in OUT/fork/NAME.\vExamples:\n"
        "  walle-fleet-sim fork out/fleet --at 120 --branch pause --branch abort\n"
        "  walle-fleet-sim fork out/fleet --at 60 --branch 'slower: pause; +300 resume' \\\n"
        "      --branch 'bad-net: fault network:loss @ 5%'\n\n"
        "Exit status: 0 all were played, 1 an invariant broke in one of them, 2 usage or a run "
        "that cannot be forked there, 4 files or memory, a run that does not come again as it was, "
        "or a deed that the gateway refused.",
        NULL,
        NULL,
        NULL};
    argv[0] = name;
    if (!sim_command_read(&parser, 0, argc, argv, &parse)) {
        return SIM_EXIT_USAGE;
    }
    enum base_status status = fork_all(&parse, log, &error);
    int code = any_broken(&fork) ? SIM_EXIT_FAILED : SIM_EXIT_OK;
    sim_fork_done(&fork);
    if (status != BASE_OK) {
        return sim_command_failed(name, status, &error);
    }
    return code;
}
