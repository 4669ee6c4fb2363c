// Asking for the cost of a set of tasks, and showing it. Called by `rollout plan` and `rollout
// start`; one thread. Both are in cli_release.c. The gateway adds up, since it alone knows the
// other tasks a device has; what does not fit is refused here before anything is signed, unless it
// was accepted with a reason.
#include "cli/rollout/rollout_cost.h"

#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"

#include <string.h>

enum cli_exit rollout_cost_ask(const struct cli *cli, const char *task,
                               const struct wire_sha256 *manifest, const json_t *target,
                               json_t **out_cost)
{
    char hex[WIRE_SHA256_HEX + 1];

    wire_sha256_hex(manifest, hex);
    json_t *body = json_pack("{s:s, s:s, s:O}", "task", task, "manifest", hex, "target", target);
    enum cli_exit code = cli_api_call(cli, "POST", "/api/v1/rollouts/cost", body, out_cost);
    json_decref(body);
    return code;
}

bool rollout_cost_fits(const json_t *cost)
{
    return json_is_true(json_object_get(cost, "fits"));
}

static void print_row(FILE *file, const char *name, const json_t *cost, const char *where)
{
    fprintf(file, "%-32s %8llu %8llu %8llu %8llu  %s\n", name,
            (unsigned long long)cli_json_u64(cost, "patterns"),
            (unsigned long long)cli_json_u64(cost, "work"),
            (unsigned long long)cli_json_u64(cost, "trigger_bytes"),
            (unsigned long long)cli_json_u64(cost, "declaration_bytes"), where);
}

void rollout_cost_print(FILE *file, const json_t *cost)
{
    const json_t *sum = json_object_get(cost, "sum");
    const json_t *budget = json_object_get(cost, "budget");
    const json_t *tasks = json_object_get(cost, "tasks");
    size_t index;
    json_t *task;
    char what[64];

    if (!json_is_true(json_object_get(cost, "declares"))) {
        return;
    }
    fprintf(file, "\n%-32s %8s %8s %8s %8s\n", "a phone would hold", "triggers", "steps", "memory",
            "declared");
    json_array_foreach(tasks, index, task)
    {
        print_row(file, cli_json_text(task, "task", "?"), task,
                  cli_json_text(task, "rollout", "this version"));
    }
    uint64_t count = cli_json_u64(sum, "tasks");
    if (count > json_array_size(tasks)) {
        fprintf(file, "and %llu more\n", (unsigned long long)(count - json_array_size(tasks)));
    }
    (void)snprintf(what, sizeof(what), "together, %llu task%s", (unsigned long long)count,
                   count == 1 ? "" : "s");
    print_row(file, what, sum, "");
    (void)snprintf(what, sizeof(what), "a phone has, %llu with triggers",
                   (unsigned long long)cli_json_u64(budget, "tasks"));
    fprintf(file, "%-32s %8s %8llu %8llu %8llu\n", what, "",
            (unsigned long long)cli_json_u64(budget, "work"),
            (unsigned long long)cli_json_u64(budget, "trigger_bytes"),
            (unsigned long long)cli_json_u64(budget, "declaration_bytes"));
    if (!rollout_cost_fits(cost)) {
        fprintf(file, "too much: %s\n", cli_json_text(cost, "why", "?"));
    }
}

enum cli_exit rollout_cost_check(const struct cli *cli, const json_t *cost)
{
    if (cli_given(cli, CLI_OPTION_ACCEPT_COST) && !cli_gives_reason(cli)) {
        return cli_fail(CLI_EXIT_USAGE, "--accept-cost needs --reason TEXT: it is kept");
    }
    if (rollout_cost_fits(cost) || cli_given(cli, CLI_OPTION_ACCEPT_COST)) {
        return CLI_EXIT_OK;
    }
    rollout_cost_print(stderr, cost);
    return cli_fail(CLI_EXIT_REFUSED,
                    "a phone cannot hold all of this: %s; narrow a target, end a rollout, or "
                    "--accept-cost --reason TEXT (devices leave out what is too much, and report "
                    "it)",
                    cli_json_text(cost, "why", "?"));
}
