// Command `walle task stubs`: writes the stub files of a script's modules into a folder, where an
// editor finds them beside the scripts. The table in cli_commands.c names it; one thread. Files of
// an earlier version are written anew; nothing else is touched.
#include "cli/base/cli.h"
#include "cli/base/cli_files.h"
#include "cli/base/cli_json.h"
#include "cli/task/task_stubs.h"

#include "base/os/folder.h"
#include "base/os/output_file.h"

#include <stdio.h>
#include <string.h>

// Makes the folder and those below it that the file lies in.
static enum base_status write_stub(const char *folder, const struct task_stub *stub,
                                   struct base_error *error)
{
    char path[CLI_PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", folder, stub->path) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.80s: path too long", folder);
    }
    for (char *slash = path + strlen(folder); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        BASE_TRY(base_folder_make(path, error));
        *slash = '/';
    }
    return base_output_write(path, stub->text, stub->size, error);
}

enum cli_exit cli_task_stubs(struct cli *cli)
{
    const char *folder = cli->args[0];
    struct base_error error = {0};

    if (folder[0] == '\0') {
        return cli_fail(CLI_EXIT_USAGE, "DIR is empty: where the stub files go");
    }
    for (uint32_t i = 0; i < task_stub_count; ++i) {
        if (write_stub(folder, &task_stubs[i], &error) != BASE_OK) {
            return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
        }
    }
    if (cli->json) {
        return cli_show_take(CLI_EXIT_OK, json_pack("{s:s, s:I}", "folder", folder, "files",
                                                    (json_int_t)task_stub_count));
    }
    printf("%s: %u stub files of walle; an editor that looks there completes and checks scripts\n",
           folder, task_stub_count);
    return CLI_EXIT_OK;
}
