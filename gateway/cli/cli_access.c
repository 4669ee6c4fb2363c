// Commands about tokens, tenants and devices' credentials: making, listing, revoking, resetting.
// The table in cli_commands.c names them; one thread. A new secret is printed once, alone on
// standard output, so that a script can keep it; the gateway does not show it again.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/duration.h"

#include <stdio.h>
#include <string.h>

#define EXPIRES_DAYS_MAX 3650u
#define DAY_S            86400

// A secret goes to standard output alone, so that it can be put into a file; the rest beside it.
static enum cli_exit show_secret(const struct cli *cli, json_t *token)
{
    if (cli->json) {
        return cli_show_take(CLI_EXIT_OK, token);
    }
    const char *secret = cli_json_text(token, "secret", NULL);
    fprintf(stderr, "token %s for %s (%s): the secret is shown this once\n",
            cli_json_text(token, "id", "?"), cli_json_text(token, "name", "?"),
            cli_json_text(token, "role", "?"));
    printf("%s\n", secret != NULL ? secret : "");
    json_decref(token);
    return secret != NULL ? CLI_EXIT_OK : cli_fail(CLI_EXIT_REFUSED, "the answer holds no secret");
}

static bool add_scopes(json_t *body, const char *list)
{
    json_t *scopes = json_array();
    bool ok = json_object_set_new(body, "scopes", scopes) == 0;
    while (ok && *list != '\0') {
        size_t size = strcspn(list, ",");
        ok = json_array_append_new(scopes, json_stringn(list, size)) == 0;
        list += size + (list[size] == ',' ? 1 : 0);
    }
    return ok;
}

// Posts a token's body with what the options say.
static enum cli_exit make_token(struct cli *cli, const char *role)
{
    uint64_t days = 0;
    uint64_t uses = 0;
    json_t *token = NULL;
    const char *name = cli->values[CLI_OPTION_NAME];
    const struct cli_range range = {1, EXPIRES_DAYS_MAX, 0, NULL}; // 0: it does not expire
    enum cli_exit code = cli_option_range(cli, CLI_OPTION_EXPIRES, &range, &days);
    if (code == CLI_EXIT_OK) {
        code = cli_option_u64(cli, CLI_OPTION_USES, 0, UINT32_MAX, &uses);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (name == NULL) {
        return cli_fail(CLI_EXIT_USAGE, "--name NAME is missing");
    }
    json_t *body = json_pack("{s:s, s:s, s:I, s:I}", "name", name, "role", role, "expires_in_s",
                             (json_int_t)days * DAY_S, "uses_max", (json_int_t)uses);
    bool ok = body != NULL;
    if (ok && cli_given(cli, CLI_OPTION_OWNER)) {
        ok = json_object_set_new(body, "owner", json_string(cli->values[CLI_OPTION_OWNER])) == 0;
    }
    if (ok && cli_given(cli, CLI_OPTION_SCOPES)) {
        ok = add_scopes(body, cli->values[CLI_OPTION_SCOPES]);
    }
    if (ok && cli_given(cli, CLI_OPTION_EVERY_TENANT)) {
        ok = json_object_set_new(body, "tenant", json_string("*")) == 0;
    }
    code = ok ? cli_api_call(cli, "POST", "/api/v1/tokens", body, &token)
              : cli_fail(CLI_EXIT_USAGE, "--name and --scopes are UTF-8 text");
    json_decref(body);
    return code == CLI_EXIT_OK ? show_secret(cli, token) : code;
}

enum cli_exit cli_token_new(struct cli *cli)
{
    const char *role = cli->values[CLI_OPTION_ROLE];
    if (role == NULL) {
        return cli_fail(CLI_EXIT_USAGE,
                        "--role ROLE is missing: viewer, releaser, approver, admin or enrol");
    }
    return make_token(cli, role);
}

enum cli_exit cli_device_enroll_token(struct cli *cli)
{
    return make_token(cli, "enrol");
}

static void print_list(const json_t *list)
{
    size_t index;
    json_t *item;
    if (json_array_size(list) == 0) {
        printf(" *");
    }
    json_array_foreach((json_t *)(uintptr_t)list, index, item)
    {
        printf("%s%s", index == 0 ? " " : ",", cli_shown(json_string_value(item)));
    }
}

static void print_token(const json_t *token)
{
    printf("%s %-10s %-20s owner %s tenant %s scopes", cli_json_text(token, "id", "?"),
           cli_json_text(token, "role", "?"), cli_json_text(token, "name", "?"),
           cli_json_text(token, "owner", "?"), cli_json_text(token, "tenant", "?"));
    print_list(json_object_get(token, "scopes"));
    static const char *const times[] = {"expires_s", "last_used_s", "revoked_s"};
    static const char *const names[] = {"expires", "used", "revoked"};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); ++i) {
        uint64_t seconds = cli_json_u64(token, times[i]);
        if (seconds != 0) {
            char text[TIME_TEXT_MAX];
            printf(" %s %s", names[i], time_text(seconds, false, text));
        }
    }
    putchar('\n');
}

