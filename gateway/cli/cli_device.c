// Commands about devices: one, a list, why a device does or does not get a task, and the user it is
// bound to. The table in cli_commands.c names them; one thread. Each asks the operator API and
// prints what comes, as text or as the JSON that came.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/rollout/reported_trace.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define BUCKETS_PERCENT 100.0 // that 1 % of the devices are

enum cli_exit cli_device_get(struct cli *cli)
{
    char path[CLI_PATH_MAX] = "/api/v1/devices/";
    json_t *device = NULL;

    if (!cli_path_add(path, sizeof(path), cli->args[0])) {
        return cli_fail(CLI_EXIT_USAGE, "device id too long");
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &device);
    return cli_show_take(code, device);
}

static void print_attrs(const json_t *attrs)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)attrs, name, value)
    {
        if (json_is_string(value)) {
            printf(" %s=%s", name, cli_shown(json_string_value(value)));
        } else if (json_is_integer(value)) {
            printf(" %s=%lld", name, (long long)json_integer_value(value));
        } else {
            printf(" %s=%s", name, json_is_true(value) ? "true" : "false");
        }
    }
}

enum cli_exit cli_device_list(struct cli *cli)
{
    json_t *page = NULL;
    size_t index;
    json_t *device;
    enum cli_exit code = cli_api_page(cli, "/api/v1/devices", &page);

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, page);
    }
    json_array_foreach(json_object_get(page, "items"), index, device)
    {
        printf("%s", cli_json_text(device, "id", "?"));
        print_attrs(json_object_get(device, "attrs"));
        putchar('\n');
    }
    const char *next = cli_json_text(page, "next", NULL);
    if (next != NULL) {
        printf("more: --after %s\n", next);
    }
    json_decref(page);
    return CLI_EXIT_OK;
}

// ---- How many there are

static void print_count(const char *name, const char *value, uint64_t devices, uint64_t all)
{
    printf("%-12s %-24s %12llu %6.2f %%\n", name, value, (unsigned long long)devices,
           all > 0 ? 100.0 * (double)devices / (double)all : 0);
}

static void print_counts(const char *name, const json_t *counts, uint64_t all)
{
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(counts, "values"), index, item)
    {
        print_count(name, cli_json_text(item, "value", "?"), cli_json_u64(item, "devices"), all);
    }
    if (cli_json_u64(counts, "other") > 0) {
        print_count(name, "(others)", cli_json_u64(counts, "other"), all);
    }
    if (cli_json_u64(counts, "without") > 0) {
        print_count(name, "(not told)", cli_json_u64(counts, "without"), all);
    }
}

enum cli_exit cli_device_count(struct cli *cli)
{
    char path[CLI_PATH_MAX] = "/api/v1/devices/count?by=";
    json_t *answer = NULL;
    const char *name;
    json_t *counts;

    if (cli->arg_count > 0 && !cli_path_add(path, sizeof(path), cli->args[0])) {
        return cli_fail(CLI_EXIT_USAGE, "name of an attribute too long");
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &answer);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, answer);
    }
    uint64_t all = cli_json_u64(answer, "devices");
    printf("%llu devices\n", (unsigned long long)all);
    json_object_foreach(json_object_get(answer, "by"), name, counts)
    {
        print_counts(name, counts, all);
    }
    json_decref(answer);
    return CLI_EXIT_OK;
}

// ---- Whose a device is

// Takes `body`.
static enum cli_exit put_user(const struct cli *cli, json_t *body)
{
    char path[CLI_PATH_MAX] = "/api/v1/devices/";
    json_t *device = NULL;

    if (body == NULL || !cli_path_add(path, CLI_PATH_MAX - 8, cli->args[0])) {
        json_decref(body);
        return cli_fail(CLI_EXIT_USAGE, "device id too long");
    }
    (void)snprintf(path + strlen(path), CLI_PATH_MAX - strlen(path), "/user");
    enum cli_exit code = cli_api_call(cli, "PUT", path, body, &device);
    json_decref(body);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, device);
    }
    const char *user = cli_json_text(device, "user", NULL);
    printf("device %s belongs to %s%s\n", cli_json_text(device, "id", "?"),
           user != NULL ? "user " : "nobody", user != NULL ? user : "");
    json_decref(device);
    return CLI_EXIT_OK;
}

enum cli_exit cli_device_bind(struct cli *cli)
{
    if (!cli_given(cli, CLI_OPTION_USER)) {
        return cli_fail(CLI_EXIT_USAGE, "--user NAME is needed: whose the device is");
    }
    return put_user(cli, json_pack("{s:s}", "user", cli->values[CLI_OPTION_USER]));
}

