// Commands about devices. One thread.
#include "cli/cli.h"
#include "cli/cli_json.h"

#include <stdio.h>

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
            printf(" %s=%s", name, json_string_value(value));
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
