// Names of tasks that are nearly what was typed. Called when the gateway says that there is no such
// task; one thread. cli_json.c calls it after a 404 about a task. It asks for the list of tasks
// with the same token, so a hint never names a task that the operator may not see.
#include "cli/base/task_hint.h"

#include "cli/base/cli_json.h"

#include "base/text/likeness.h"

#include <stdio.h>
#include <string.h>

#define TASKS_SEEN 500 // of those that there are

void task_hint(const struct cli *cli)
{
    bool by_option = cli_given(cli, CLI_OPTION_TASK);
    const char *name = by_option            ? cli->values[CLI_OPTION_TASK]
                       : cli->arg_count > 0 ? cli->args[0]
                                            : "";
    uint32_t best = (uint32_t)strnlen(name, BASE_LIKENESS_LETTERS) / 3 + 1; // may differ: fewer
    char path[CLI_PATH_MAX];
    const char *like = NULL;
    json_t *page = NULL;
    size_t index;
    json_t *item;

    (void)snprintf(path, sizeof(path), "/api/v1/tasks?limit=%d", TASKS_SEEN);
    if (name[0] == '\0' || cli_api_call(cli, "GET", path, NULL, &page) != CLI_EXIT_OK) {
        return;
    }
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        const char *other = cli_json_text(item, "name", "");
        uint32_t apart = base_likeness(base_str_of(name), base_str_of(other));
        if (apart > 0 && apart < best) {
            best = apart;
            like = other;
        }
    }
    if (like != NULL) {
        fprintf(stderr, "  did you mean %s?\n", like);
    }
    json_decref(page);
}