enum cli_exit cli_device_unbind(struct cli *cli)
{
    return put_user(cli, json_pack("{s:n}", "user"));
}

static void print_why_rollout(const struct cli *cli, const json_t *item)
{
    const char *test = cli_json_text(item, "test", NULL);
    const char *detail = cli_json_text(item, "detail", "");
    size_t index;
    json_t *state;

    printf("  rollout %s of %s %s%s: %s", cli_json_text(item, "rollout", "?"),
           cli_json_text(item, "version", "?"), cli_json_text(item, "state", "?"),
           json_is_true(json_object_get(item, "killed"))     ? " (killed)"
           : json_is_true(json_object_get(item, "baseline")) ? " (the baseline)"
                                                             : "",
           cli_json_text(item, "reason_text", "?"));
    if (test != NULL) {
        printf(" (%s)", test);
    } else {
        printf(" (bucket %.2f %%, stage %s takes devices below %g %%)",
               (double)cli_json_u64(item, "bucket") / BUCKETS_PERCENT,
               cli_json_text(item, "stage", "?"),
               (double)cli_json_u64(item, "max_bucket") / BUCKETS_PERCENT);
    }
    json_array_foreach(json_object_get(item, "states"), index, state)
    {
        const char *name = json_string_value(state);
        bool control = name != NULL && strcmp(name, "control") == 0;
        printf("%s%s", index == 0 ? "; " : ", ",
               control ? "control (told to run what it has once more)" : cli_shown(name));
    }
    if (json_is_string(json_object_get(item, "fingerprint"))) {
        printf("; %s %s [%s]", cli_json_text(item, "last", ""), detail,
               cli_json_text(item, "fingerprint", ""));
    }
    unsigned long long refusals = cli_json_u64(item, "privacy_refusals");
    if (refusals > 0) {
        printf("; its last run tried %llu %s to let go what may not leave", refusals,
               refusals == 1 ? "time" : "times");
    }
    putchar('\n');
    const char *build = cli->values[CLI_OPTION_BUILD];
    if (build != NULL && reported_trace_fits(build, cli->values[CLI_OPTION_TASK],
                                             cli_json_text(item, "version", ""))) {
        reported_trace_print(stdout, build, detail);
    }
}

// What the gateway did not take of it last, or it of the gateway; it goes on, and asks again.
static void print_failure(const json_t *why)
{
    const json_t *failure = json_object_get(why, "last_failure");
    uint64_t time_s = cli_json_u64(failure, "time_s");
    uint64_t now_s = base_clock_wall_us() / 1000000u;

    unsigned long long ago_s = now_s > time_s ? now_s - time_s : 0;
    if (json_is_object(failure) && strcmp(cli_json_text(failure, "what", ""), "refusal") == 0) {
        printf(
            "  it refused what the gateway told it, %llu s ago, and asks again at each check-in: "
            "%s\n",
            ago_s, cli_json_text(failure, "detail", ""));
    } else if (json_is_object(failure)) {
        printf("  its last %s that the gateway did not take, %llu s ago: %llu, %s\n",
               cli_json_text(failure, "what", "?"), ago_s,
               (unsigned long long)cli_json_u64(failure, "status"),
               cli_json_text(failure, "detail", ""));
    }
}

enum cli_exit cli_device_why(struct cli *cli)
{
    char path[CLI_PATH_MAX] = "/api/v1/devices/";
    json_t *why = NULL;
    size_t index;
    json_t *item;

    if (!cli_given(cli, CLI_OPTION_TASK)) {
        return cli_fail(CLI_EXIT_USAGE, "--task TASK is needed: what should be explained");
    }
    if (!cli_path_add(path, CLI_PATH_MAX / 2, cli->args[0])) {
        return cli_fail(CLI_EXIT_USAGE, "device id too long");
    }
    (void)snprintf(path + strlen(path), CLI_PATH_MAX - strlen(path), "/why?task=");
    if (!cli_path_add(path, CLI_PATH_MAX, cli->values[CLI_OPTION_TASK])) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &why);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, why);
    }
    const char *run =
        json_is_null(json_object_get(why, "should_rollout")) ? "nothing" : "a version";
    printf("device %s should run %s of %s: %s\n", cli_json_text(why, "device", "?"),
           cli_json_text(why, "should_version", run), cli_json_text(why, "task", "?"),
           cli_json_text(why, "why", "?"));
    print_failure(why);
    json_array_foreach(json_object_get(why, "rollouts"), index, item)
    {
        print_why_rollout(cli, item);
    }
    json_decref(why);
    return CLI_EXIT_OK;
}