enum cli_exit cli_token_list(struct cli *cli)
{
    json_t *page = NULL;
    size_t index;
    json_t *token;
    enum cli_exit code = cli_api_page(cli, "/api/v1/tokens", &page);

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, page);
    }
    json_array_foreach(json_object_get(page, "items"), index, token)
    {
        print_token(token);
    }
    const char *next = cli_json_text(page, "next", NULL);
    if (next != NULL) {
        printf("more: --after %s\n", next);
    }
    json_decref(page);
    return CLI_EXIT_OK;
}

// POST of PREFIX/ID/COMMAND.
static enum cli_exit command_on(struct cli *cli, const char *prefix, const char *command,
                                json_t **out)
{
    char path[CLI_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s", prefix);
    if (!cli_path_add(path, sizeof(path) - strlen(command), cli->args[0])) {
        return cli_fail(CLI_EXIT_USAGE, "id too long");
    }
    size_t size = strlen(path);
    (void)snprintf(path + size, sizeof(path) - size, "%s", command);
    return cli_api_call(cli, "POST", path, NULL, out);
}

enum cli_exit cli_token_revoke(struct cli *cli)
{
    json_t *token = NULL;
    enum cli_exit code = command_on(cli, "/api/v1/tokens/", "/revoke", &token);
    if (code == CLI_EXIT_OK && !cli->json) {
        printf("token %s of %s is revoked\n", cli_json_text(token, "id", "?"),
               cli_json_text(token, "name", "?"));
        json_decref(token);
        return code;
    }
    return cli_show_take(code, token);
}

static enum cli_exit device_command(struct cli *cli, const char *command)
{
    json_t *device = NULL;
    enum cli_exit code = command_on(cli, "/api/v1/devices/", command, &device);
    if (code == CLI_EXIT_OK && !cli->json) {
        printf("device %s credential %s\n", cli_json_text(device, "id", "?"),
               cli_json_text(device, "credential", "?"));
        json_decref(device);
        return code;
    }
    return cli_show_take(code, device);
}

enum cli_exit cli_device_revoke(struct cli *cli)
{
    return device_command(cli, "/revoke");
}

enum cli_exit cli_device_reset(struct cli *cli)
{
    return device_command(cli, "/reset");
}

enum cli_exit cli_tenant_new(struct cli *cli)
{
    json_t *tenant = NULL;
    json_t *body = json_pack("{s:s}", "name", cli->args[0]);
    enum cli_exit code = body != NULL ? cli_api_call(cli, "POST", "/api/v1/tenants", body, &tenant)
                                      : cli_fail(CLI_EXIT_USAGE, "the name is not UTF-8 text");
    json_decref(body);
    if (code == CLI_EXIT_OK && !cli->json) {
        printf("tenant %s\n", cli_json_text(tenant, "name", "?"));
        json_decref(tenant);
        return code;
    }
    return cli_show_take(code, tenant);
}

enum cli_exit cli_tenant_list(struct cli *cli)
{
    json_t *page = NULL;
    size_t index;
    json_t *tenant;
    enum cli_exit code = cli_api_call(cli, "GET", "/api/v1/tenants", NULL, &page);

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, page);
    }
    json_array_foreach(json_object_get(page, "items"), index, tenant)
    {
        printf("%s\n", cli_json_text(tenant, "name", "?"));
    }
    json_decref(page);
    return CLI_EXIT_OK;
}
